package jetlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var errNoTurn = errors.New("item without a valid turn")

// Push is bus.Queue's.
func (b *Bus) Push(ctx context.Context, it bus.Item) error {
	placement, err := placementOf(it.Placement)
	if err != nil {
		return fmt.Errorf("push turn %s: %w", it.Turn, err)
	}
	if err := b.push(ctx, bus.QueuePrefix+placement, it); err != nil {
		return fmt.Errorf("push turn %s to placement %s: %w", it.Turn, placement, err)
	}
	return nil
}

// Wake is bus.Queue's.
func (b *Bus) Wake(ctx context.Context, it bus.Item) error {
	if err := b.push(ctx, bus.WakePrefix+it.Turn.Trace+"."+it.Turn.Turn, it); err != nil {
		return fmt.Errorf("wake turn %s: %w", it.Turn, err)
	}
	return nil
}

func (b *Bus) push(ctx context.Context, subject string, it bus.Item) error {
	body, err := encodeItem(it)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: subject, Data: body}
	if it.ID != "" {
		if !headerSafe(it.ID) {
			return fmt.Errorf("item id %q must be printable characters without blanks", clip([]byte(it.ID)))
		}
		m.Header = nats.Header{headerMsgID: {it.ID}}
	}
	_, err = b.puts.store(ctx, m)
	return unavailable(err)
}

func encodeItem(it bus.Item) ([]byte, error) {
	if it.Turn.Check() != nil {
		return nil, fmt.Errorf("%w: %w", errNoTurn, it.Turn.Check())
	}
	return msgpack.Marshal(&it)
}

func decodeItem(data []byte) (bus.Item, error) {
	var it bus.Item
	if err := msgpack.Unmarshal(data, &it); err != nil {
		return it, fmt.Errorf("item: %w", err)
	}
	if err := it.Turn.Check(); err != nil {
		return it, fmt.Errorf("%w: %w", errNoTurn, err)
	}
	return it, nil
}

func placementOf(name string) (string, error) {
	if name == "" {
		name = events.DefaultPlacement
	}
	return name, events.CheckID("placement", name)
}

// Pull is bus.Queue's.
func (b *Bus) Pull(ctx context.Context, placements []string) (bus.Delivery, error) {
	if len(placements) == 0 {
		return nil, errors.New("pull: no placement named")
	}
	lanes := make([]*lane, 0, len(placements))
	for _, name := range placements {
		p, err := placementOf(name)
		if err != nil {
			return nil, fmt.Errorf("pull: %w", err)
		}
		lanes = append(lanes, b.turns.lane(bus.QueuePrefix+p, "turns_"+p))
	}
	return b.pull(ctx, lanes)
}

// wakeConsumer is the consumer of wake-ups, and wakeWait how long a node may take to
// pass one on, which takes milliseconds, before another one gets it as well.
const (
	wakeConsumer = "wake"
	wakeWait     = 5 * time.Second
)

// PullWake is bus.Queue's.
func (b *Bus) PullWake(ctx context.Context) (bus.Delivery, error) {
	return b.pull(ctx, []*lane{b.turns.lane(bus.WakePrefix+">", wakeConsumer)})
}

func (b *Bus) pull(ctx context.Context, lanes []*lane) (bus.Delivery, error) {
	d, err := b.turns.wait(ctx, lanes)
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return d, nil
}

// Return is bus.Queue's.
func (b *Bus) Return(ctx context.Context, reply string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f := strings.SplitN(reply, ".", 3); len(f) < 3 || f[0] != "$JS" || f[1] != "ACK" || strings.ContainsAny(reply, "*> \t\r\n") {
		return fmt.Errorf("return %q: not a delivery's reply subject", clip([]byte(reply)))
	}
	return b.turns.answer(reply, ackNak)
}

// Answers to a delivery.
var (
	ackDone = []byte("+ACK")
	ackMore = []byte("+WPI")
	ackNak  = []byte("-NAK")
	ackTerm = []byte("+TERM")
)

// delivery is a message in this node's hands.
type delivery struct {
	p     *puller
	item  bus.Item
	reply string
	count int
}

func (d *delivery) Item() bus.Item  { return d.item }
func (d *delivery) Reply() string   { return d.reply }
func (d *delivery) Deliveries() int { return d.count }

// Of compares the places in the stream: all our consumers are of one.
func (d *delivery) Of(reply string) bool {
	mine, err := ackFields(d.reply)
	if err != nil {
		return false
	}
	other, err := ackFields(reply)
	return err == nil && mine[1] == other[1]
}
func (d *delivery) Extend() error { return d.p.answer(d.reply, ackMore) }
func (d *delivery) Ack() error    { return d.p.answer(d.reply, ackDone) }

func (d *delivery) Nak(after time.Duration) error {
	if after <= 0 {
		return d.p.answer(d.reply, ackNak)
	}
	return d.p.answer(d.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, after))
}

func newDelivery(p *puller, m *nats.Msg) (*delivery, error) {
	f, err := ackFields(m.Reply)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return nil, err
	}
	it, err := decodeItem(m.Data)
	return &delivery{p: p, item: it, reply: m.Reply, count: n}, err
}

// consumer is the durable consumer of a lane. Nodes of one cluster should agree
// on its figures; the last one that opens sets them.
func (b *Bus) consumer(l *lane) jetstream.ConsumerConfig {
	wait := b.cfg.ackWait()
	if l.consumer == wakeConsumer { // nobody has it for long: a node that dies with it holds a cancel up
		wait = min(wait, wakeWait)
	}
	return jetstream.ConsumerConfig{
		Durable: l.consumer, FilterSubject: l.subject, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: wait, MaxDeliver: -1,
		MaxAckPending: b.cfg.maxAckPending(), MaxWaiting: 16 << 10,
	}
}

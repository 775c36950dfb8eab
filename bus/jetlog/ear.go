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
)

const (
	earBatch   = 256
	earExpires = 10 * time.Second // of one pull; also how often a silent reader looks whether the log was rewound
	earBeat    = 2 * time.Second  // the server's sign of life while nothing comes
)

// errEar says that a consumer was lost, or has lost messages: make another.
var errEar = errors.New("consumer lost")

// ear is a consumer of the mirror that hears new messages in order. It holds at
// most one pull's messages ahead of its reader.
type ear struct {
	bus  *Bus
	name string
	sub  *nats.Subscription
	got  chan *nats.Msg
	pull *nats.Msg
	due  int    // messages that the current pull may still bring
	last uint64 // consumer sequence
	loss <-chan struct{}
	wake *time.Timer
}

func newEar(ctx context.Context, b *Bus, c jetstream.ConsumerConfig) (*ear, error) {
	e := &ear{bus: b, got: make(chan *nats.Msg, 2*earBatch), loss: b.scan.loss(), wake: time.NewTimer(time.Hour)}
	info, err := b.reader.CreateConsumer(ctx, StreamRead, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEar, err)
	}
	e.name = info.CachedInfo().Name
	inbox := b.scan.nc.NewInbox()
	if e.sub, err = b.scan.nc.ChanSubscribe(inbox, e.got); err != nil {
		e.close(ctx)
		return nil, fmt.Errorf("%w: %w", errEar, err)
	}
	e.pull = &nats.Msg{
		Subject: nextSubject(StreamRead, e.name), Reply: inbox,
		Data: fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, earBatch, earExpires, earBeat),
	}
	return e, nil
}

func nextSubject(stream, consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer
}

// close deletes the consumer: the server would keep it for a while.
func (e *ear) close(ctx context.Context) {
	e.wake.Stop()
	if e.sub != nil {
		_ = e.sub.Unsubscribe() // fails only on a closed connection
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if err := e.bus.reader.DeleteConsumer(ctx, StreamRead, e.name); err != nil {
		e.bus.log.Debug("tail: consumer not deleted; it ends by itself in a minute", "consumer", e.name, "err", err)
	}
}

// hear waits for messages and returns those that are there, at most a batch. It
// returns none after a pull that brought none.
func (e *ear) hear(ctx context.Context) ([]raw, error) {
	if e.due == 0 {
		if err := e.bus.scan.nc.PublishMsg(e.pull); err != nil {
			return nil, fmt.Errorf("%w: %w", errEar, err)
		}
		e.due = earBatch
	}
	var out []raw
	for {
		m, err := e.next(ctx, len(out) == 0)
		if err != nil || m == nil {
			return out, err
		}
		r, over, err := e.read(m)
		if err != nil {
			return nil, err
		}
		if r.seq > 0 {
			out = append(out, r)
		}
		if e.due == 0 || over {
			e.due = 0
			return out, nil
		}
	}
}

// next is the next message, or nil if there is none and it must not wait.
func (e *ear) next(ctx context.Context, wait bool) (*nats.Msg, error) {
	select {
	case m := <-e.got:
		return m, nil
	default:
	}
	if !wait {
		return nil, nil
	}
	e.wake.Reset(3 * earBeat)
	select {
	case m := <-e.got:
		return m, nil
	case <-e.loss:
		return nil, fmt.Errorf("%w: %w", errEar, errLinkLost)
	case <-e.wake.C:
		return nil, fmt.Errorf("%w: it is silent", errEar)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read takes a message, or a sign of life (neither r nor over), or the end of a
// pull. A gap in the consumer's own numbers is an error.
func (e *ear) read(m *nats.Msg) (r raw, over bool, err error) {
	switch status := m.Header.Get("Status"); {
	case len(m.Data) > 0 || status == "":
	case status == "100":
		return r, false, nil
	case status == "408" || status == "404":
		return r, true, nil
	default:
		return r, true, fmt.Errorf("%w: %s %s", errEar, status, m.Header.Get("Description"))
	}
	seq, number, err := ackNumbers(m.Reply)
	if err != nil || number != e.last+1 {
		return r, false, fmt.Errorf("%w: message %d follows %d", errEar, number, e.last)
	}
	e.last = number
	e.due--
	return raw{seq: seq, subject: m.Subject, body: m.Data}, false, nil
}

// ackNumbers reads the stream and consumer sequences from a delivery's reply
// subject, in either of its two forms.
func ackNumbers(reply string) (stream, consumer uint64, err error) {
	f, err := ackFields(reply)
	if err != nil {
		return 0, 0, err
	}
	stream, err = strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	consumer, err = strconv.ParseUint(f[2], 10, 64)
	return stream, consumer, err
}

// ackFields are deliveries, stream sequence and consumer sequence of a reply
// subject: $JS.ACK.<stream>.<consumer>.<d>.<s>.<c>.<time>.<pending>, or the
// newer form with domain and account before the stream.
func ackFields(reply string) ([3]string, error) {
	f := strings.Split(reply, ".")
	if len(f) < 9 || f[0] != "$JS" || f[1] != "ACK" {
		return [3]string{}, fmt.Errorf("reply subject %q is no delivery's", clip([]byte(reply)))
	}
	at := 4
	if len(f) >= 11 {
		at = 6
	}
	return [3]string{f[at], f[at+1], f[at+2]}, nil
}

package jetlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/sluice-run/sluice/bus"
)

var _ bus.Doors = (*Bus)(nil)

// Headers of requests and answers.
const (
	headerStatus = "Sluice-Status" // of every answer, as HTTP has it
	headerParent = "Traceparent"
	headerType   = "Content-Type"
)

// doorQueue is the queue group of all who serve.
const doorQueue = "sluice"

// Bounds of what waits for a door that is busy.
const (
	doorWaiting      = 4 * bus.DoorsAtOnce
	doorWaitingBytes = 64 << 20
)

// ServeDoor is bus.Doors'. It has a connection of its own, and is found by those who
// look for NATS services.
func (b *Bus) ServeDoor(ctx context.Context, d bus.Door) error {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	nc, err := b.cfg.Connect("sluice-door")
	if err != nil {
		return fmt.Errorf("serve door %s: %w", d.Name, unavailable(err))
	}
	defer nc.Close()
	p := &porch{nc: nc, door: d, ctx: ctx, log: b.log, slots: make(chan struct{}, bus.DoorsAtOnce), told: newTold(d)}
	subs, err := p.open()
	if err != nil {
		return fmt.Errorf("serve door %s: %w", d.Name, unavailable(err))
	}
	<-ctx.Done()
	for _, s := range subs {
		_ = s.Unsubscribe() // fails only on a closed connection
	}
	p.shut()
	if nc.IsConnected() {
		_ = nc.FlushTimeout(time.Second) // the last answers; who does not hear one asks again
	}
	return context.Cause(ctx)
}

// porch is where requests come in.
type porch struct {
	nc    *nats.Conn
	door  bus.Door
	ctx   context.Context // of ServeDoor
	log   *slog.Logger
	slots chan struct{}
	told  *told

	sparing sparing

	mu     sync.Mutex // of closed, so that nothing begins once shut waits
	closed bool
	wg     sync.WaitGroup
}

func (p *porch) open() ([]*nats.Subscription, error) {
	sub, err := p.nc.QueueSubscribe(bus.DoorPrefix+"*.*", doorQueue, p.hear)
	if err != nil {
		return nil, err
	}
	if err := sub.SetPendingLimits(doorWaiting, doorWaitingBytes); err != nil {
		return nil, err
	}
	more, err := p.told.open(p.nc)
	return append(more, sub), err
}

// shut waits for the answers that are being made.
func (p *porch) shut() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wg.Wait()
}

// hear takes a request. What cannot be answered to its user alone is dropped BEFORE
// anything is done: the reply subject is the sender's choice, and this connection may
// publish where senders may not, into the log above all.
func (p *porch) hear(m *nats.Msg) {
	user, verb, err := bus.ParseDoorSubject(m.Subject)
	if err != nil || !bus.InInbox(m.Reply, bus.InboxOf(user)) {
		if p.sparing.may(p.log) {
			p.log.Warn("door: a request was dropped, whose answer would not reach its user's own inbox: give the client the inbox prefix "+
				bus.InboxPrefix+"<user>", "subject", clipped(m.Subject), "reply", clipped(m.Reply))
		}
		return
	}
	select {
	case p.slots <- struct{}{}:
	default:
		p.answer(m.Reply, verb, bus.BusyAnswer(), 0)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return // another node, or the next start, answers when it is asked again
	}
	p.wg.Go(func() {
		defer func() { <-p.slots }()
		begun := time.Now()
		k := bus.Knock{User: user, Verb: verb, Body: m.Data, Traceparent: m.Header.Get(headerParent)}
		a := p.door.Answer(p.ctx, k)
		if len(a.Body) > bus.MaxAnswer {
			a = bus.LargeAnswer(len(a.Body))
		}
		p.answer(m.Reply, verb, a, time.Since(begun))
	})
}

// answer publishes an answer. Only what hear has checked comes as reply.
func (p *porch) answer(reply, verb string, a bus.Answer, took time.Duration) {
	p.told.count(verb, a, took)
	m := &nats.Msg{Subject: reply, Data: a.Body, Header: nats.Header{
		headerStatus: {strconv.Itoa(a.Status)}, headerType: {"application/json"},
	}}
	if a.Error != "" {
		m.Header.Set(headerType, "application/problem+json")
		m.Header.Set(micro.ErrorHeader, headerLine(a.Error))
		m.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(a.Status))
	}
	if err := p.nc.PublishMsg(m); err != nil {
		p.log.Warn("door: an answer was not sent", "verb", verb, "status", a.Status, "bytes", len(a.Body), "err", err)
	}
}

// maxHeaderLine is the size in bytes of the longest line of an error in a header.
const maxHeaderLine = 256

// headerLine is a text that can stand in a header: printable ASCII.
func headerLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), maxHeaderLine)])
}

// Knock is bus.Doors'. The answer comes to the user's own inbox, which this
// connection must be allowed to hear.
func (b *Bus) Knock(ctx context.Context, k bus.Knock) (bus.Answer, error) {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	m, err := knockMsg(k)
	if err != nil {
		return bus.Answer{}, err
	}
	m.Reply = bus.InboxOf(k.User) + nats.NewInbox()[len(nats.InboxPrefix):]
	sub, err := b.live.nc.SubscribeSync(m.Reply)
	if err != nil {
		return bus.Answer{}, knockError(k, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := b.live.nc.PublishMsg(m); err != nil {
		return bus.Answer{}, knockError(k, err)
	}
	got, err := sub.NextMsgWithContext(ctx)
	return answered(ctx, k, got, err)
}

func knockMsg(k bus.Knock) (*nats.Msg, error) {
	m := &nats.Msg{Subject: bus.DoorSubject(k.User, k.Verb), Data: k.Body}
	if _, _, err := bus.ParseDoorSubject(m.Subject); err != nil {
		return nil, err
	}
	if k.Traceparent != "" {
		m.Header = nats.Header{headerParent: {headerLine(k.Traceparent)}}
	}
	return m, nil
}

func knockError(k bus.Knock, err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		err = fmt.Errorf("%w: %d bytes: %w", bus.ErrTooLarge, len(k.Body), err)
	}
	return fmt.Errorf("ask for %s as %s: %w", clip([]byte(k.Verb)), clip([]byte(k.User)), unavailable(err))
}

// answered reads what came back for a request.
func answered(ctx context.Context, k bus.Knock, m *nats.Msg, err error) (bus.Answer, error) {
	if err == nil && len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		err = nats.ErrNoResponders
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return bus.Answer{}, knockError(k, err)
	}
	a := bus.Answer{Body: m.Data, Error: m.Header.Get(micro.ErrorHeader)}
	if a.Status, err = strconv.Atoi(m.Header.Get(headerStatus)); err != nil || a.Status < 100 || a.Status > 599 {
		return bus.Answer{}, fmt.Errorf("ask for %s: what answers is no door of Sluice: it has no header %s", k.Verb, headerStatus)
	}
	return a, nil
}

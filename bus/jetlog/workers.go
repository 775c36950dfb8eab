package jetlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
)

var _ bus.Workers = (*Bus)(nil)

// bench is the connection on which workers are spoken to. It is made when it is first
// needed, and is nobody else's: what a worker floods it with delays no other.
type bench struct {
	mu     sync.Mutex
	link   *link
	closed bool
}

// workers is the connection to workers.
func (b *Bus) workers() (*nats.Conn, error) {
	b.bench.mu.Lock()
	defer b.bench.mu.Unlock()
	switch {
	case b.bench.closed:
		return nil, errClosed
	case b.bench.link != nil:
		return b.bench.link.nc, nil
	}
	nc, err := b.cfg.Connect("sluice-workers")
	if err != nil {
		return nil, unavailable(err)
	}
	b.bench.link = newLink(nc)
	b.wg.Go(func() { b.bench.link.watch(b.ctx) })
	return nc, nil
}

func (b *bench) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.link != nil {
		closeLink(b.link)
	}
}

// HearWorkers is bus.Workers'. Of announcements that come too fast some are dropped:
// they are repeated anyway.
func (b *Bus) HearWorkers(ctx context.Context, hear func(bus.Announcement)) error {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	nc, err := b.workers()
	if err != nil {
		return fmt.Errorf("hear workers: %w", err)
	}
	sub, err := bounded(nc, bus.HerePrefix+"*.*.*")
	if err != nil {
		return fmt.Errorf("hear workers: %w", unavailable(err))
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	hear(bus.Announcement{})
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			tool, w, err := bus.ParseHereSubject(m.Subject)
			if err != nil {
				b.log.Debug("workers: an announcement was dropped", "err", err)
				continue
			}
			hear(bus.Announcement{Tool: tool, Worker: w, Body: m.Data})
		case errors.Is(err, nats.ErrSlowConsumer):
			b.log.Warn("workers: announcements come faster than they are heard, and some were dropped")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return fmt.Errorf("hear workers: %w", unavailable(err))
		}
	}
}

// bounded subscribes, and holds no more than bus.MaxUnheard.
func bounded(nc *nats.Conn, subject string) (*nats.Subscription, error) {
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		return nil, err
	}
	return sub, sub.SetPendingLimits(bus.MaxUnheard, bus.MaxUnheardBytes)
}

// TellWorker is bus.Workers'.
func (b *Bus) TellWorker(ctx context.Context, w bus.Worker, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	nc, err := b.workers()
	if err != nil {
		return fmt.Errorf("tell worker %s: %w", w, err)
	}
	return said("tell worker", nc.Publish(bus.WorkerSubject(w), body))
}

// said gives an error of publishing its meaning.
func said(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%s: %w: %w", what, bus.ErrTooLarge, err)
	}
	return fmt.Errorf("%s: %w", what, unavailable(err))
}

// OpenJob is bus.Workers'.
func (b *Bus) OpenJob(ctx context.Context, boot string) (bus.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nc, err := b.workers()
	if err != nil {
		return nil, fmt.Errorf("open a job: %w", err)
	}
	j := &job{nc: nc, boot: boot, id: rand.Text(), cuts: nc.Stats().Reconnects, in: make(chan *nats.Msg, 4), over: make(chan struct{}), bus: b.ctx}
	// Not SubscribeSync: its channel alone has half a megabyte.
	j.sub, err = nc.Subscribe(bus.AnswerSubject(boot, j.id, "*"), j.put)
	if err == nil {
		err = j.sub.SetPendingLimits(bus.MaxUnheard, bus.MaxUnheardBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("open a job: %w", unavailable(err))
	}
	return j, nil
}

// job is bus.Job, with a subscription of its own: what one worker floods it with is
// dropped there alone. Its places are random, so that nobody finds one who was not told.
type job struct {
	nc       *nats.Conn
	sub      *nats.Subscription
	boot, id string
	place    atomic.Pointer[string] // where the worker answers that it was handed to; nil: nobody has it
	cuts     uint64                 // how often the connection had come back when last looked
	in       chan *nats.Msg         // what was said; the rest waits in sub, within its limits
	over     chan struct{}          // closed by Close
	once     sync.Once
	bus      context.Context // the bus' own life
}

// put hands over what was said, once it is heard.
func (j *job) put(m *nats.Msg) {
	select {
	case j.in <- m:
	case <-j.over:
	case <-j.bus.Done():
	}
}

// Offer is bus.Job's.
func (j *job) Offer(tool string, body []byte) error {
	return said("offer "+tool, j.nc.PublishRequest(bus.ToolSubject(tool), bus.AnswerSubject(j.boot, j.id, bus.OfferPlace), body))
}

// Hand is bus.Job's.
func (j *job) Hand(w bus.Worker, body []byte) error {
	place := rand.Text()
	j.place.Store(&place)
	return said("hand to worker", j.nc.PublishRequest(bus.WorkerSubject(w), bus.AnswerSubject(j.boot, j.id, place), body))
}

// Hear is bus.Job's.
func (j *job) Hear(ctx context.Context) (bus.Said, error) {
	for {
		select {
		case m := <-j.in:
			if s, ok := j.read(m); ok {
				s.Missed, _ = j.sub.Dropped() // fails only once it is closed
				return s, nil
			}
		case <-j.over:
			return bus.Said{}, fmt.Errorf("hear a worker: %w: the job is closed", bus.ErrUnavailable)
		case <-j.bus.Done():
			return bus.Said{}, fmt.Errorf("hear a worker: %w", errClosed)
		case <-ctx.Done():
			if n := j.nc.Stats().Reconnects; n != j.cuts || !j.nc.IsConnected() {
				j.cuts = n
				return bus.Said{}, fmt.Errorf("hear a worker: %w: the connection to NATS was lost", bus.ErrUnavailable)
			}
			return bus.Said{}, ctx.Err()
		}
	}
}

// read is what a message says; ok is false for one at a place that nobody was told.
func (j *job) read(m *nats.Msg) (s bus.Said, ok bool) {
	at := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	if at == bus.OfferPlace {
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return bus.Said{Nobody: true}, true
		}
		return bus.Said{Body: m.Data}, true
	}
	place := j.place.Load()
	return bus.Said{Taken: true, Body: m.Data}, place != nil && at == *place
}

// Close is bus.Job's.
func (j *job) Close() {
	j.once.Do(func() {
		close(j.over)
		_ = j.sub.Unsubscribe() // fails only on a closed connection
	})
}

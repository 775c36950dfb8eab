// Package otlp tells a collector of OpenTelemetry what the log holds: the spans of
// turns, calls, attempts and waits. It reads the log behind everything else, from a
// cursor that all nodes share, so that no span is lost with a node, and nothing that
// runs ever waits for a collector.
package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/role"
)

// Config is what an exporter is made of. Desk, Bus, Target and Holder are required; zero
// elsewhere means the default beside the field.
type Config struct {
	Desk   *gateway.Desk
	Bus    bus.Bus
	Target Target
	Holder string // who exports: unlike any other in the cluster

	Resource map[string]string // attributes of what the spans are of; service.name is sluice where it has none
	Version  string            // of the program
	Content  bool              // with arguments and results; secrets are taken out, and what is long is cut

	Look  time.Duration // between looks at the log; 0 means 1 s
	Pause time.Duration // before a batch is sent again; it doubles up to a minute; 0 means 1 s
	Grace time.Duration // how long Stop goes on sending what is in the log; 0 means 3 s
	Lease time.Duration // how long the role of the exporter outlives who has it; 0 means 10 s
	Batch int           // spans of one request; 0 means 512

	Log  *slog.Logger     // nil discards
	Now  func() time.Time // nil means time.Now
	Rand func() float64   // from 0 to 1, for jitter; nil means half
}

// Cells of exporters. Those of locks have hexadecimal names.
const (
	leaseCell  = "otlp-lease"
	cursorCell = "otlp-cursor"
)

// Exporter sends the spans of a log to a collector: each at least once, and with the
// same id each time. One node of a cluster sends. It is a prometheus.Collector.
type Exporter struct {
	Config
	sender  sender
	folds   *folds
	birth   events.Position // where a log begins to be told that no exporter has told yet
	closing chan struct{}
	once    sync.Once
	stop    context.CancelFunc
	wg      sync.WaitGroup

	counts counts
}

// New makes an exporter. It starts nothing: see Start. The error says what is wrong with
// the target.
func New(c Config) (*Exporter, error) {
	c.Look, c.Pause, c.Grace = cmp.Or(c.Look, time.Second), cmp.Or(c.Pause, time.Second), cmp.Or(c.Grace, 3*time.Second)
	c.Lease, c.Batch = cmp.Or(c.Lease, 10*time.Second), cmp.Or(c.Batch, 512)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = func() float64 { return 0.5 }
	}
	s, err := c.Target.sender(about(c))
	if err != nil {
		return nil, err
	}
	return &Exporter{Config: c, sender: s, folds: newFolds(c.Bus, c.Content), closing: make(chan struct{})}, nil
}

// Start begins to export, until ctx ends or Stop is called. A log that no exporter has
// told yet is told from its head as Start is called: BEFORE anything is submitted here.
func (x *Exporter) Start(ctx context.Context) error {
	head, err := x.Bus.Head(ctx)
	if err != nil {
		return err
	}
	x.birth = head
	ctx, x.stop = context.WithCancel(context.WithoutCancel(ctx))
	x.wg.Go(func() {
		defer x.sender.close()
		r := role.Role{Cells: x.Bus.Cells(), Name: leaseCell, Holder: x.Holder, Lease: x.Lease, Log: x.Log}
		r.Run(ctx, x.export)
	})
	return nil
}

// Stop sends what is in the log, for no longer than Grace and only if this node has the
// role and the collector answers, and waits until nothing runs that Start began. What
// was not sent is sent by whoever comes next.
func (x *Exporter) Stop() {
	if x.stop == nil {
		x.sender.close()
		return
	}
	x.once.Do(func() { close(x.closing) })
	t := time.AfterFunc(x.Grace, x.stop)
	defer t.Stop()
	if !x.counts.working() {
		x.stop()
	}
	x.wg.Wait()
}

// stopped says whether Stop was called.
func (x *Exporter) stopped() bool {
	select {
	case <-x.closing:
		return true
	default:
		return false
	}
}

// waited says whether d has passed before ctx ended or Stop was called.
func (x *Exporter) waited(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.closing:
	case <-ctx.Done():
	}
	return false
}

// export sends everything from the cursor on, until ctx ends or the role is lost.
func (x *Exporter) export(ctx context.Context) error {
	x.counts.begin()
	defer func() {
		x.counts.end()
		if x.stopped() {
			x.stop() // and the role is given back
		}
	}()
	x.folds.clear() // they may stand behind the cursor
	at, err := x.cursor(ctx)
	if err != nil {
		return err
	}
	for kept := at.next; ; {
		last := x.stopped() // BEFORE the log is read: what was in it then is sent
		b, err := x.gather(ctx, at)
		if err != nil {
			return err
		}
		if len(b.spans) > 0 {
			if at, err = x.send(ctx, at, b); err != nil {
				return err
			}
			kept = at.next
		}
		at.next = b.next
		if at.next.Seq > kept.Seq+stride || at.next.Generation != kept.Generation {
			if at, err = x.keep(ctx, at); err != nil {
				return err
			}
			kept = at.next
		}
		x.counts.at(b.head, at.next)
		switch {
		case b.more:
		case last:
			return nil
		case !x.waited(ctx, x.Look) && !x.stopped():
			return ctx.Err()
		}
	}
}

// send sends a batch, and moves the cursor behind it. What is about to be sent is noted
// BEFORE: whoever goes on after a crash sends the same batch, and knows that it may have
// arrived.
func (x *Exporter) send(ctx context.Context, at place, b batch) (place, error) {
	var err error
	if at.until == b.next {
		x.counts.spans("repeated", len(b.spans))
	} else {
		at.until = b.next
		if at, err = x.keep(ctx, at); err != nil {
			return at, err
		}
	}
	if err := x.deliver(ctx, b.spans); err != nil {
		return at, err
	}
	at.next, at.until = b.next, events.Position{}
	return x.keep(ctx, at)
}

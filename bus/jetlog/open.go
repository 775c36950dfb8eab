// Package jetlog keeps the promises of package bus in NATS JetStream. It is the
// only package that imports nats.
//
// The log is one stream, SLUICE, with a subject for each turn; every append
// compares and swaps that subject's last sequence. Whatever reads, reads the
// mirror SLUICE_READ: one cold read on the hot stream would stop its appends.
package jetlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// Bus is a node's way to the log, the queue and the other keepers. Its methods
// may be used from many goroutines at once.
type Bus struct {
	cfg      Config
	log      *slog.Logger
	replicas int // of the log, as it is
	gens     atomic.Pointer[spans]
	first    atomic.Uint64 // see First

	hot  *link // appends
	work *link // the queue, timers, cells
	read *link // folding to act
	scan *link // cold reads, blobs, watching
	live *link // core NATS

	appends *slots
	puts    *slots
	loads   *slots
	scans   *slots
	stores  *slots // writes of blobs, on scan
	turns   *puller

	admin  jetstream.JetStream // on work
	reader jetstream.JetStream // on scan
	origin jetstream.Stream    // SLUICE
	mirror jetstream.Stream    // SLUICE_READ
	kv     map[string]jetstream.KeyValue
	cells  map[string]jetstream.Stream // behind kv
	left   map[string]uint64           // by bucket: its last revision when a server that has just started was opened

	bench bench // to workers

	missed atomic.Uint64 // live events that listeners here were too slow for
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once
}

var _ bus.Bus = (*Bus)(nil)

// Open connects, makes the streams that are missing, and refuses a log that a
// newer release wrote or whose streams are not as they should be. ctx bounds the
// opening only. BEFORE it returns, a mirror that stands beyond its log (which
// lost its tail) is made anew.
func Open(ctx context.Context, c Config) (*Bus, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Bus{cfg: c, log: c.logger(), kv: map[string]jetstream.KeyValue{}, cells: map[string]jetstream.Stream{}, left: map[string]uint64{}}
	b.ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bus) open(ctx context.Context) error {
	for name, l := range map[string]**link{"append": &b.hot, "queue": &b.work, "read": &b.read, "scan": &b.scan, "live": &b.live} {
		nc, err := b.cfg.Connect("sluice-" + name)
		if err != nil {
			return fmt.Errorf("connect: %w", unavailable(err))
		}
		*l = newLink(nc)
		b.wg.Go(func() { (*l).watch(b.ctx) })
	}
	b.appends = newSlots(b.hot, b.cfg.inFlight(), 4)
	b.puts = newSlots(b.work, b.cfg.inFlight(), 4)
	b.loads = newSlots(b.read, 64, pageSlots)
	b.scans = newSlots(b.scan, 16, pageSlots)
	b.stores = newSlots(b.scan, 64, 4)
	var err error
	if b.admin, err = jetstream.New(b.work.nc); err != nil {
		return err
	}
	if b.reader, err = jetstream.New(b.scan.nc); err != nil {
		return err
	}
	if err = b.prepare(ctx); err != nil {
		return err
	}
	if b.turns, err = newPuller(b); err != nil {
		return err
	}
	b.wg.Go(b.turns.tend)
	return nil
}

// prepare makes the streams and takes their handles.
func (b *Bus) prepare(ctx context.Context) error {
	gens, err := ensure(ctx, b.admin, b.cfg)
	if err != nil {
		return err
	}
	b.gens.Store(&gens)
	if b.cfg.Requeue {
		if err := requeue(ctx, b.admin); err != nil {
			return err
		}
	}
	if b.origin, err = handle(ctx, b.admin, StreamLog); err != nil {
		return err
	}
	is := b.origin.CachedInfo().Config
	b.replicas, b.cfg.Retention = max(is.Replicas, 1), is.MaxAge
	if err := insist(ctx, b.compareMirror); err != nil {
		return fmt.Errorf("stream %s: %w", StreamRead, err)
	}
	if b.mirror, err = handle(ctx, b.reader, StreamRead); err != nil {
		return err
	}
	for _, bucket := range bus.Buckets {
		err := insist(ctx, func(one context.Context) error {
			kv, err := b.reader.KeyValue(one, bucketPrefix+bucket)
			b.kv[bucket] = kv
			return err
		})
		if err != nil {
			return streamError(kvStream(bucket), err)
		}
		if b.cells[bucket], err = handle(ctx, b.reader, kvStream(bucket)); err != nil {
			return err
		}
		if b.cfg.Requeue {
			b.left[bucket] = b.cells[bucket].CachedInfo().State.LastSeq
		}
	}
	return nil
}

// handle is the client's handle of a stream that exists.
func handle(ctx context.Context, js jetstream.JetStream, name string) (s jetstream.Stream, err error) {
	err = insist(ctx, func(one context.Context) error {
		s, err = js.Stream(one, name)
		return err
	})
	if err != nil {
		return nil, streamError(name, err)
	}
	return s, nil
}

// Barrier is the log's.
func (b *Bus) Barrier() bus.Barrier { return b.cfg.barrier() }

// First is bus.Bus's.
func (b *Bus) First() uint64 { return b.first.Load() }

// Generation is the log's, as far as it is known here.
func (b *Bus) Generation() uint32 { return b.spans().current() }

func (b *Bus) spans() spans { return *b.gens.Load() }

// DuplicateWindow is how long the queue remembers a pushed id.
func (b *Bus) DuplicateWindow() time.Duration { return turnsWindow }

// Missed counts live events that were dropped because a listener of this node
// was too slow.
func (b *Bus) Missed() uint64 { return b.missed.Load() }

// Close gives back what waits here for a caller and closes the connections.
// Calls that wait return bus.ErrUnavailable. Nothing runs afterwards.
func (b *Bus) Close() error {
	b.once.Do(func() {
		b.stop()
		if b.turns != nil {
			b.turns.close()
		}
		for _, l := range []*link{b.hot, b.work, b.read, b.scan, b.live} {
			if l != nil {
				closeLink(l)
			}
		}
		b.bench.close()
		b.wg.Wait()
	})
	return nil
}

// closeLink lets what was published go out, if the server takes it soon, and
// closes the connection.
func closeLink(l *link) {
	if l.nc.IsConnected() {
		_ = l.nc.FlushTimeout(time.Second) // best effort: the connection ends either way
	}
	l.nc.RemoveStatusListener(l.status)
	l.nc.Close()
}

// ctxOf joins a caller's ctx with the life of the bus.
func (b *Bus) ctxOf(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.ctx, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

var errClosed = fmt.Errorf("%w: the bus is closed", bus.ErrUnavailable)

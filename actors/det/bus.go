package det

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
)

// Bus is a machine's connection to a memory log. Each call lets others run before it
// has reached the log and before its answer has come back, so that a machine can
// die in between; calls that wait do so through the machine. What goes wrong with a
// call beyond that is the log's, see memlog.Faults.
type Bus struct {
	m    *Machine
	view *memlog.View
	cut  bool

	// Listened says whether anybody listens to live events: nobody, if it is nil.
	Listened func() bool
}

var _ bus.Bus = (*Bus)(nil)

// Connect gives a machine its connection.
func (m *Machine) Connect(log *memlog.Log) *Bus {
	b := &Bus{m: m, view: log.View(m.name)}
	b.view.WaitWith(func(ctx context.Context, try func() (bool, error)) error {
		if m.dead {
			return b.gone()
		}
		t := m.task("waiting for the log")
		t.until[1], t.try, t.tried = ctx.Done(), try, 0
		m.w.park(t)
		if t.got == 1 {
			return ctx.Err()
		}
		err := t.err
		t.err = nil
		return err
	})
	return b
}

// Cut takes the machine off the bus: its calls fail, and nobody hears it. What it holds
// ages.
func (b *Bus) Cut() {
	b.cut = true
	b.view.Disconnect()
}

// Mend ends a Cut.
func (b *Bus) Mend() {
	b.cut = false
	b.view.Connect()
}

// IsCut says whether the machine is cut off.
func (b *Bus) IsCut() bool { return b.cut }

func (b *Bus) gone() error {
	return fmt.Errorf("%s: %w: the machine is dead", b.m.name, bus.ErrUnavailable)
}

// call is one call on the bus: the way there, the call, and the way back. Where ctx
// ends on the way back the call was made all the same, and lost is the error.
func (b *Bus) call(ctx context.Context, op string, do func() error, lost error) error {
	if b.m.dead {
		return b.gone()
	}
	if err := b.m.give(ctx, op, b.m.w.cfg.Delay(b.m, op, false)); err != nil {
		return fmt.Errorf("%s: %w: %w", op, bus.ErrUnavailable, err)
	}
	err := do()
	if late := b.m.give(ctx, op+" done", b.m.w.cfg.Delay(b.m, op, true)); late != nil {
		return fmt.Errorf("%s: %w: %w", op, lost, late)
	}
	return err
}

// Append is bus.Log's.
func (b *Bus) Append(ctx context.Context, c events.Commit, at uint64) (s bus.Stored, err error) {
	err = b.call(ctx, "append", func() error {
		s, err = b.view.Append(ctx, c, at)
		return err
	}, bus.ErrUncertain)
	return s, err
}

// Load is bus.Log's.
func (b *Bus) Load(ctx context.Context, turn events.TurnKey, atLeast uint64) (out []bus.Stored, err error) {
	err = b.call(ctx, "load", func() error {
		out, err = b.view.Load(ctx, turn, atLeast)
		return err
	}, bus.ErrUnavailable)
	return out, err
}

// Head is bus.Log's.
func (b *Bus) Head(ctx context.Context) (p events.Position, err error) {
	err = b.call(ctx, "head", func() error {
		p, err = b.view.Head(ctx)
		return err
	}, bus.ErrUnavailable)
	return p, err
}

// Read is bus.Tail's.
func (b *Bus) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	return b.call(ctx, "read", func() error { return b.view.Read(ctx, from, f, follow, yield) }, bus.ErrUnavailable)
}

// Push is bus.Queue's.
func (b *Bus) Push(ctx context.Context, it bus.Item) error {
	return b.call(ctx, "push", func() error { return b.view.Push(ctx, it) }, bus.ErrUncertain)
}

// Pull is bus.Queue's. A delivery whose machine dies on its way back is lost until it
// is delivered again.
func (b *Bus) Pull(ctx context.Context, placements []string) (d bus.Delivery, err error) {
	err = b.call(ctx, "pull", func() error {
		d, err = b.view.Pull(ctx, placements)
		return err
	}, bus.ErrUnavailable)
	return d, b.handed(d, err)
}

// handed gives back what came for a caller who has gone.
func (b *Bus) handed(d bus.Delivery, err error) error {
	if err != nil && d != nil {
		_ = d.Nak(0) // lost, it comes again by itself
	}
	return err
}

// Return is bus.Queue's.
func (b *Bus) Return(ctx context.Context, reply string) error {
	return b.call(ctx, "return", func() error { return b.view.Return(ctx, reply) }, bus.ErrUncertain)
}

// Held is bus.Queue's.
func (b *Bus) Held(ctx context.Context, yield func(bus.Item) error) error {
	return b.call(ctx, "held", func() error { return b.view.Held(ctx, yield) }, bus.ErrUnavailable)
}

// Oldest is bus.Queue's.
func (b *Bus) Oldest(ctx context.Context, placement string) (it bus.Item, err error) {
	err = b.call(ctx, "oldest", func() error {
		it, err = b.view.Oldest(ctx, placement)
		return err
	}, bus.ErrUnavailable)
	return it, err
}

// Wake is bus.Wakes'.
func (b *Bus) Wake(ctx context.Context, it bus.Item) error {
	return b.call(ctx, "wake", func() error { return b.view.Wake(ctx, it) }, bus.ErrUncertain)
}

// PullWake is bus.Wakes'.
func (b *Bus) PullWake(ctx context.Context) (d bus.Delivery, err error) {
	err = b.call(ctx, "pull a wake-up", func() error {
		d, err = b.view.PullWake(ctx)
		return err
	}, bus.ErrUnavailable)
	return d, b.handed(d, err)
}

// Set is bus.Timers'.
func (b *Bus) Set(ctx context.Context, id string, at time.Time, it bus.Item) error {
	return b.call(ctx, "set a timer", func() error { return b.view.Set(ctx, id, at, it) }, bus.ErrUncertain)
}

// Stop is bus.Timers'.
func (b *Bus) Stop(ctx context.Context, id string) error {
	return b.call(ctx, "stop a timer", func() error { return b.view.Stop(ctx, id) }, bus.ErrUncertain)
}

// Publish is bus.Live's.
func (b *Bus) Publish(ctx context.Context, s bus.Stored, tools map[int]string) error {
	return b.call(ctx, "publish", func() error { return b.view.Publish(ctx, s, tools) }, bus.ErrUncertain)
}

// Listen is bus.Live's.
func (b *Bus) Listen(ctx context.Context, pattern string, yield func(subject string, cloudEvent []byte)) error {
	return b.call(ctx, "listen", func() error { return b.view.Listen(ctx, pattern, yield) }, bus.ErrUnavailable)
}

// Wanted is bus.Live's.
func (b *Bus) Wanted(bus.Stored, map[int]string) bool { return b.Listened != nil && b.Listened() }

// Barrier is bus.Bus's.
func (b *Bus) Barrier() bus.Barrier { return barrier{b} }

// Cells is bus.Bus's.
func (b *Bus) Cells() bus.Cells { return cells{b, b.view.Cells()} }

// Blobs is bus.Bus's.
func (b *Bus) Blobs() bus.Blobs { return blobs{b, b.view.Blobs()} }

// Generation is bus.Bus's.
func (b *Bus) Generation() uint32 { return b.view.Generation() }

// First is bus.Bus's.
func (b *Bus) First() uint64 { return b.view.First() }

// Close is bus.Bus's. A machine that was killed is to be closed, too: the server
// notices that its connection has gone.
func (b *Bus) Close() error { return b.view.Close() }

type barrier struct{ b *Bus }

// Wait is bus.Barrier's.
func (x barrier) Wait(ctx context.Context) error {
	return x.b.call(ctx, "barrier", func() error { return x.b.view.Barrier().Wait(ctx) }, bus.ErrUncertain)
}

// Mode is bus.Barrier's.
func (x barrier) Mode() string { return x.b.view.Barrier().Mode() }

type cells struct {
	b  *Bus
	of bus.Cells
}

// Get is bus.Cells'.
func (c cells) Get(ctx context.Context, bucket, key string) (cell bus.Cell, err error) {
	err = c.b.call(ctx, "get", func() error {
		cell, err = c.of.Get(ctx, bucket, key)
		return err
	}, bus.ErrUnavailable)
	return cell, err
}

// Put is bus.Cells'.
func (c cells) Put(ctx context.Context, bucket, key string, value []byte, rev uint64, ttl time.Duration) (now uint64, err error) {
	err = c.b.call(ctx, "put", func() error {
		now, err = c.of.Put(ctx, bucket, key, value, rev, ttl)
		return err
	}, bus.ErrUncertain)
	return now, err
}

// Delete is bus.Cells'.
func (c cells) Delete(ctx context.Context, bucket, key string, rev uint64) error {
	return c.b.call(ctx, "delete", func() error { return c.of.Delete(ctx, bucket, key, rev) }, bus.ErrUncertain)
}

// Watch is bus.Cells'.
func (c cells) Watch(ctx context.Context, bucket, prefix string, yield func(bus.Cell) error) error {
	return c.b.call(ctx, "watch", func() error { return c.of.Watch(ctx, bucket, prefix, yield) }, bus.ErrUnavailable)
}

type blobs struct {
	b  *Bus
	of bus.Blobs
}

// Put is bus.Blobs'.
func (x blobs) Put(ctx context.Context, data []byte, media string) (ref events.BlobRef, err error) {
	err = x.b.call(ctx, "put a blob", func() error {
		ref, err = x.of.Put(ctx, data, media)
		return err
	}, bus.ErrUncertain)
	return ref, err
}

// Get is bus.Blobs'.
func (x blobs) Get(ctx context.Context, ref events.BlobRef) (data []byte, err error) {
	err = x.b.call(ctx, "get a blob", func() error {
		data, err = x.of.Get(ctx, ref)
		return err
	}, bus.ErrUnavailable)
	return data, err
}

//go:build faults

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// hookedBus is a bus with a point before and after everything that changes it.
type hookedBus struct {
	bus.Bus
	h *hook
}

// labels name a commit's events: the kind and, for a call's, its offset.
func labels(c events.Commit) []string {
	var out []string
	for _, r := range c.Records {
		name := string(r.Event.Kind())
		if r.Call != events.TurnEvent {
			name += fmt.Sprintf(":%d", r.Call)
		}
		out = append(out, name)
	}
	return out
}

// Append is bus.Log's.
func (b *hookedBus) Append(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	turn, what := c.Turn.String(), labels(c)
	b.h.pass(turn, "append", sideNear, 0, what...)
	s, err := b.Bus.Append(ctx, c, at)
	if err != nil {
		b.h.pass(turn, "append", sideNot, 0, what...)
		return s, err
	}
	b.h.appended(s)
	b.h.pass(turn, "append", sideFar, s.Seq, what...)
	return s, nil
}

// around passes the near side, does it, and passes the far side if it was done.
func (b *hookedBus) around(turn, op, what string, do func() error) error {
	var about []string
	if what != "" {
		about = []string{what}
	}
	b.h.pass(turn, op, sideNear, 0, about...)
	err := do()
	if err == nil {
		b.h.pass(turn, op, sideFar, 0, about...)
	}
	return err
}

// Push is bus.Queue's.
func (b *hookedBus) Push(ctx context.Context, it bus.Item) error {
	return b.around(it.Turn.String(), "push", "", func() error { return b.Bus.Push(ctx, it) })
}

// Wake is bus.Wakes'.
func (b *hookedBus) Wake(ctx context.Context, it bus.Item) error {
	return b.around(it.Turn.String(), "wake", "", func() error { return b.Bus.Wake(ctx, it) })
}

// Set is bus.Timers'.
func (b *hookedBus) Set(ctx context.Context, id string, at time.Time, it bus.Item) error {
	return b.around(it.Turn.String(), "timer", "", func() error { return b.Bus.Set(ctx, id, at, it) })
}

// Pull is bus.Queue's.
func (b *hookedBus) Pull(ctx context.Context, placements []string) (bus.Delivery, error) {
	return b.delivered(b.Bus.Pull(ctx, placements))("queue")
}

// PullWake is bus.Wakes'.
func (b *hookedBus) PullWake(ctx context.Context) (bus.Delivery, error) {
	return b.delivered(b.Bus.PullWake(ctx))("wakes")
}

func (b *hookedBus) delivered(d bus.Delivery, err error) func(queue string) (bus.Delivery, error) {
	return func(queue string) (bus.Delivery, error) {
		if err != nil {
			return d, err
		}
		b.h.pass(d.Item().Turn.String(), "pull", sideFar, 0, queue)
		return &hookedDelivery{Delivery: d, b: b, queue: queue}, nil
	}
}

// hookedDelivery is a delivery with points around its ack.
type hookedDelivery struct {
	bus.Delivery
	b     *hookedBus
	queue string
}

// Ack is bus.Delivery's.
func (d *hookedDelivery) Ack() error {
	turn := d.Item().Turn.String()
	err := d.b.around(turn, "ack", d.queue, d.Delivery.Ack)
	d.b.h.rests(turn)
	return err
}

// Publish is bus.Live's.
func (b *hookedBus) Publish(ctx context.Context, s bus.Stored, names map[int]string) error {
	return b.around(s.Commit.Turn.String(), "publish", labels(s.Commit)[0], func() error { return b.Bus.Publish(ctx, s, names) })
}

// Barrier is bus.Bus's.
func (b *hookedBus) Barrier() bus.Barrier { return &hookedBarrier{b.Bus.Barrier(), b} }

// hookedBarrier is a barrier with points around its wait. It serves all turns: its
// points are those of the turn that was appended to last.
type hookedBarrier struct {
	bus.Barrier
	b *hookedBus
}

// Wait is bus.Barrier's.
func (r *hookedBarrier) Wait(ctx context.Context) error {
	turn := r.b.h.lastTurn()
	if turn == "" {
		return r.Barrier.Wait(ctx)
	}
	return r.b.around(turn, "barrier", "", func() error { return r.Barrier.Wait(ctx) })
}

// Cells is bus.Bus's.
func (b *hookedBus) Cells() bus.Cells { return &hookedCells{b.Bus.Cells(), b} }

// hookedCells are cells with points where one changes that names a turn.
type hookedCells struct {
	bus.Cells
	b *hookedBus
}

// Put is bus.Cells'.
func (c *hookedCells) Put(ctx context.Context, bucket, key string, value []byte, rev uint64, ttl time.Duration) (next uint64, err error) {
	turn := c.b.h.owner(string(value))
	if turn == "" {
		return c.Cells.Put(ctx, bucket, key, value, rev, ttl)
	}
	err = c.b.around(turn, "put", bucket, func() error {
		next, err = c.Cells.Put(ctx, bucket, key, value, rev, ttl)
		return err
	})
	return next, err
}

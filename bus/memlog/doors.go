package memlog

import (
	"context"
	"fmt"

	"github.com/sluice-run/sluice/bus"
)

var _ bus.Doors = (*View)(nil)

// maxKnock is the size in bytes of the largest request, as a server has it by default.
const maxKnock = 1 << 20

// door is one that serves. running is guarded by log.mu.
type door struct {
	view    *View
	ctx     context.Context // of ServeDoor
	door    bus.Door
	running int
}

// ServeDoor is bus.Doors'.
func (v *View) ServeDoor(ctx context.Context, d bus.Door) error {
	own := &door{view: v, ctx: ctx, door: d}
	if err := v.enter(ctx); err != nil {
		return fmt.Errorf("serve door %s: %w", d.Name, err)
	}
	v.log.doors = append(v.log.doors, own)
	v.log.mu.Unlock()
	err := v.wait(ctx, func() bool { return false })
	v.log.shut(own)
	return fmt.Errorf("serve door %s: %w", d.Name, err)
}

// shut takes a door away, once what it answers is answered.
func (l *Log) shut(d *door) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.doors {
		if other == d {
			l.doors = append(l.doors[:i:i], l.doors[i+1:]...)
			break
		}
	}
	for d.running > 0 {
		changed := l.change()
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
}

// Knock is bus.Doors'. The answer is made in the caller's goroutine.
func (v *View) Knock(ctx context.Context, k bus.Knock) (bus.Answer, error) {
	if len(k.Body) > maxKnock {
		return bus.Answer{}, fmt.Errorf("ask for %s: %w: %d bytes", k.Verb, bus.ErrTooLarge, len(k.Body))
	}
	if _, _, err := bus.ParseDoorSubject(bus.DoorSubject(k.User, k.Verb)); err != nil {
		return bus.Answer{}, err
	}
	if err := v.enter(ctx); err != nil {
		return bus.Answer{}, fmt.Errorf("ask for %s: %w", k.Verb, err)
	}
	d := v.log.open()
	if d == nil {
		v.log.mu.Unlock()
		return bus.Answer{}, fmt.Errorf("ask for %s: %w: nobody serves", k.Verb, bus.ErrUnavailable)
	}
	busy := d.running >= bus.DoorsAtOnce
	if !busy {
		d.running++
	}
	v.log.mu.Unlock()
	if busy {
		return bus.BusyAnswer(), nil
	}
	k.Body = append([]byte{}, k.Body...)
	out := d.door.Answer(d.ctx, k)
	if len(out.Body) > bus.MaxAnswer {
		out = bus.LargeAnswer(len(out.Body))
	}
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	d.running--
	v.log.announce()
	return out, ctx.Err()
}

// open is the next door in turn that is served by somebody who can be reached. The
// lock is held.
func (l *Log) open() *door {
	for i, d := range l.doors {
		if d.view.reachable() == nil && d.ctx.Err() == nil {
			l.doors = append(append(l.doors[:i:i], l.doors[i+1:]...), d)
			return d
		}
	}
	return nil
}

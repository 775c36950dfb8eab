package memlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// timer is a message for the wake-up queue at its time.
type timer struct {
	at   time.Time
	item bus.Item
}

// Set is bus.Timers'.
func (v *View) Set(ctx context.Context, id string, at time.Time, it bus.Item) error {
	if err := cmp.Or(checkTimer(id), checkItem(it)); err != nil {
		return fmt.Errorf("set timer %q: %w", id, err)
	}
	if err := v.enter(ctx); err != nil {
		return fmt.Errorf("set timer %q: %w", id, err)
	}
	defer v.log.mu.Unlock()
	it.Commit = slices.Clone(it.Commit)
	v.log.arm(id, &timer{at: at, item: it})
	v.log.settle()
	v.log.announce() // whoever waits has to wait less
	return nil
}

// Stop is bus.Timers'.
func (v *View) Stop(ctx context.Context, id string) error {
	if err := checkTimer(id); err != nil {
		return fmt.Errorf("stop timer %q: %w", id, err)
	}
	if err := v.enter(ctx); err != nil {
		return fmt.Errorf("stop timer %q: %w", id, err)
	}
	defer v.log.mu.Unlock()
	v.log.arm(id, nil)
	return nil
}

func checkTimer(id string) error {
	if id == "" {
		return errors.New("a timer needs an id")
	}
	return nil
}

// arm replaces a timer; nil removes it. The lock is held.
func (l *Log) arm(id string, t *timer) {
	before := l.timers[id]
	l.note(false, func() { l.restore(id, before) })
	l.restore(id, t)
}

func (l *Log) restore(id string, t *timer) {
	if t == nil {
		delete(l.timers, id)
		return
	}
	l.timers[id] = t
	void := func() bool { return l.timers[id] != t }
	l.due.add(t.at, void, func() {
		l.arm(id, nil)
		l.add(l.wake, t.item)
	})
}

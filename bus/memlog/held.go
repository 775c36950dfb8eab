package memlog

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-run/sluice/bus"
)

// Held is bus.Queue's.
func (v *View) Held(ctx context.Context, yield func(bus.Item) error) error {
	if err := v.enter(ctx); err != nil {
		return err
	}
	held := v.log.held()
	v.log.mu.Unlock()
	for _, it := range held {
		if err := yield(it); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// held is what Held yields. The lock is held.
func (l *Log) held() []bus.Item {
	var names []string
	for name := range l.queues {
		if name != wakeName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []bus.Item
	for _, name := range names {
		var some []*message
		for _, m := range l.queues[name].live {
			if m.deliveries > 0 {
				some = append(some, m)
			}
		}
		slices.SortFunc(some, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
		for _, m := range some {
			out = append(out, m.item)
		}
	}
	return out
}

// Queued are all items that are not acked, delivered or not, wake-ups included, in a
// fixed order.
func (l *Log) Queued() []bus.Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []bus.Item
	for _, m := range l.messages("") {
		out = append(out, m.item)
	}
	return out
}

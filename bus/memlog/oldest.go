package memlog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Oldest is bus.Queue's.
func (v *View) Oldest(ctx context.Context, placement string) (bus.Item, error) {
	placement = cmp.Or(placement, events.DefaultPlacement)
	if err := v.enter(ctx); err != nil {
		return bus.Item{}, err
	}
	defer v.log.mu.Unlock()
	q := v.log.queues[placement]
	if q == nil || len(q.live) == 0 {
		return bus.Item{}, fmt.Errorf("placement %s: %w", placement, bus.ErrNotFound)
	}
	first := slices.MinFunc(slices.Collect(maps.Values(q.live)), func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	return first.item, nil
}

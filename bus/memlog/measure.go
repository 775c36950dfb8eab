package memlog

import (
	"cmp"
	"context"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Measure is bus.Measurer's. The log is its only stream, of which it counts the bodies.
func (v *View) Measure(ctx context.Context, placements []string) (m bus.Measures, err error) {
	if err := v.enter(ctx); err != nil {
		return m, err
	}
	defer v.log.mu.Unlock()
	measure := func(shown, name string) {
		q := bus.QueueMeasure{Placement: shown}
		if of := v.log.queues[name]; of != nil {
			for _, one := range of.live {
				if one.out {
					q.Held++
				} else {
					q.Waiting++
				}
			}
		}
		m.Queues = append(m.Queues, q)
	}
	for _, name := range placements {
		name = cmp.Or(name, events.DefaultPlacement)
		measure(name, name)
	}
	measure(bus.WakesQueue, wakeName)
	left := v.log.entries[v.log.begin-1:]
	log := bus.StreamMeasure{Name: "log", Messages: uint64(len(left))}
	for _, e := range left {
		log.Bytes += uint64(len(e.body))
	}
	m.Streams = []bus.StreamMeasure{log}
	return m, nil
}

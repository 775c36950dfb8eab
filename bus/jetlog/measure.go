package jetlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// Measure is bus.Measurer's.
func (b *Bus) Measure(ctx context.Context, placements []string) (m bus.Measures, err error) {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	lanes, err := b.measureLanes(ctx)
	if err != nil {
		return m, err
	}
	for _, name := range placements {
		placement, err := placementOf(name)
		if err != nil {
			return m, err
		}
		q := lanes["turns_"+placement]
		q.Placement = placement
		m.Queues = append(m.Queues, q)
	}
	wakes := lanes[wakeConsumer]
	wakes.Placement = bus.WakesQueue
	m.Queues = append(m.Queues, wakes)
	for _, name := range Streams() {
		s, err := b.streamNow(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // a log of an earlier release
		}
		if err != nil {
			return m, fmt.Errorf("measure: %w", err)
		}
		info := s.CachedInfo()
		if name == StreamLog {
			m.Retention, m.Replicas = info.Config.MaxAge, max(info.Config.Replicas, 1)
		}
		state := info.State
		m.Streams = append(m.Streams, bus.StreamMeasure{Name: name, Messages: state.Msgs, Bytes: state.Bytes})
	}
	slices.SortFunc(m.Streams, func(a, b bus.StreamMeasure) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

// measureLanes are the queue's consumers by name. A lane that nobody has pulled from has
// none.
func (b *Bus) measureLanes(ctx context.Context) (map[string]bus.QueueMeasure, error) {
	s, err := b.turnsNow(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	out := make(map[string]bus.QueueMeasure)
	one, end := context.WithTimeout(ctx, answerLimit) // consumers without a leader do not answer
	defer end()
	list := s.ListConsumers(one)
	for info := range list.Info() {
		out[info.Name] = bus.QueueMeasure{Waiting: info.NumPending, Held: uint64(max(0, info.NumAckPending))}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("measure stream %s: %w", StreamTurns, readError(ctx, err))
	}
	return out, nil
}

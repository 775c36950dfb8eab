package jetlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// Held is bus.Queue's. It reads what the queue still has up to the last message
// that its consumers have delivered.
func (b *Bus) Held(ctx context.Context, yield func(bus.Item) error) error {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	s, err := b.reader.Stream(ctx, StreamTurns)
	if err != nil {
		return streamError(StreamTurns, err)
	}
	infos := s.ListConsumers(ctx)
	last := uint64(0)
	for c := range infos.Info() {
		last = max(last, c.Delivered.Stream)
	}
	if err := infos.Err(); err != nil {
		return fmt.Errorf("consumers of stream %s: %w", StreamTurns, unavailable(err))
	}
	for seq := uint64(1); seq <= last; seq++ {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(bus.QueuePrefix+">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", StreamTurns, unavailable(err))
		}
		if seq = m.Sequence; seq > last {
			return nil
		}
		it, err := decodeItem(m.Data)
		if err != nil {
			continue // not one of ours: whoever pulls it says so
		}
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}

// Oldest is bus.Queue's: what was acked is not in the queue's stream any more.
func (b *Bus) Oldest(ctx context.Context, placement string) (bus.Item, error) {
	name, err := placementOf(placement)
	if err != nil {
		return bus.Item{}, err
	}
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	s, err := b.reader.Stream(ctx, StreamTurns)
	if err != nil {
		return bus.Item{}, streamError(StreamTurns, err)
	}
	m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(bus.QueuePrefix+name))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return bus.Item{}, fmt.Errorf("placement %s: %w", name, bus.ErrNotFound)
	case err != nil:
		return bus.Item{}, fmt.Errorf("stream %s: %w", StreamTurns, unavailable(err))
	}
	return decodeItem(m.Data)
}

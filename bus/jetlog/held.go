package jetlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// Held is bus.Queue's. It reads what the queue still has up to the last message
// that its consumers have delivered.
func (b *Bus) Held(ctx context.Context, yield func(bus.Item) error) error {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	s, err := b.turnsNow(ctx)
	if err != nil {
		return err
	}
	last := delivered(ctx, s)
	for seq := uint64(1); seq <= last; seq++ {
		one, end := context.WithTimeout(ctx, answerLimit)
		m, err := s.GetMsg(one, seq, jetstream.WithGetMsgSubject(bus.QueuePrefix+">"))
		end()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", StreamTurns, readError(ctx, err))
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

// lookLimit bounds one question of those that are asked when a node has died: its
// server may have died with it, and then nobody answers.
const lookLimit = time.Second

// streamNow is a stream as it is now, asked for once: ErrUnavailable where nobody answers.
func (b *Bus) streamNow(ctx context.Context, name string) (jetstream.Stream, error) {
	one, end := context.WithTimeout(ctx, answerLimit)
	defer end()
	s, err := b.reader.Stream(one, name)
	if err != nil {
		return nil, streamError(name, readError(ctx, err))
	}
	return s, nil
}

// turnsNow is the queue's stream, asked for until somebody answers.
func (b *Bus) turnsNow(ctx context.Context) (jetstream.Stream, error) {
	all, stop := context.WithTimeout(ctx, answerLimit)
	defer stop()
	for {
		one, end := context.WithTimeout(all, lookLimit)
		s, err := b.reader.Stream(one, StreamTurns)
		end()
		if err == nil {
			return s, nil
		}
		if all.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !busy(err) {
			return nil, streamError(StreamTurns, readError(ctx, err))
		}
	}
}

// delivered is a sequence up to which consumers have delivered. A consumer without a
// leader keeps the server from saying so: then it is where the stream ends, within
// reason, and what is in nobody's hands is yielded, too.
func delivered(ctx context.Context, s jetstream.Stream) uint64 {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	infos := s.ListConsumers(ctx)
	last := uint64(0)
	for c := range infos.Info() {
		last = max(last, c.Delivered.Stream)
	}
	if infos.Err() == nil {
		return last
	}
	state := s.CachedInfo().State
	return min(state.LastSeq, max(last, state.FirstSeq+1000))
}

// Oldest is bus.Queue's: what was acked is not in the queue's stream any more.
func (b *Bus) Oldest(ctx context.Context, placement string) (bus.Item, error) {
	name, err := placementOf(placement)
	if err != nil {
		return bus.Item{}, err
	}
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	s, err := b.turnsNow(ctx)
	if err != nil {
		return bus.Item{}, err
	}
	one, end := context.WithTimeout(ctx, answerLimit)
	defer end()
	m, err := s.GetMsg(one, 1, jetstream.WithGetMsgSubject(bus.QueuePrefix+name))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return bus.Item{}, fmt.Errorf("placement %s: %w", name, bus.ErrNotFound)
	case err != nil:
		return bus.Item{}, fmt.Errorf("stream %s: %w", StreamTurns, readError(ctx, err))
	}
	return decodeItem(m.Data)
}

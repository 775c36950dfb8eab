package jetlog

import (
	"context"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// ReadBodies is Read for who copies the log: it yields the commits as they are
// stored, also those that cannot be decoded, up to the log's head at the time of the
// call. at is the commit's position, with index 0. The body is yield's to keep. It
// returns what yield returned, ctx's error, or bus.ErrRewound.
func (b *Bus) ReadBodies(ctx context.Context, from events.Position, f bus.Filter, yield func(at events.Position, turn events.TurnKey, body []byte) error) error {
	pattern, err := filterSubjects(f)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	last, err := b.enter(ctx, &from)
	if err != nil {
		return fmt.Errorf("read the log from %s: %w", from, err)
	}
	t := &tail{bus: b, filter: pattern, next: max(from.Seq, 1)}
	t.bodies = func(r raw) error {
		turn, err := bus.ParseEventSubject(r.subject)
		if err != nil {
			return fmt.Errorf("commit at sequence %d: %w", r.seq, err)
		}
		return yield(events.Position{Generation: b.spans().of(r.seq), Seq: r.seq}, turn, r.body)
	}
	return t.upTo(ctx, last)
}

// AppendBody is Append of a commit that was stored elsewhere, to the byte: it keeps
// what a newer release has written into it. The body must decode. Errors are those of
// Append, and events.ErrFormat or events.ErrNewerFormat.
func (b *Bus) AppendBody(ctx context.Context, body []byte, at uint64) (bus.Stored, error) {
	c, err := events.Decode(body)
	if err == nil {
		err = checkCommit(c)
	}
	if err != nil {
		return bus.Stored{}, fmt.Errorf("append: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return bus.Stored{}, fmt.Errorf("append to turn %s after %d: %w: %w", c.Turn, at, bus.ErrUnavailable, err)
	}
	s, err := b.put(ctx, c, body, at)
	if err != nil {
		return bus.Stored{}, fmt.Errorf("append to turn %s after %d: %w", c.Turn, at, err)
	}
	return s, nil
}

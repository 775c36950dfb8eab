package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// damage is a commit that cannot be read.
type damage struct {
	Position events.Position
	Err      error
}

func (d damage) String() string {
	return fmt.Sprintf("commit %d.%d cannot be read: %v", d.Position.Generation, d.Position.Seq, d.Err)
}

// errEnough ends a scan before the log's end: its caller has seen what it needs.
var errEnough = errors.New("seen enough")

// source is where a scan reads: a log that may have several generations.
type source interface {
	bus.Tail
	Generation() uint32
}

// scan yields the commits that pass the filter, from the log's beginning to its
// head. A commit that cannot be read is told to damaged, and the scan goes on
// behind it. yield may return errEnough.
func scan(ctx context.Context, log source, f bus.Filter, damaged func(damage), yield func(bus.Stored) error) error {
	return scanFrom(ctx, log, events.Position{}, f, damaged, yield)
}

// scanFrom is scan from a position on. The commit there is yielded whole.
func scanFrom(ctx context.Context, log source, from events.Position, f bus.Filter, damaged func(damage), yield func(bus.Stored) error) error {
	from.Index = 0
	for {
		next := max(from.Seq, 1)
		err := log.Read(ctx, from, f, false, func(s bus.Stored) error {
			from, next = events.Position{Generation: s.Generation}, s.Seq+1
			return yield(s)
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case errors.Is(err, bus.ErrRewound) && from != (events.Position{}) && from.Generation < log.Generation():
			from.Generation++ // the place behind the damage is a later generation's
			continue
		}
		var bad *bus.Unreadable
		if !errors.As(err, &bad) {
			return err
		}
		from = events.Position{Generation: max(from.Generation, 1), Seq: max(bad.Seq, next)}
		damaged(damage{from, bad.Err})
		from.Seq++
	}
}

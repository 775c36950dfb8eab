package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

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
	from := events.Position{}
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
		case !errors.Is(err, events.ErrFormat) && !errors.Is(err, events.ErrNewerFormat):
			return err
		}
		bad := badSeq(err, next)
		from = events.Position{Generation: max(from.Generation, 1), Seq: bad}
		damaged(damage{from, cause(err)})
		from.Seq++
	}
}

var sequenceIn = regexp.MustCompile(`commit at sequence (\d+)`)

// badSeq is the sequence of the commit that an error of a Tail is about, at least
// next. A Tail has no other way to tell.
func badSeq(err error, next uint64) uint64 {
	if m := sequenceIn.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.ParseUint(m[1], 10, 64); err == nil && n >= next {
			return n
		}
	}
	return next
}

// cause is the error without where it happened, which is told anyway.
func cause(err error) error {
	for _, known := range []error{events.ErrNewerFormat, events.ErrFormat} {
		if errors.Is(err, known) {
			text := sequenceIn.ReplaceAllString(err.Error(), "")
			if len(text) > 2 && text[:2] == ": " {
				return errors.New(text[2:])
			}
		}
	}
	return err
}

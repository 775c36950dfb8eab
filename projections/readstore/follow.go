package readstore

import (
	"context"
	"errors"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Source is the log that a store is filled from.
type Source interface {
	bus.Log
	bus.Tail
	// Generation is the log's.
	Generation() uint32
}

var (
	// errEnough ends a reading before the log's head.
	errEnough = errors.New("enough for now")
	// errOther says that the store was filled from another log.
	errOther = errors.New("it is of another log")
)

// pass folds what the log has behind what was folded, and writes it, up to the log's
// head at the time of the call or about most commits. level says that it came to the
// head. Its errors are bus.ErrRewound, those of the log, and those of SQL; what was
// written before one stays.
func (w *writer) pass(ctx context.Context, log Source, most int) (level bool, err error) {
	n := 0
	err = w.read(ctx, log, func(s bus.Stored) error {
		if err := w.add(ctx, s); err != nil {
			return err
		}
		if n++; n >= most {
			return errEnough
		}
		return nil
	})
	enough := errors.Is(err, errEnough)
	if enough {
		err = nil
	}
	if err != nil && (damaged(err) || ctx.Err() != nil) {
		return false, err // what is not written is folded again
	}
	err = errors.Join(err, w.flush(ctx))
	return err == nil && !enough, err
}

// read yields the commits behind what was folded, up to the head. A commit that
// cannot be read is noted, and passed over.
func (w *writer) read(ctx context.Context, log Source, yield func(bus.Stored) error) error {
	for {
		err := log.Read(ctx, w.at.next, bus.Filter{}, false, yield)
		var bad *bus.Unreadable
		switch {
		case errors.As(err, &bad):
			if err := w.skip(ctx, log, bad); err != nil {
				return err
			}
		case errors.Is(err, bus.ErrRewound) && w.at.next != w.at.folded:
			w.back() // what could not be read may be gone, and something else stand there
		default:
			return err
		}
		if w.commits >= batchCommits || len(w.broken) >= batchCommits {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// skip goes on behind a commit that cannot be read.
func (w *writer) skip(ctx context.Context, log Source, bad *bus.Unreadable) error {
	next, err := behindBad(ctx, log, w.at.next.Generation, bad)
	if err == nil {
		w.note(next, bad)
	}
	return err
}

// behindBad is the position behind a commit that cannot be read, and does not say of
// which generation it is, at least from: it is the first one in which that is a place.
func behindBad(ctx context.Context, log Source, from uint32, bad *bus.Unreadable) (events.Position, error) {
	next := events.Position{Generation: max(from, 1), Seq: bad.Seq + 1}
	for ; next.Generation < log.Generation(); next.Generation++ {
		if there, err := holds(ctx, log, next); err != nil || there {
			return next, err
		}
	}
	return next, nil
}

var errSeen = errors.New("seen")

// holds says whether everything before a position is still in the log, as it was when
// the position was seen.
func holds(ctx context.Context, log bus.Tail, at events.Position) (bool, error) {
	var bad *bus.Unreadable
	err := log.Read(ctx, at, bus.Filter{}, false, func(bus.Stored) error { return errSeen })
	switch {
	case err == nil, errors.Is(err, errSeen), errors.As(err, &bad):
		return true, nil
	case errors.Is(err, bus.ErrRewound):
		return false, nil
	}
	return false, err
}

// forkOf is the last sequence up to which the log still is what led to a position; 0
// where nothing of it is left.
func forkOf(ctx context.Context, log bus.Tail, p events.Position) (uint64, error) {
	there := func(seq uint64) (bool, error) {
		return holds(ctx, log, events.Position{Generation: p.Generation, Seq: seq})
	}
	if ok, err := there(1); err != nil || !ok {
		return 0, err
	}
	low, high := uint64(1), p.Seq // low holds, high may not
	for low < high {
		mid := low + (high-low+1)/2
		ok, err := there(mid)
		switch {
		case err != nil:
			return 0, err
		case ok:
			low = mid
		default:
			high = mid - 1
		}
	}
	return low, nil
}

// sameLog says whether the commit that was folded last is where it was. One that the
// log has dropped since says nothing.
func sameLog(ctx context.Context, log bus.Tail, p progress) (bool, error) {
	if p.id == "" || p.folded.Seq < 2 {
		return true, nil
	}
	at := events.Position{Generation: p.folded.Generation, Seq: p.folded.Seq - 1}
	same := true
	err := log.Read(ctx, at, bus.Filter{}, false, func(s bus.Stored) error {
		same = s.Seq != at.Seq || s.Commit.ID == p.id
		return errSeen
	})
	var bad *bus.Unreadable
	switch {
	case err == nil, errors.Is(err, errSeen):
		return same, nil
	case errors.Is(err, bus.ErrRewound):
		return true, nil // who reads on finds out how far
	case errors.As(err, &bad):
		return bad.Seq != at.Seq, nil
	}
	return false, err
}

// firstOf is the sequence of the first commit that the log still has; 0 if it has none.
func firstOf(ctx context.Context, log bus.Tail) (uint64, error) {
	first := uint64(0)
	err := log.Read(ctx, events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		first = s.Seq
		return errSeen
	})
	var bad *bus.Unreadable
	switch {
	case err == nil, errors.Is(err, errSeen):
		return first, nil
	case errors.As(err, &bad):
		return bad.Seq, nil
	}
	return 0, err
}

// turnUpTo is a turn's commits before a sequence, as the log has them now.
func turnUpTo(ctx context.Context, log Source, key events.TurnKey, before uint64) ([]bus.Stored, error) {
	var out []bus.Stored
	from, f := events.Position{}, bus.Filter{Trace: key.Trace, Turn: key.Turn}
	for {
		err := log.Read(ctx, from, f, false, func(s bus.Stored) error {
			if s.Seq >= before {
				return errSeen
			}
			out = append(out, s)
			from = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
			return nil
		})
		var bad *bus.Unreadable
		switch {
		case errors.Is(err, errSeen):
			return out, nil
		case errors.As(err, &bad) && bad.Seq < before:
			if from, err = behindBad(ctx, log, from.Generation, bad); err != nil {
				return nil, err
			}
		case errors.As(err, &bad):
			return out, nil
		default:
			return out, err
		}
	}
}

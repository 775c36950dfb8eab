package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// standing is the fold of the turns that have not ended, as far as the log has been
// read. It holds a few hundred bytes for each of them, and nothing of the others.
type standing struct {
	mu   sync.Mutex
	at   events.Position // the next event to fold; zero: nothing was read yet
	open map[events.TurnKey]*openTurn
}

// openTurn is a turn that has not ended.
type openTurn struct {
	placement          string
	calls, ended       int
	submitted, claimed time.Time
	owner              events.Owner
	parked             bool
	due                time.Time // of one that is parked; zero: it waits for people only
	running            []int     // calls with an attempt that is open
}

// read folds what came since the last time, and yields every open turn. The first
// call reads the whole log.
func (st *standing) read(ctx context.Context, log bus.Bus, yield func(events.TurnKey, openTurn)) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		if st.open == nil || st.at == (events.Position{}) {
			st.at, st.open = events.Position{}, make(map[events.TurnKey]*openTurn)
		}
		err := log.Read(ctx, st.at, bus.Filter{}, false, func(s bus.Stored) error {
			st.fold(s.Commit)
			st.at = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
			return nil
		})
		var unreadable *bus.Unreadable
		switch {
		case errors.Is(err, bus.ErrRewound) && st.at != (events.Position{}):
			st.at = events.Position{} // what was folded is not in the log any more
			continue
		case errors.As(err, &unreadable) && unreadable.Seq >= st.at.Seq:
			st.at = events.Position{Generation: log.Generation(), Seq: unreadable.Seq + 1} // a newer release's, or broken: others say so
			continue
		case err != nil:
			return err
		}
		for key, t := range st.open {
			one := *t
			one.running = slices.Clone(t.running)
			yield(key, one)
		}
		return nil
	}
}

func (st *standing) fold(c events.Commit) {
	for _, r := range c.Records {
		if e, ok := r.Event.(*events.TurnSubmitted); ok && e.Imported == "" {
			st.open[c.Turn] = &openTurn{placement: cmp.Or(e.Placement, events.DefaultPlacement), calls: len(e.Calls), submitted: c.At}
			continue
		}
		t := st.open[c.Turn]
		switch {
		case t == nil: // it has ended, was imported, or began before the log's first commit
		case r.Call != events.TurnEvent:
			t.call(r)
		default:
			switch e := r.Event.(type) {
			case *events.TurnClaimed:
				t.owner, t.claimed, t.parked, t.due = e.Owner, c.At, false, time.Time{}
			case *events.TurnParked:
				t.parked, t.due = true, e.Due
			case *events.TurnCompleted, *events.TurnAbandoned:
				delete(st.open, c.Turn)
			}
		}
	}
}

// call folds an event of one of the turn's calls.
func (t *openTurn) call(r events.Record) {
	stop := func() { t.running = slices.DeleteFunc(t.running, func(i int) bool { return i == r.Call }) }
	switch e := r.Event.(type) {
	case *events.Started:
		stop()
		t.running = append(t.running, r.Call)
	case *events.Retrying:
		stop()
	case *events.Recovered:
		if e.Action != events.RecoverContinue {
			stop()
		}
	default:
		if events.IsTerminal(r.Event.Kind()) {
			stop()
			t.ended++
		}
	}
}

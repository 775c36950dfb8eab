package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// story is what is told of one turn: how it stands, and of its events those that
// are shown.
type story struct {
	key     events.TurnKey
	turn    lifecycle.Turn
	events  []told // the turn's own
	calls   map[int]*tale
	first   time.Time
	last    time.Time
	end     time.Time       // when it ended; zero while it has not. Events may stand behind it
	count   int             // events, shown or not
	kept    int             // of them: those that are shown
	hidden  int             // and those before them
	next    events.Position // behind its last event
	parked  time.Duration   // in all
	spans   []span          // the turn's own: in the queue, parked, without an owner
	fault   string          // the first thing that is wrong with what was recorded; "" if nothing is
	faultAt events.Position // of the event that shows it
	ownLast time.Time       // of the turn's own last event
	ended   map[int]time.Time
}

// tale is what is told of one call.
type tale struct {
	events  []told
	decided []events.Event // why it was let through, asked about or denied
	spans   []span
	last    time.Time
	total   int // events, shown or not
}

// told is one event, the time since the one before of its call or turn, and what
// is worth knowing of it.
type told struct {
	ev     projections.Event
	after  time.Duration
	detail string
}

func newStory(key events.TurnKey) *story {
	return &story{key: key, turn: lifecycle.Turn{Key: key}, calls: make(map[int]*tale), ended: make(map[int]time.Time)}
}

// copyOf is the story as it stands, without the events that are shown.
func (st *story) copyOf() *story {
	out := *st
	out.events, out.kept, out.hidden = nil, 0, st.count
	out.ended, out.spans = maps.Clone(st.ended), slices.Clone(st.spans)
	out.calls = make(map[int]*tale, len(st.calls))
	for offset, t := range st.calls {
		out.calls[offset] = &tale{decided: slices.Clip(t.decided), spans: slices.Clone(t.spans), last: t.last, total: t.total}
	}
	return &out
}

// tell folds an event, and keeps it to be shown if keep says so.
func (st *story) tell(e projections.Event, keep bool) {
	if st.count == 0 {
		st.first = e.At
	}
	missing, parked := st.missing(e), st.turn.Parked != nil
	st.turn = lifecycle.Evolve(st.turn, lifecycle.Meta{At: e.At, By: e.By}, e.Record)
	if st.fault == "" && (missing != "" || st.turn.Broken != "") {
		st.fault, st.faultAt = cmp.Or(missing, "no release writes such a history: "+st.turn.Broken), e.Pos
	}
	lastSign := st.last
	st.count++
	st.last = e.At
	if st.end.IsZero() && events.EndsTurn(e.Kind()) {
		st.end = e.At
	}
	st.next = events.Position{Generation: e.Pos.Generation, Seq: e.Pos.Seq, Index: e.Pos.Index + 1}
	before := st.ownLast
	if e.Call == events.TurnEvent {
		if parked && st.turn.Parked == nil {
			st.parked += e.At.Sub(before)
		}
		st.ownLast = e.At
		st.turnSpans(e, lastSign)
	} else {
		t := st.tale(e.Call)
		before = t.last
		t.last, t.total = e.At, t.total+1
		switch e.Kind() {
		case events.KindApprovalRequested, events.KindAuthorized, events.KindDenied:
			t.decided = append(t.decided, e.Event)
		}
		st.callSpans(t, e)
	}
	if !keep {
		if st.kept == 0 {
			st.hidden = st.count
		}
		return
	}
	st.kept++
	one := told{ev: e, detail: detailOf(e)}
	if !before.IsZero() {
		one.after = e.At.Sub(before)
	}
	if e.Call == events.TurnEvent {
		st.events = append(st.events, one)
		return
	}
	t := st.tale(e.Call)
	t.events = append(t.events, one)
}

func (st *story) tale(offset int) *tale {
	t := st.calls[offset]
	if t == nil {
		t = &tale{}
		st.calls[offset] = t
	}
	return t
}

// told are the events of a call that are shown.
func (st *story) told(offset int) []told {
	if t := st.calls[offset]; t != nil {
		return t.events
	}
	return nil
}

// detailOf is the timeline's word about an event.
func detailOf(e projections.Event) string {
	m := projections.Timeline.Apply(projections.Timeline.Init(), e)
	return m.All[0].Detail
}

// until is the time of the turn's end, else of its last event.
func (st *story) until() time.Time {
	if st.end.IsZero() {
		return st.last
	}
	return st.end
}

// standing is how the turn stands, in a word or two.
func (st *story) standing() string {
	switch {
	case st.turn.Ended != nil:
		return strings.TrimPrefix(string(st.turn.Ended.Kind()), "turn_")
	case st.turn.Submitted == nil:
		return "its beginning is missing"
	case st.turn.Parked != nil:
		return "parked"
	case st.turn.Submitted.Imported != "":
		return "imported, with calls that have no answer"
	case st.turn.Owner.Boot == "":
		return "not claimed"
	}
	return "open"
}

// missing says which events should stand before e and do not.
func (st *story) missing(e projections.Event) string {
	if st.turn.Submitted == nil {
		if e.Kind() == events.KindTurnSubmitted {
			return ""
		}
		return "its beginning is missing"
	}
	last, of := st.turn.Seq, "the turn"
	if e.Call != events.TurnEvent {
		c := st.turn.Call(e.Call)
		if c == nil {
			return ""
		}
		last, of = c.Seq, fmt.Sprintf("call %d", e.Call)
	}
	switch {
	case e.Seq <= last+1:
		return ""
	case e.Seq == last+2:
		return fmt.Sprintf("event %d of %s is missing", last+1, of)
	}
	return fmt.Sprintf("the events %d to %d of %s are missing", last+1, e.Seq-1, of)
}

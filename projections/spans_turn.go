package projections

import (
	"time"

	"github.com/sluice-run/sluice/events"
)

// TracedTurn is what the spans of a turn that have not ended need to know of it.
type TracedTurn struct {
	Key         events.TurnKey `json:"key"`
	Submitted   time.Time      `json:"submitted"`
	Traceparent string         `json:"traceparent,omitempty"`
	Attrs       Attrs          `json:"attrs,omitempty"`
	Model       Attrs          `json:"model,omitempty"` // what the caller has noted last
	Calls       []*TracedCall  `json:"calls"`
	Claims      int64          `json:"claims,omitempty"`
	Takeovers   int64          `json:"takeovers,omitempty"`
	Since       time.Time      `json:"since,omitzero"` // it waits to be claimed; zero: it does not
	Waits       int            `json:"waits,omitempty"`
	Parked      bool           `json:"parked,omitempty"`
	SpanEvents

	ids events.SpanIDs // what the first three give; made when they are needed
}

func tracedTurn(e Event, v *events.TurnSubmitted) *TracedTurn {
	t := &TracedTurn{
		Key: e.Turn, Submitted: e.At, Traceparent: v.Traceparent, Since: e.At, Calls: make([]*TracedCall, len(v.Calls)),
		Attrs: Attrs(nil).text(AttrPrincipal, v.Principal.ID).text(AttrPlacement, v.Placement).num(AttrCalls, int64(len(v.Calls))),
	}
	for i, c := range v.Calls {
		t.Calls[i] = &TracedCall{Tool: c.Tool, ID: c.ProviderID, Requested: e.At}
	}
	return t
}

// spanIDs are the ids of the turn's spans.
func (t *TracedTurn) spanIDs() events.SpanIDs {
	if t.ids.Trace == (events.TraceID{}) {
		t.ids = events.SpansOf(t.Key, t.Submitted, t.Traceparent)
	}
	return t.ids
}

// span is a span of the turn's, from a time to that of an event.
func (t *TracedTurn) span(name string, id, parent events.SpanID, from time.Time, e Event) Span {
	ids := t.spanIDs()
	s := Span{Trace: ids.Trace, ID: id, Parent: parent, Flags: ids.Flags, Name: name, Start: from, End: e.At}
	if s.End.Before(s.Start) { // two machines' clocks
		s.End = s.Start
	}
	s.Attrs = Attrs(nil).text(AttrConversation, t.Key.Trace).text(AttrTrace, t.Key.Trace).text(AttrTurn, t.Key.Turn)
	return s
}

// pass takes an event of the turn itself, and returns the spans that it ends.
func (t *TracedTurn) pass(e Event) (done []Span) {
	switch v := e.Event.(type) {
	case *events.TurnClaimed:
		done = t.claimed(e, v)
	case *events.TurnParked:
		t.Since, t.Parked = e.At, true
	case *events.TurnCancelRequested:
		t.happened(e, Attrs(nil).text(AttrBy, v.By.ID).text(AttrWhy, v.Reason))
	case *events.ModelStarted:
		t.Model = Attrs(nil).text(AttrModel, v.Model)
	case *events.ModelCompleted:
		t.Model = Attrs(nil).text(AttrModel, v.Model).num(AttrInput, v.Input).num(AttrOutput, v.Output)
	case *events.TurnCompleted:
		s := t.ended(e)
		for _, row := range events.Kinds { // in their order, not a map's
			s.Attrs = s.Attrs.num(AttrCalls+"."+string(row.Kind), int64(v.Counts[row.Kind]))
		}
		done = []Span{s}
	case *events.TurnAbandoned:
		s := t.ended(e)
		s.Failed, s.Why = true, Shortened(v.Reason, MaxSpanText)
		s.Attrs = s.Attrs.text(AttrErrorType, string(e.Kind()))
		done = []Span{s}
	}
	return done
}

// claimed ends the wait for a node.
func (t *TracedTurn) claimed(e Event, v *events.TurnClaimed) (done []Span) {
	t.Claims++
	if v.Why == events.ClaimTakenOver {
		t.Takeovers++
	}
	if v.Why == events.ClaimTakenOver || v.Why == events.ClaimDrained {
		t.happened(e, Attrs(nil).text(AttrWhy, v.Why).text(AttrBoot, v.Owner.Boot))
	}
	if !t.Since.IsZero() && e.At.Sub(t.Since) >= MinSpanWait {
		what := "queue"
		if t.Parked {
			what = "parked"
		}
		t.Waits++
		ids := t.spanIDs()
		s := t.span("wait "+what, ids.Of("turn wait", t.Waits), ids.Turn(), t.Since, e)
		s.Attrs = s.Attrs.text(AttrWait, what)
		done = append(done, s)
	}
	t.Since, t.Parked = time.Time{}, false
	return done
}

// ended is the turn's own span.
func (t *TracedTurn) ended(e Event) Span {
	ids := t.spanIDs()
	s := t.span("turn", ids.Turn(), ids.Caller, t.Submitted, e)
	s.Door, s.SpanEvents = true, t.SpanEvents
	s.Attrs = append(append(s.Attrs, t.Attrs...), t.Model...)
	s.Attrs = s.Attrs.text(AttrEnd, string(e.Kind())).num(AttrClaims, t.Claims).num(AttrTakeovers, t.Takeovers).text(AttrPosition, e.Pos.String())
	t.Attrs, t.Model, t.SpanEvents = nil, nil, SpanEvents{}
	return s
}

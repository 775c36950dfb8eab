package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/projections"
)

// What a notice tells, as the CloudEvent's type says it behind run.sluice.approval. or
// run.sluice.input. and before the version.
const (
	noticeRequested = "requested"
	noticeDecided   = "decided"  // approved or denied
	noticeAnswered  = "answered" // of an input
	noticeExpired   = "expired"
	noticeWithdrawn = "withdrawn"
)

// notice is an event of the log that may have to be told.
type notice struct {
	Pos    events.Position // zero: it tells what stands, and not what has happened
	Call   events.CallKey
	Asking int    // 0: the one that the event ends
	Input  bool   // with Asking: what a tool has asked
	What   string // noticeRequested, noticeWithdrawn where that may be so; "" where only the turn's history says
}

// noticeOf is the notice of an event, as far as the event alone says. A call that ends
// without an attempt may have waited for a person, and so may one that is cancelled or
// overdue.
func noticeOf(turn events.TurnKey, at events.Position, r events.Record) (notice, bool) {
	n := notice{Pos: at, Call: turn.Call(r.Call)}
	switch e := r.Event.(type) {
	case *events.ApprovalRequested:
		n.What, n.Asking = noticeRequested, e.Number()
		return n, true
	case *events.InputRequested:
		n.What, n.Asking, n.Input = noticeRequested, e.Round, true
		return n, e.Why == ""
	case *events.Approved, *events.InputGiven:
		return n, true
	case *events.Denied:
		return n, e.Gate == string(lifecycle.GateApprove)
	}
	n.What = noticeWithdrawn
	o, kind := events.OutcomeOf(r.Event), r.Event.Kind()
	return n, o != nil && (o.Attempt == 0 || kind == events.KindCancelled || kind == events.KindTimedOut)
}

// approvalEvent is the body: a CloudEvent 1.0 in structured JSON form.
type approvalEvent struct {
	SpecVersion string           `json:"specversion"`
	ID          string           `json:"id"` // the same each time that it is sent
	Source      string           `json:"source"`
	Type        string           `json:"type"`    // run.sluice.approval.requested.v1, decided, expired or withdrawn; run.sluice.input. and answered for decided
	Subject     string           `json:"subject"` // trace/turn/call@asking
	Time        string           `json:"time"`
	ContentType string           `json:"datacontenttype"`
	Position    string           `json:"position,omitempty"`
	Data        projections.Page `json:"data"`
}

// body is what is sent of a notice, and its id; nil where there is nothing to tell.
func (w *Webhook) body(ctx context.Context, n notice) ([]byte, string, error) {
	v, err := w.Desk.load(ctx, n.Call.TurnKey(), n.Pos.Seq)
	var unreadable *bus.Unreadable
	switch {
	case errors.As(err, &unreadable):
		w.Log.Warn("a turn cannot be read, and nothing is told of it", "turn", n.Call.TurnKey().String(), "err", err)
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	a, what := askingAt(v, n)
	if a == nil {
		return nil, "", nil // its turn has left the log, or it never waited for anybody
	}
	page := projections.PageOf(a.Pending, a.State, a.Decision, projections.Whole{}, w.Desk.now())
	page.Visible = secrets.Redact(page.Visible)
	e := approvalEvent{
		SpecVersion: bus.CloudEventsVersion, ID: page.ID + "." + what, Source: bus.CloudEventSource(n.Call.TurnKey()),
		Type: "run.sluice." + page.Kind + "." + what + ".v1", Subject: page.ID, Time: a.At.UTC().Format(time.RFC3339Nano),
		ContentType: "application/json", Data: page,
	}
	if what != noticeRequested && a.Decision != nil {
		e.Time = a.Decision.At.UTC().Format(time.RFC3339Nano)
	}
	if n.Pos != (events.Position{}) {
		e.Position = n.Pos.String()
	}
	body, err := json.Marshal(e)
	return body, e.ID, err
}

// askingAt is the asking that a notice is about, as it stands now, and what is told of it.
func askingAt(v View, n notice) (*projections.Asking, string) {
	if n.What == noticeRequested {
		return askingOf(v, ApprovalID{n.Call, n.Asking, n.Input}), n.What
	}
	after := lastAsking(until(v, n.Pos), n.Call)
	if after == nil {
		return nil, ""
	}
	switch after.State {
	case projections.ApprovalApproved, projections.ApprovalDenied:
		if n.What == noticeWithdrawn { // the end of a call that somebody had agreed to
			return nil, ""
		}
		return after, noticeDecided
	case projections.InputAnswered:
		if n.What == noticeWithdrawn {
			return nil, ""
		}
		return after, noticeAnswered
	case projections.ApprovalExpired:
		if n.What == noticeWithdrawn { // of an input: it was told as it expired
			return nil, ""
		}
		return after, noticeExpired
	case projections.ApprovalWithdrawn:
		return after, noticeWithdrawn
	}
	return nil, ""
}

// until are the events of a turn up to the one at a position.
func until(v View, pos events.Position) iter.Seq[projections.Event] {
	return func(yield func(projections.Event) bool) {
		for e := range eventsOf(v) {
			if !yield(e) || e.Pos == pos {
				return
			}
		}
	}
}

func lastAsking(evs iter.Seq[projections.Event], call events.CallKey) *projections.Asking {
	var last *projections.Asking
	for _, a := range projections.Askings(evs) {
		if a.Call == call {
			last = &a
		}
	}
	return last
}

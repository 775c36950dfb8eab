package projections

import (
	"iter"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Asking is one asking of a call, and how it was answered.
type Asking struct {
	Pending
	State    string
	Decision *Decision // nil while it is open
	Pos      events.Position
}

// Askings are all askings in the events of one turn, of people to agree and of tools for
// input, in order, those that are over too.
func Askings(evs iter.Seq[Event]) []Asking {
	var out []Asking
	open := make(map[int]int) // call's offset: index of its last asking
	w := Inbox.Init()
	for e := range evs {
		w = Inbox.Apply(w, e)
		if i, ok := open[e.Call]; ok && e.Call != events.TurnEvent {
			out[i].answer(e)
		}
		switch e.Event.(type) {
		case *events.ApprovalRequested, *events.InputRequested:
			if p, ok := w.Asked[e.Turn.Call(e.Call).String()]; ok {
				open[e.Call] = len(out)
				out = append(out, Asking{Pending: p, State: ApprovalOpen, Pos: e.Pos})
			}
		case *events.TurnCancelRequested, *events.TurnCompleted, *events.TurnAbandoned:
			for _, i := range open {
				out[i].withdraw(e)
			}
		case *events.ModelStarted, *events.ModelCompleted:
			for _, i := range open {
				if p, ok := w.Asked[out[i].Call.String()]; ok {
					out[i].Model = p.Model
				}
			}
		}
	}
	return out
}

// answer takes an event of the call whose last asking it is.
func (a *Asking) answer(e Event) {
	switch v := e.Event.(type) {
	case *events.Approved:
		if a.State == ApprovalOpen {
			by := v.By
			a.State = ApprovalApproved
			a.Decision = &Decision{State: a.State, By: &by, At: e.At, Scope: v.Scope, Hash: v.Hash, Args: v.Args, Note: v.Note}
		}
	case *events.InputGiven:
		if a.Kind == PendingInput && a.State == ApprovalOpen {
			a.State = InputAnswered
			if v.By == nil {
				a.State = ApprovalExpired
			}
			a.Decision = &Decision{State: a.State, By: v.By, At: e.At, Note: v.Note, Answers: v.Answers}
		}
	case *events.ApprovalRequested:
		a.State = ApprovalSuperseded
	case *events.Denied:
		switch {
		case a.State != ApprovalOpen:
		case v.By != nil:
			a.State = ApprovalDenied
			a.Decision = &Decision{State: a.State, By: v.By, At: e.At, Note: lifecycle.NoteOf(v), Code: v.Code}
		case v.Code == events.ApprovalExpired:
			a.State = ApprovalExpired
			a.Decision = &Decision{State: a.State, At: e.At, Code: v.Code}
		default:
			a.withdraw(e)
		}
	default:
		if events.IsTerminal(e.Kind()) || e.Kind() == events.KindCancelRequested {
			a.withdraw(e)
		}
	}
}

// withdraw ends an asking that nobody has answered; who has cancelled its call is named.
func (a *Asking) withdraw(e Event) {
	if a.State != ApprovalOpen {
		return
	}
	a.State = ApprovalWithdrawn
	a.Decision = &Decision{State: a.State, At: e.At}
	switch v := e.Event.(type) {
	case *events.CancelRequested:
		a.Decision.By, a.Decision.Note = &v.By, v.Reason
	case *events.TurnCancelRequested:
		a.Decision.By, a.Decision.Note = &v.By, v.Reason
	}
}

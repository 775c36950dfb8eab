package lifecycle

import (
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// Evolve is the state after one more event. It is total: an event that does not
// fit changes nothing but the numbers, and is named in Broken; one of a newer
// release sets Foreign.
func Evolve(t Turn, m Meta, r events.Record) Turn {
	if r.Call == events.TurnEvent {
		return evolveTurn(t, m, r)
	}
	c := t.Call(r.Call)
	if c == nil {
		return t.broken("%s of call %d, which is not in the submission", r.Event.Kind(), r.Call)
	}
	if r.Seq != c.Seq+1 {
		t = t.broken("call %d: event %d follows %d", r.Call, r.Seq, c.Seq)
	}
	next := *c
	next.Seq = r.Seq
	if _, foreign := r.Event.(events.Foreign); foreign {
		t.Foreign = true
	} else if kind := r.Event.Kind(); !goesOn(r.Event) && !MayFollow(c.Last, kind) {
		t = t.broken("call %d: %s follows %q", r.Call, kind, c.Last)
	} else if !evolveCall(&next, m, r.Event) {
		t.Foreign = true
	}
	t.Calls = slices.Clone(t.Calls)
	t.Calls[r.Call] = &next
	if c.Open() && !next.Open() {
		t.Takeovers = 0
	}
	return t
}

func (t Turn) broken(format string, args ...any) Turn {
	if t.Broken == "" {
		t.Broken = fmt.Sprintf(format, args...)
	}
	return t
}

func evolveTurn(t Turn, m Meta, r events.Record) Turn {
	if r.Seq != t.Seq+1 {
		t = t.broken("turn: event %d follows %d", r.Seq, t.Seq)
	}
	t.Seq = r.Seq
	kind := r.Event.Kind()
	if first := kind == events.KindTurnSubmitted; first != (t.Submitted == nil) {
		return t.broken("turn: %s, and it is submitted: %t", kind, t.Submitted != nil)
	}
	if t.Ended != nil && kind != events.KindModelStarted && kind != events.KindModelCompleted {
		t = t.broken("turn: %s after its end", kind)
	}
	switch e := r.Event.(type) {
	case *events.TurnSubmitted:
		t.Submitted, t.SubmittedAt = e, m.At
		t.Calls = make([]*Call, len(e.Calls))
		for i, raw := range e.Calls {
			t.Calls[i] = &Call{Offset: i, Tool: raw.Tool, Args: raw.Args}
		}
	case *events.TurnClaimed:
		t.Owner, t.Claim, t.ClaimedAt, t.Takeovers, t.Parked = e.Owner, e, m.At, e.Takeovers, nil
	case *events.TurnPlanned:
		for _, i := range slices.Concat(e.Batches...) {
			if t.Call(i) == nil {
				return t.broken("turn: planned with call %d, which is not in the submission", i)
			}
		}
		t.Planned = e
	case *events.TurnParked:
		t.Parked = e
	case *events.TurnCancelRequested:
		t.Cancel = e
	case *events.TurnCompleted, *events.TurnAbandoned:
		t.Ended = e
	case *events.ModelStarted, *events.ModelCompleted:
		t.Notes = append(slices.Clip(t.Notes), e)
	default:
		t.Foreign = true
	}
	return t
}

// evolveCall says whether this release knows the event.
func evolveCall(c *Call, m Meta, e events.Event) bool {
	switch e := e.(type) {
	case *events.Requested:
		c.Phase, c.Hash, c.RequestedAt = PhaseRequested, e.Hash, m.At
		c.Tool, c.Args, c.Secrets, c.Given = e.Tool, e.Args, e.Secrets, e.Hash
	case *events.ApprovalRequested:
		c.Phase, c.Asked, c.AskedAt, c.Approved = PhaseAsking, e, m.At, nil
		c.Verdict = &e.Verdict
	case *events.Approved:
		c.Phase, c.Approved, c.ApprovedAt = PhaseApproved, e, m.At
		c.Changed = ChangedArgs(c.Given, c.Changed, e)
		if e.Args != nil {
			c.Args, c.Hash, c.Secrets = *e.Args, e.Hash, e.Secrets
		}
	case *events.Authorized:
		c.Phase, c.Verdict, c.Decision, c.AuthorizedAt = PhaseAuthorized, &e.Verdict, e.Decision, m.At
	case *events.Started:
		c.Phase, c.Started, c.Attempt, c.StartedAt = PhaseStarted, e, e.Attempt, m.At
	case *events.CancelRequested:
		c.Cancel = e
		return true // beside the way, not on it
	case *events.Retrying:
		c.Phase, c.RetryAt = PhaseRetrying, e.Until
		c.Doubt = c.Doubt || e.Effects != events.EffectsNone
	case *events.InputRequested:
		c.Phase, c.Input, c.InputAt, c.Answered = PhaseInput, e, m.At, nil
		c.Doubt, c.Sealed = c.Doubt || e.Effects != events.EffectsNone, append(slices.Clip(c.Sealed), e.Secrets...)
	case *events.InputGiven:
		c.Phase, c.Answered, c.AnsweredAt = PhaseGiven, e, m.At
		for _, a := range e.Answers {
			c.Sealed = append(slices.Clip(c.Sealed), a.Secrets...)
		}
	case *events.Recovered:
		if e.Action == events.RecoverContinue {
			return true // it stays where it stood
		}
		evolveRecovered(c, e)
	case *events.Resolved:
		c.Resolved = e
		return true
	case *events.Compensated:
		c.Undone = true
		return true
	case *events.Progress:
		c.Told = e
		return true
	case *events.LateResult:
		c.Late = append(slices.Clip(c.Late), e)
		return true
	default:
		return evolveTerminal(c, e)
	}
	c.Last = e.Kind()
	return true
}

func evolveRecovered(c *Call, e *events.Recovered) {
	c.Doubt = true
	switch e.Action {
	case events.RecoverProbe:
		c.Phase = PhaseProbing
	case events.RecoverRestart:
		c.Phase = PhaseRetrying
	}
}

func evolveTerminal(c *Call, e events.Event) bool {
	switch e := e.(type) {
	case *events.Deduplicated:
		c.Outcome = &e.Outcome
	case *events.Denied:
		c.Outcome = nil
	case *events.Completed:
		c.Outcome = &e.Outcome
	case *events.Failed:
		c.Outcome = &e.Outcome
	case *events.TimedOut:
		c.Outcome = &e.Outcome
	case *events.Cancelled:
		c.Outcome = &e.Outcome
	case *events.Unknown:
		c.Outcome = &e.Outcome
	default:
		return false
	}
	c.Phase, c.Terminal, c.Last = PhaseEnded, e, e.Kind()
	return true
}

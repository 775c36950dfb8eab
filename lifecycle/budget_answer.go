package lifecycle

import (
	"strings"

	"github.com/sluice-run/sluice/events"
)

// UnknownSentence is what a model is told of a call that may have happened.
const UnknownSentence = "This call may have happened: how it ended is not known. Do not repeat it; check first whether it took effect."

// AnswerOf is what the model is told of the call at offset, once terminal is
// its last word; nil means that it has none yet, and the answer is open. Text
// that is by reference stays so. It never fails and never changes terminal.
func AnswerOf(offset int, call events.RawCall, terminal events.Event) events.Answer {
	a := events.Answer{Call: offset, ProviderID: call.ProviderID, Tool: call.Tool, Said: call.Said, Custom: call.Custom, Standing: events.AnswerOpen}
	if terminal == nil {
		return a
	}
	a.Terminal = terminal.Kind()
	switch t := terminal.(type) {
	case *events.Denied:
		a.Standing = events.AnswerDenied
		a.Result = events.Result{
			Status: events.Failure,
			Error:  &events.Error{Code: t.Code, Message: t.Reason, Path: t.Path},
		}
	case *events.Deduplicated:
		a.Of = t.Of
		settle(&a, orKind(t.As, events.KindCompleted), t.Outcome, "")
	case *events.Completed:
		settle(&a, t.Kind(), t.Outcome, "")
	case *events.Failed:
		settle(&a, t.Kind(), t.Outcome, "")
	case *events.TimedOut:
		settle(&a, t.Kind(), t.Outcome, "")
	case *events.Cancelled:
		settle(&a, t.Kind(), told(t.Outcome, t.Reason), t.Reason)
	case *events.Unknown:
		settle(&a, t.Kind(), t.Outcome, "")
	default: // a newer release ended it in a way that this one cannot read
		settle(&a, events.KindUnknown, events.Outcome{Effects: events.EffectsPossible}, "")
	}
	return a
}

// ChangedArgs are the arguments that a person has put in the place of the model's, once
// they have said yes: nil while a call runs with the model's own, and where the yes was
// recorded by a release that told no model. given is the hash of the model's own, before
// what this function gave for the call's yes before this one, nil for none.
func ChangedArgs(given string, before *events.Body, yes *events.Approved) *events.Body {
	switch {
	case yes.Args == nil: // to what was asked about, which may be changed already
		return before
	case yes.Hash == given || !yes.Told:
		return nil
	}
	return yes.Args
}

// AnswerLeft is what the model is told of a call without a terminal in a turn
// that has ended for good. started says whether an attempt may have run, tier
// how its effects behave, why what ended the turn.
func AnswerLeft(offset int, call events.RawCall, started bool, tier events.Tier, why string) events.Answer {
	o := events.Outcome{Effects: events.EffectsNone, Result: events.Result{Error: &events.Error{
		Code: events.CodeCancelled, Message: sentence("The turn ended before this call did", why),
	}}}
	a := events.Answer{Call: offset, ProviderID: call.ProviderID, Tool: call.Tool, Said: call.Said, Custom: call.Custom}
	if started && tier != events.Readonly {
		o.Effects = events.EffectsPossible
	}
	settle(&a, events.KindUnknown, o, "")
	return a
}

// settle fills in standing and result by the rule that only an end without
// effects, or with effects that are known, may be called a failure.
func settle(a *events.Answer, kind events.Kind, o events.Outcome, reason string) {
	a.Result = o.Result
	if kind == events.KindCompleted {
		a.Standing = events.AnswerSuccess
		return
	}
	a.Result.Status = events.Failure
	if a.Result.Error == nil {
		a.Result.Error = defaultError(kind, o.Class, reason)
	}
	known := o.Effects == events.EffectsNone || o.Effects == events.EffectsDone && kind != events.KindUnknown
	if known {
		a.Standing = events.AnswerFailed
		if a.Result.Error.Code == events.UnknownOutcome { // of what had no effect there is nothing to check
			e := *a.Result.Error
			e.Code = defaultError(kind, o.Class, reason).Code
			a.Result.Error = &e
		}
		return
	}
	a.Standing = events.AnswerUnknown
	a.Result.Error = &events.Error{
		Code:    events.UnknownOutcome,
		Message: UnknownSentence + " (" + string(a.Result.Error.Code) + ": " + a.Result.Error.Message + ")",
	}
}

// told is the outcome of a cancelled call with the reason of who cancelled it.
func told(o events.Outcome, reason string) events.Outcome {
	if e := o.Result.Error; e != nil && reason != "" && !strings.Contains(e.Message, reason) {
		with := *e
		with.Message += ": " + reason
		o.Result.Error = &with
	}
	return o
}

func defaultError(kind events.Kind, class events.Class, reason string) *events.Error {
	switch {
	case kind == events.KindTimedOut || class == events.ClassTimeout:
		return &events.Error{Code: events.Timeout, Message: "The call ran out of time."}
	case kind == events.KindCancelled || class == events.ClassCancelled:
		return &events.Error{Code: events.CodeCancelled, Message: sentence("The call was cancelled", reason)}
	case kind == events.KindUnknown:
		return &events.Error{Code: events.InternalError, Message: "The call ended without an answer."}
	}
	return &events.Error{Code: events.ExecutionError, Message: "The call failed."}
}

func sentence(what, why string) string {
	if why == "" {
		return what + "."
	}
	return what + ": " + why
}

func orKind(k, other events.Kind) events.Kind {
	if k == "" {
		return other
	}
	return k
}

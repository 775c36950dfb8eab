package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-run/sluice/events"
)

// ended is how the tool's code ended.
type ended struct {
	result events.Result
	err    error
	broke  bool        // it panicked
	cause  error       // why its context had ended by then; nil if it had not
	tier   events.Tier // of these arguments
	run    time.Duration
	told   Ending
}

// verdict is an ended attempt in the runtime's words.
type verdict struct {
	class    events.Class
	err      *events.Error // nil for a success
	claim    events.Effects
	after    time.Duration
	answered bool
	absent   bool
	input    *InputRequired
	result   events.Result
}

// report turns the end of the tool's code into the end of its attempt.
func (a *attempt) report(e ended) Report {
	v := judge(e)
	if v.class == events.ClassTool && !v.answered && !e.broke {
		a.o.Log.Error("tool failed for a reason of ours", "tool", a.tool.Name, "call", a.in.Call.String(),
			"attempt", a.in.Attempt, "err", e.err)
	}
	emitted := cmp.Or(e.told.Output, int64(len(v.result.Text.Text)))
	return Report{
		Input:     v.input,
		Result:    a.tidy(v.result, v.err),
		Class:     v.class,
		Effects:   effectsOf(e.tier, v),
		After:     max(v.after, 0),
		Exit:      e.told.Exit,
		Signal:    e.told.Signal,
		Output:    emitted,
		Run:       e.run,
		Answered:  v.answered,
		Absent:    v.absent,
		Confirmed: len(e.told.Pids) == 0 && !e.told.Remote,
		Pids:      e.told.Pids,
	}
}

// judge says what an end means. It is pure.
func judge(e ended) verdict {
	var own *Error
	isOwn := errors.As(e.err, &own)
	v := verdict{result: e.result}
	if asks, ok := errors.AsType[*InputRequired](e.err); ok && e.cause == nil && !e.broke {
		return judgeInput(asks)
	}
	if isOwn {
		v.claim, v.after, v.absent = own.Effects, own.After, own.Absent
		if own.Result != nil {
			v.result = *own.Result
		}
	}
	switch {
	case e.cause != nil:
		v.class, v.err = overdue(e.cause, own)
	case e.broke:
		v.class, v.err = events.ClassPanic, &events.Error{
			Code:    events.ExecutionError,
			Message: "the tool broke while it ran: a fault in the tool, which its operator can read in the log; the same call will break it again",
		}
	case isOwn:
		v.class, v.err, v.answered = ownFailure(own)
	case errors.Is(e.err, context.DeadlineExceeded), errors.Is(e.err, os.ErrDeadlineExceeded):
		v.class, v.err = events.ClassTimeout, &events.Error{Code: events.Timeout, Message: "a time limit inside the tool passed before it had an answer"}
	case errors.Is(e.err, context.Canceled):
		v.class, v.err = events.ClassCancelled, &events.Error{Code: events.CodeCancelled, Message: "the tool stopped before it had an answer"}
	case e.err != nil:
		v.class, v.err = events.ClassTool, &events.Error{
			Code:    events.InternalError,
			Message: "the call did not get a fair run, for a reason that is not in its arguments; the operator can read it in the log",
		}
	case e.result.Error != nil || e.result.Status == events.Failure:
		v.class, v.err, v.answered = events.ClassTool, failureOf(e.result), true
	default:
		v.class, v.answered = events.ClassOK, true
	}
	return v
}

// judgeInput is the verdict on a tool that asks a person. One that asks what cannot be
// asked has failed.
func judgeInput(asks *InputRequired) verdict {
	if err := events.CheckInput(asks.Requests, asks.State); err != nil {
		return verdict{class: events.ClassTool, answered: true, err: &events.Error{Code: events.ExecutionError, Message: err.Error()}}
	}
	return verdict{class: events.ClassInput, answered: true, input: asks}
}

// overdue is the class and the words for an attempt whose context had ended
// before the tool returned. Whatever the tool put out by then is no success.
func overdue(cause error, own *Error) (events.Class, *events.Error) {
	class, code, words := events.ClassCancelled, events.CodeCancelled, "the call was cancelled while it ran"
	switch {
	case errors.Is(cause, ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		class, code, words = events.ClassTimeout, events.Timeout, "the deadline passed before the tool had answered"
	case !errors.Is(cause, context.Canceled):
		words += ": " + cause.Error()
	}
	if own != nil && own.Message != "" {
		words += "; the tool said: " + own.Message
	}
	return class, &events.Error{Code: code, Message: words}
}

// ownFailure is a tool's *Error in the runtime's words. A lost connection, a
// time-out and a cancel are no answers: nobody knows what the other side did.
func ownFailure(e *Error) (class events.Class, out *events.Error, answered bool) {
	switch e.Class {
	case events.ClassInvalid, events.ClassConflict, events.ClassTool, "":
		class, answered = cmp.Or(e.Class, events.ClassTool), true
	case events.ClassUnavailable, events.ClassTimeout, events.ClassCancelled:
		class = e.Class
	default: // the runtime's own findings, which no tool can make
		class, answered = events.ClassTool, true
	}
	out = &events.Error{Code: e.Code, Message: e.Message, Path: e.Path}
	out.Code = cmp.Or(out.Code, events.ExecutionError)
	out.Message = cmp.Or(out.Message, "the tool failed and did not say why")
	return class, out, answered
}

// failureOf is the error of a result that says it is a failure.
func failureOf(r events.Result) *events.Error {
	e := events.Error{}
	if r.Error != nil {
		e = *r.Error
	}
	e.Code = cmp.Or(e.Code, events.ExecutionError)
	e.Message = cmp.Or(e.Message, "the tool reported a failure")
	return &e
}

// effectsOf is what is known of the effects. A tool's own word counts;
// otherwise only its answer can prove anything, and a refusal of the arguments
// or of what they were based on proves that nothing was done.
func effectsOf(tier events.Tier, v verdict) events.Effects {
	switch {
	case tier == events.Readonly:
		return events.EffectsNone
	case v.class == events.ClassOK:
		return events.EffectsDone
	case v.claim != "":
		return v.claim
	case v.class == events.ClassInvalid, v.class == events.ClassConflict:
		return events.EffectsNone
	}
	return events.EffectsPossible
}

// givenUp is the report of a tool that still runs.
func (a *attempt) givenUp(cause error) Report {
	class, e := overdue(cause, nil)
	e.Code = events.UnknownOutcome
	e.Message += ", and the tool has not stopped: it may still be at work"
	tier, known := a.tier.Load().(events.Tier)
	if !known {
		tier = events.Irreversible
	}
	told := a.board.read()
	return Report{
		Result:  events.Result{Status: events.Failure, Error: e},
		Class:   class,
		Effects: effectsOf(tier, verdict{class: class}),
		Output:  told.Output,
		Run:     a.o.Now().Sub(a.began),
		Pids:    told.Pids,
	}
}

// notStarted is the report of an attempt that was over before it began.
func (a *attempt) notStarted(cause error) Report {
	class, e := overdue(cause, nil)
	e.Message = fmt.Sprintf("not started: %s", e.Message)
	return Report{
		Result: events.Result{Status: events.Failure, Error: e}, Class: class,
		Effects: events.EffectsNone, Confirmed: true,
	}
}

package lifecycle

import (
	"time"

	"github.com/sluice-run/sluice/events"
)

// Settle reports how an attempt ended.
type Settle struct {
	Call      int
	Attempt   int
	Class     events.Class
	Effects   events.Effects // as the tool says; "" means by class and tier
	Result    events.Result  // within the call's budget
	Answered  bool           // the tool itself answered
	Confirmed bool           // nothing of the attempt runs any more
	Pids      []int          // what may still run
	Exit      *int
	Signal    string
	Output    int64          // bytes emitted
	Run       time.Duration  // of the attempt
	After     time.Duration  // the other side's Retry-After; 0 means none
	Jitter    float64        // from 0 to 1, drawn at the edge
	Asks      *Asks          // with ClassInput: what the tool asks a person
	Found     *events.Result // a probe after the attempt found its effect; nil: none was made, or it found nothing
}

// Probed reports what a tool says of an attempt whose owner was lost.
type Probed struct {
	Call    int
	Attempt int
	Found   bool
	Result  events.Result // if Found
	Failed  bool          // the probe itself failed: nobody can tell
	Why     string        // if Failed: what stood in its way, as a clause; "" where that is not known
}

func (Settle) command() {}
func (Probed) command() {}

func (d *decider) settle(c Settle) error {
	call, err := d.attempt(c.Call, c.Attempt)
	if err != nil {
		return err
	}
	o := d.outcome(call, c.Class, effectsOf(call, c), c.Result)
	o.Exit, o.Signal, o.Output, o.Stages.Run = c.Exit, c.Signal, c.Output, c.Run.Microseconds()
	by, reason, cancelled := d.t.Cancelled(call)
	switch {
	case c.Found != nil && !(c.Answered && c.Class == events.ClassOK):
		o.Class, o.Effects, o.Result = events.ClassOK, events.EffectsDone, *c.Found
		d.emit(c.Call, &events.Completed{Outcome: o})
	case !c.Confirmed && !answeredFor(c):
		d.emit(c.Call, &events.Unknown{Outcome: o, Why: events.UnknownUnconfirmed, Pids: c.Pids})
	case c.Class == events.ClassOK:
		d.emit(c.Call, &events.Completed{Outcome: o})
	case c.Class == events.ClassInput && c.Asks != nil:
		d.askInput(call, c)
	case c.Class == events.ClassCancelled:
		e := &events.Cancelled{Outcome: o, Reason: reason}
		if cancelled {
			e.By = &by
		}
		d.emit(c.Call, e)
	case !cancelled && d.mayRetry(call, c):
		d.retry(call, c)
	case c.Class == events.ClassTimeout:
		d.emit(c.Call, &events.TimedOut{Outcome: o})
	case c.Class == events.ClassLost:
		d.emit(c.Call, &events.Unknown{Outcome: o, Why: events.UnknownNoAnswer})
	default:
		d.emit(c.Call, &events.Failed{Outcome: o})
	}
	return nil
}

// answeredFor says whether the tool's own answer tells how the attempt ended, even
// if something that it started still runs. Of a cancel or a deadline only the
// confirmed end does.
func answeredFor(c Settle) bool {
	return c.Answered && c.Class != events.ClassTimeout && c.Class != events.ClassCancelled && c.Class != events.ClassLost
}

// effectsOf is what the call did to the world, as far as is known. What an earlier
// attempt did, the last one's word does not tell.
func effectsOf(call *Call, c Settle) events.Effects {
	e := attemptEffects(call, c)
	if e == events.EffectsNone && call.Doubt && call.Verdict.Tier != events.Readonly {
		return events.EffectsPossible
	}
	return e
}

func attemptEffects(call *Call, c Settle) events.Effects {
	switch {
	case call.Verdict.Tier == events.Readonly:
		return events.EffectsNone
	case c.Answered && c.Class == events.ClassOK:
		return events.EffectsDone
	case c.Effects != "":
		return c.Effects
	case !c.Answered:
		return events.EffectsPossible
	case c.Class == events.ClassInvalid || c.Class == events.ClassConflict:
		return events.EffectsNone
	}
	return events.EffectsPossible
}

// Bounds of a tool's own retries.
const (
	retryBase  = 200 * time.Millisecond // before the second attempt, doubled for each further one
	retryMost  = 30 * time.Second
	retryAfter = time.Minute // a longer Retry-After is a failure to tell, not a wait
)

// mayRetry says whether the tool's failure may be answered by another attempt:
// only where the other side was not there, and where a second attempt can do
// no harm.
func (d *decider) mayRetry(call *Call, c Settle) bool {
	v := call.Verdict
	harmless := v.Tier == events.Readonly || v.Tier == events.Reversible && v.HonoursKey && v.Key != ""
	passing := c.Class == events.ClassUnavailable || c.Class == events.ClassTimeout && d.t.Submitted.Limits.CallMS == 0
	if !harmless || !passing || !c.Confirmed || call.tries() > v.Retries || c.After > retryAfter {
		return false
	}
	end := d.t.Deadline()
	return end.IsZero() || d.retryAt(call, c).Before(end)
}

// tries are the attempts of a call without those that ended as its tool asked a person.
func (c *Call) tries() int { return c.Attempt - c.Rounds() }

func (d *decider) retryAt(call *Call, c Settle) time.Time {
	wait := min(retryBase<<min(max(call.tries()-1, 0), 10), retryMost)
	wait = wait/2 + time.Duration(c.Jitter*float64(wait)/2)
	return d.env.Now.Add(max(wait, c.After)).Truncate(time.Microsecond) // the clock of commits has no more
}

func (d *decider) retry(call *Call, c Settle) {
	d.emit(call.Offset, &events.Retrying{
		Attempt: call.Attempt, Class: c.Class, Error: c.Result.Error, Until: d.retryAt(call, c), Effects: attemptEffects(call, c),
	})
}

// OwnerLost begins what is said of a call whose outcome a probe could not tell.
const OwnerLost = "its owner was lost while it ran; "

func (d *decider) probed(c Probed) error {
	call := d.t.Call(c.Call)
	if call == nil || call.Phase != PhaseProbing || call.Attempt != c.Attempt {
		return ErrStale
	}
	v := call.Verdict
	switch {
	case c.Found:
		o := d.outcome(call, events.ClassOK, events.EffectsDone, c.Result)
		d.emit(c.Call, &events.Completed{Outcome: o})
	case c.Failed && c.Why != "":
		d.unknownAfterLoss(call, OwnerLost+c.Why)
	case c.Failed || !(v.HonoursKey && v.Key != ""):
		d.unknownAfterLoss(call, OwnerLost+"the tool finds no effect, and that does not prove that none is still on its way")
	case d.over(call):
		d.unknownAfterLoss(call, OwnerLost+"the tool finds no effect yet, and another attempt is not wanted any more")
	default:
		d.emit(c.Call, &events.Retrying{Attempt: call.Attempt, Class: events.ClassLost, Until: d.env.Now.Truncate(time.Microsecond)})
	}
	return nil
}

// over says that there is to be no further attempt: somebody asked for the end, or
// the turn's deadline has passed.
func (d *decider) over(call *Call) bool {
	_, _, cancelled := d.t.Cancelled(call)
	end := d.t.Deadline()
	return cancelled || !end.IsZero() && !d.env.Now.Before(end)
}

// OutcomeOf is what an answer says that can settle nothing any more.
func OutcomeOf(c Settle) events.Outcome {
	o := events.Outcome{
		Attempt: c.Attempt, Class: c.Class, Effects: c.Effects, Result: c.Result, Exit: c.Exit, Signal: c.Signal, Output: c.Output,
	}
	if o.Effects == "" {
		o.Effects = events.EffectsPossible
	}
	o.Stages.Run = c.Run.Microseconds()
	return o
}

// outcome is the frame of a terminal: what is known of every call.
func (d *decider) outcome(c *Call, class events.Class, eff events.Effects, r events.Result) events.Outcome {
	return events.Outcome{Attempt: c.Attempt, Class: class, Effects: eff, Result: r, Stages: d.stages(c)}
}

func (d *decider) stages(c *Call) events.Stages {
	s := events.Stages{Queue: between(d.t.SubmittedAt, d.t.ClaimedAt)}
	if c.RequestedAt.IsZero() {
		return s
	}
	s.Gates = between(c.RequestedAt, first(c.AskedAt, c.AuthorizedAt))
	s.Approval = between(c.AskedAt, c.ApprovedAt)
	s.Wait = between(c.AuthorizedAt, c.StartedAt)
	return s
}

func first(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

// between is the microseconds from a to b; 0 where one has not been, or where
// two machines' clocks disagree.
func between(a, b time.Time) int64 {
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return max(0, b.Sub(a).Microseconds())
}

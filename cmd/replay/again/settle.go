package again

import (
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// What may have made an end final that today's decider would follow by another
// attempt, and no event holds.
const (
	longPause   = "it was not tried again: the other side must have asked for a longer pause than is waited for, which the log does not hold"
	stillRan    = "it was not tried again: the end of the attempt must not have been confirmed, which the log does not hold"
	probeFailed = "its tool could not tell what had become of the attempt: its probe must have failed, which the log does not hold"
	foundByTool = "its tool must have been asked after the attempt whether the effect had happened, which the log does not hold"
)

// settle are the reports of an attempt's end that may have led to the next event. What
// the attempt reported is taken from the record, and what follows from it is decided.
func (w *walker) settle(e entry, c *lifecycle.Call) []candidate {
	s := lifecycle.Settle{Call: e.Call, Attempt: c.Attempt, Confirmed: true}
	if r, ok := e.Event.(*events.Retrying); ok {
		return retried(s, r)
	}
	if r, ok := e.Event.(*events.InputRequested); ok {
		return askedFor(s, r)
	}
	o := events.OutcomeOf(e.Event)
	if o == nil {
		return nil
	}
	s.Class, s.Effects, s.Result, s.Attempt = o.Class, o.Effects, o.Result, o.Attempt
	s.Exit, s.Signal, s.Output, s.Run = o.Exit, o.Signal, o.Output, time.Duration(o.Stages.Run)*time.Microsecond
	if u, ok := e.Event.(*events.Unknown); ok && u.Why != events.UnknownNoAnswer {
		s.Confirmed, s.Pids = false, u.Pids
		return bothWays(s, "")
	}
	out := bothWays(s, "")
	switch e.Event.(type) {
	case *events.Failed, *events.TimedOut:
		late, pause, ran := s, s, s
		late.Jitter = 1 // the longest pause before another attempt may have been past the turn's deadline
		out = append(out, bothWays(late, "")...)
		pause.After, ran.Confirmed = 24*time.Hour, false
		out = append(out, bothWays(pause, longPause)...)
		return append(out, bothWays(ran, stillRan)...)
	case *events.Completed:
		found := s
		found.Class, found.Found = events.ClassLost, &o.Result
		return append(out, bothWays(found, foundByTool)...)
	}
	return out
}

// bothWays are a report of a tool that has answered itself, and of one that has not.
func bothWays(s lifecycle.Settle, assumes string) []candidate {
	var out []candidate
	for _, answered := range []bool{true, false} {
		s.Answered = answered
		cmd := s
		out = append(out, candidate{cmd: func(time.Time) lifecycle.Command { return cmd }, assumes: assumes})
	}
	return out
}

// askedFor is the report of an attempt whose tool asks a person.
func askedFor(s lifecycle.Settle, r *events.InputRequested) []candidate {
	s.Attempt, s.Class, s.Effects, s.Answered, s.Run = r.Attempt, events.ClassInput, r.Effects, true, time.Duration(r.Run)*time.Microsecond
	return []candidate{{cmd: func(now time.Time) lifecycle.Command {
		asks := s
		asks.Asks = &lifecycle.Asks{Requests: r.Requests, State: r.State, Secrets: r.Secrets, Expire: until(now, r.Expires)}
		return asks
	}}}
}

// retried are the reports after which an attempt is repeated: at the time that the
// other side asked for, or by the decider's own pause.
func retried(s lifecycle.Settle, r *events.Retrying) []candidate {
	s.Attempt, s.Class, s.Effects = r.Attempt, r.Class, r.Effects
	s.Result = events.Result{Status: events.Failure, Error: r.Error}
	var out []candidate
	for _, answered := range []bool{true, false} {
		s.Answered = answered
		cmd := s
		out = append(out, candidate{cmd: func(now time.Time) lifecycle.Command {
			late := cmd
			late.After = max(r.Until.Sub(now), 0)
			return late
		}}, always(cmd))
	}
	return out
}

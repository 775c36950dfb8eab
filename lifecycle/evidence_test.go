package lifecycle_test

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestEvidence: a caller's own limit, and the time that a shell line takes, say nothing
// of a tool.
func TestEvidence(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	turn := func(l events.Limits) lifecycle.Turn {
		return lifecycle.Turn{Submitted: &events.TurnSubmitted{Limits: l}, SubmittedAt: at}
	}
	call := func(deadline time.Duration, commands ...string) *lifecycle.Call {
		return &lifecycle.Call{
			Started: &events.Started{Deadline: at.Add(deadline)},
			Verdict: &events.Verdict{Operation: events.Operation{Class: events.OpExecute, Commands: commands}},
		}
	}
	for name, c := range map[string]struct {
		turn  lifecycle.Turn
		call  *lifecycle.Call
		class events.Class
		want  events.Class
	}{
		"the tool's own time":           {turn(events.Limits{}), call(time.Minute), events.ClassTimeout, events.ClassTimeout},
		"before the turn's end":         {turn(events.Limits{DeadlineMS: 120_000}), call(time.Minute), events.ClassTimeout, events.ClassTimeout},
		"the turn's end":                {turn(events.Limits{DeadlineMS: 60_000}), call(time.Minute), events.ClassTimeout, events.ClassCancelled},
		"the call's own limit":          {turn(events.Limits{CallMS: 1}), call(time.Millisecond), events.ClassTimeout, events.ClassCancelled},
		"a shell line":                  {turn(events.Limits{}), call(time.Minute, "sleep 3"), events.ClassTimeout, events.ClassCancelled},
		"nobody there":                  {turn(events.Limits{CallMS: 1}), call(time.Minute, "ls"), events.ClassUnavailable, events.ClassUnavailable},
		"an answer":                     {turn(events.Limits{CallMS: 1}), call(time.Minute), events.ClassOK, events.ClassOK},
		"a failure":                     {turn(events.Limits{}), call(time.Minute, "ls"), events.ClassTool, events.ClassTool},
		"nothing is known of the start": {turn(events.Limits{DeadlineMS: 1}), &lifecycle.Call{}, events.ClassTimeout, events.ClassTimeout},
	} {
		if got := lifecycle.Evidence(c.turn, c.call, c.class); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

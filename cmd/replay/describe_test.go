package main

import (
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestAnswerOfALostCall: who reads it later sees what ended the attempt, and that the probe
// of its tool was asked.
func TestAnswerOfALostCall(t *testing.T) {
	o := events.Outcome{Class: events.ClassUnavailable, Effects: events.EffectsPossible, Result: events.Result{
		Error: &events.Error{Code: events.ExecutionError, Message: "the worker that had begun it is silent"},
	}}
	const said, asked = "EXECUTION_ERROR: the worker that had begun it is silent", "its probe was asked"
	for _, c := range []struct {
		why   string
		tier  events.Tier
		probe bool
		want  bool
	}{
		{events.UnknownUnconfirmed, events.Irreversible, true, true},
		{events.UnknownUnconfirmed, events.Irreversible, false, false},
		{events.UnknownUnconfirmed, events.Readonly, true, false},
		{events.UnknownNoAnswer, events.Irreversible, true, false},
	} {
		call := &lifecycle.Call{Outcome: &o, Terminal: &events.Unknown{Outcome: o, Why: c.why}, Verdict: &events.Verdict{Tier: c.tier, Probe: c.probe}}
		if got := answer(call); !strings.HasPrefix(got, said) || strings.Contains(got, asked) != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

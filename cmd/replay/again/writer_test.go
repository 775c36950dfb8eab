package again_test

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// writer writes a turn with today's deciders.
type writer struct {
	tb  testing.TB
	key events.TurnKey
	now time.Time
	t   lifecycle.Turn
	log []bus.Stored
}

// do decides each command, and keeps all that follows as one commit of its owner's.
func (w *writer) do(cmds ...lifecycle.Command) {
	w.tb.Helper()
	w.now = w.now.Add(time.Millisecond)
	w.t.Key = w.key
	c := events.Commit{ID: "c", Turn: w.key, At: w.now, By: w.t.Owner}
	for _, cmd := range cmds {
		out, err := lifecycle.Decide(w.t, lifecycle.Env{Now: w.now, Owner: w.t.Owner}, cmd)
		if err != nil {
			w.tb.Fatal(err)
		}
		if claim, ok := out[0].Event.(*events.TurnClaimed); ok {
			c.By = claim.Owner
		}
		for _, r := range out {
			w.t = lifecycle.Evolve(w.t, lifecycle.Meta{At: w.now, By: c.By}, r)
		}
		c.Records = append(c.Records, out...)
	}
	w.log = append(w.log, bus.Stored{Generation: 1, Seq: uint64(len(w.log) + 1), Commit: c})
}

// all is a turn of calls that only read, from its beginning to its end.
func (w *writer) all(calls []events.RawCall) {
	w.do(lifecycle.Submit{Turn: events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, Calls: calls, Limits: events.Limits{Concurrency: lifecycle.MaxConcurrency}}})
	facts := make([]lifecycle.CallFacts, len(calls))
	begin := []lifecycle.Command{lifecycle.Claim{Boot: "b"}, lifecycle.Plan{Facts: facts}}
	verdicts := make([]events.Verdict, len(calls))
	for i, c := range calls {
		a, err := lifecycle.Parse(c.Args.Text)
		if err != nil {
			w.tb.Fatal(err)
		}
		facts[i] = lifecycle.CallFacts{Hash: a.Hash, Known: true, Safe: true}
		verdicts[i] = events.Verdict{Operation: events.Operation{Class: events.OpRead}, Tier: events.Readonly, Hash: a.Hash}
		begin = append(begin, lifecycle.Judge{Call: i, Verdict: verdicts[i], Findings: pass(lifecycle.PlanGates)})
	}
	w.do(begin...)
	for i := range calls {
		w.do(lifecycle.Begin{Call: i, Verdict: verdicts[i], Findings: pass(lifecycle.StartGates)})
		w.do(lifecycle.Settle{Call: i, Attempt: 1, Class: events.ClassOK, Answered: true, Confirmed: true, Result: events.Result{Status: events.Success}})
	}
}

func pass(gates []lifecycle.Gate) []lifecycle.Finding {
	out := make([]lifecycle.Finding, len(gates))
	for i, g := range gates {
		out[i].Gate = g
	}
	return out
}

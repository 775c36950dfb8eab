package lifecycle

import (
	"time"

	"github.com/sluice-run/sluice/events"
)

// Import is the synthetic history of a recorded turn: every call is requested,
// let through, started and completed as the recording says, or left open where
// it has no answer. Nothing of it was decided here, and nothing of it is ever
// run; s.Imported must say where it came from. answers has an entry a call, nil
// for one that has none.
func Import(key events.TurnKey, s events.TurnSubmitted, answers []*events.Result, at time.Time) ([]events.Record, error) {
	if err := CheckSubmission(s); err != nil {
		return nil, err
	}
	d := &decider{t: Turn{Key: key}, env: Env{Now: at}}
	d.emit(events.TurnEvent, &s)
	d.env.Owner = events.Owner{Boot: "import", Epoch: 1}
	d.emit(events.TurnEvent, &events.TurnClaimed{Owner: d.env.Owner, Why: events.ClaimNew})
	facts := make([]CallFacts, len(s.Calls))
	for i, raw := range s.Calls {
		if a, err := Parse(raw.Args.Text); err == nil {
			facts[i] = CallFacts{Hash: a.Hash, Known: true}
		}
	}
	if err := d.plan(Plan{Facts: facts}); err != nil {
		return nil, err
	}
	for i := range s.Calls {
		if i < len(answers) && answers[i] != nil {
			d.recorded(i, facts[i].Hash, *answers[i])
		}
	}
	if d.t.allEnded() {
		d.complete()
	}
	return d.out, nil
}

// recorded is the history of one answered call. Its tier is the strictest that
// needs nobody's approval: what it did is not known here.
func (d *decider) recorded(i int, hash string, r events.Result) {
	v := events.Verdict{Operation: events.Operation{Class: events.OpExecute}, Tier: events.Irreversible, Hash: hash, Policy: "imported"}
	d.emit(i, &events.Authorized{Verdict: v, Decision: "imported"})
	d.emit(i, &events.Started{Attempt: 1, Owner: d.env.Owner, Deadline: d.env.Now, Hash: hash})
	o := events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone, Result: r}
	d.emit(i, &events.Completed{Outcome: o})
}

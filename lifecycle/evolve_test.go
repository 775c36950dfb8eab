package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// anyRecord draws any event of the table, empty or nearly so, at any number.
func anyRecord(t *rapid.T) events.Record {
	row := rapid.SampledFrom(events.Kinds).Draw(t, "kind")
	r := events.Record{Call: events.TurnEvent, Seq: uint32(rapid.IntRange(0, 5).Draw(t, "seq")), Event: row.New()}
	if rapid.IntRange(0, 9).Draw(t, "of the wrong thing") > 0 && !row.Turn {
		r.Call = rapid.IntRange(0, 3).Draw(t, "call")
	}
	switch e := r.Event.(type) {
	case *events.TurnSubmitted:
		e.Calls = make([]events.RawCall, rapid.IntRange(0, 3).Draw(t, "calls"))
	case *events.TurnPlanned:
		e.Batches = [][]int{{rapid.IntRange(-1, 3).Draw(t, "planned")}}
	case *events.Recovered:
		e.Action = rapid.SampledFrom([]string{events.RecoverProbe, events.RecoverRestart, events.RecoverContinue, "odd"}).Draw(t, "action")
	case *events.Started:
		e.Attempt = rapid.IntRange(0, 3).Draw(t, "attempt")
	}
	return r
}

// No history, however wrong, makes a decider panic. What does not fit is named, and
// nothing is decided on it.
func TestEvolveIsTotal(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		w := newWorld()
		if rapid.Bool().Draw(t, "begins well") {
			if _, err := w.do(events.Owner{}, anySubmission(t)); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			r := anyRecord(t)
			before := w.turn
			w.turn = lifecycle.Evolve(w.turn, lifecycle.Meta{At: w.now}, r)
			if before.Broken != "" && w.turn.Broken != before.Broken {
				t.Fatal("the first thing that was wrong is forgotten")
			}
			w.log = append(w.log, events.Commit{At: w.now, Records: []events.Record{r}})
			lifecycle.Laws(w.log)
			due := lifecycle.Due(w.turn)
			if w.turn.Broken == "" {
				continue
			}
			if len(due) > 0 {
				t.Fatalf("broken, and %v is due", due)
			}
			if w.turn.Submitted == nil {
				continue
			}
			if got, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now}, anyCommand(t, w)); err == nil || got != nil {
				t.Fatalf("broken, and something was decided on it: %v, %v", got, err)
			}
		}
	})
}

// What does not fit is named, and changes nothing.
func TestEvolveNamesWhatDoesNotFit(t *testing.T) {
	foreign := events.Foreign{Name: "frozen", Version: 9}
	for _, c := range []struct {
		name, broken string
		steps        []step
	}{
		{"a gap", "event 7 follows 1", append(submitted(1), denied(0).numbered(7))},
		{"a gap in the turn", "event 9 follows 3", append(submitted(1), turn(&events.TurnParked{}).numbered(9))},
		{"a second terminal", `completed follows "denied"`, append(submitted(1), denied(0), completed(0, 1))},
		{"a start after the end", `started follows "denied"`, append(submitted(1), denied(0), started(0, 1, first))},
		{"no such call", "call 4, which is not in the submission", append(submitted(1), requested(4))},
		{"planned with no such call", "call 4, which is not", append(submitted(1), turn(&events.TurnPlanned{Batches: [][]int{{4}}}))},
		{"submitted twice", "turn_submitted, and it is submitted: true", append(submitted(1), turn(&events.TurnSubmitted{}))},
		{"claimed and not submitted", "turn_claimed, and it is submitted: false", []step{claims(first)}},
		{"after the turn's end", "turn_parked after its end", append(submitted(1), denied(0), turn(&events.TurnCompleted{}), turn(&events.TurnParked{}))},
	} {
		got := lifecycle.Fold(events.TurnKey{}, history(c.steps...)...)
		if !strings.Contains(got.Broken, c.broken) {
			t.Errorf("%s: broken is %q, want %q in it", c.name, got.Broken, c.broken)
		}
	}
	for _, s := range []step{turn(foreign), of(0, foreign)} {
		got := lifecycle.Fold(events.TurnKey{}, history(append(submitted(1), s)...)...)
		if !got.Foreign || got.Broken != "" || lifecycle.Due(got) != nil {
			t.Errorf("an event of a newer release: foreign %t, broken %q", got.Foreign, got.Broken)
		}
		if _, err := lifecycle.Decide(got, lifecycle.Env{Owner: first}, lifecycle.Advance{}); err == nil {
			t.Error("something was decided on an event of a newer release")
		}
	}
}

// Callers keep old states: what comes later does not change them.
func TestOldStatesStay(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		w := anyHistory(t, nil)
		var states, copies []lifecycle.Turn
		s := lifecycle.Turn{Key: w.key}
		for i, c := range oneByOne(w.log) {
			s = lifecycle.FoldOn(s, c)
			states = append(states, s)
			copies = append(copies, lifecycle.Fold(w.key, oneByOne(w.log)[:i+1]...))
		}
		// Two futures of one state do not meet in what they share.
		n := rapid.IntRange(0, len(states)-1).Draw(t, "state")
		lifecycle.FoldOn(states[n], oneByOne(w.log)[n+1:]...)
		for i := range states {
			if d := cmp.Diff(copies[i], states[i]); d != "" {
				t.Fatalf("the state behind event %d has changed:\n%s", i+1, d)
			}
		}
	})
}

// A turn's phases end in one, and only there.
func TestOpen(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		w := anyHistory(t, nil)
		for _, c := range w.turn.Calls {
			if c.Open() != (c.Terminal == nil) {
				t.Fatalf("call %d is open: %t, and its terminal is %v", c.Offset, c.Open(), c.Terminal)
			}
		}
		if w.turn.Ended != nil && slices.ContainsFunc(w.turn.Calls, (*lifecycle.Call).Open) {
			t.Fatal("the turn has ended, and a call is open")
		}
	})
}

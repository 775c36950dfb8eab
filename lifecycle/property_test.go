package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Whatever is said to a turn, by whomever, the laws hold; a refused command leaves
// nothing; and nothing is ever folded that does not fit.
func TestLawsHoldWhateverIsSaid(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		anyHistory(t, func(w *world, a act, records []events.Record, err error) {
			for _, v := range lifecycle.Laws(w.log) {
				t.Fatalf("%s, after %T", v, a.cmd)
			}
			if w.turn.Broken != "" || w.turn.Foreign {
				t.Fatalf("after %T: broken: %q, foreign: %t", a.cmd, w.turn.Broken, w.turn.Foreign)
			}
			if err != nil && len(records) > 0 {
				t.Fatalf("%T: refused (%v), with events", a.cmd, err)
			}
		})
	})
}

// The same command again has no further effect: it is refused, or gives nothing.
func TestTwiceIsOnce(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		anyHistory(t, func(w *world, a act, records []events.Record, _ error) {
			if len(records) == 0 {
				return
			}
			again, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now, Owner: a.by}, a.cmd)
			if len(again) > 0 {
				t.Fatalf("%+v, once more: %s (%v)", a.cmd, eventLine(again[0]), err)
			}
		})
	})
}

// Decide does not change the state that it is asked about, and decides the same of
// the same.
func TestDecideIsPure(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		w := anyHistory(t, nil)
		before := lifecycle.Fold(w.key, w.log...)
		a := anyAct(t, w)
		env := lifecycle.Env{Now: w.now, Owner: a.by}
		one, _ := lifecycle.Decide(w.turn, env, a.cmd)
		two, _ := lifecycle.Decide(w.turn, env, a.cmd)
		if d := cmp.Diff(one, two); d != "" {
			t.Fatalf("%T is decided in two ways:\n%s", a.cmd, d)
		}
		if d := cmp.Diff(before, w.turn); d != "" {
			t.Fatalf("%T changed the state:\n%s", a.cmd, d)
		}
	})
}

// The state that is folded from the events as they were decided is the state that
// is folded from their stored bytes, commit by commit or event by event.
func TestFoldWhatWasWritten(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		var decided []events.Commit
		w := anyHistory(t, func(w *world, a act, records []events.Record, _ error) {
			if len(records) == 0 {
				return
			}
			before := lifecycle.Fold(w.key, w.log[:len(w.log)-1]...)
			fresh, _ := lifecycle.Decide(before, lifecycle.Env{Now: w.now, Owner: a.by}, a.cmd)
			c := w.log[len(w.log)-1]
			c.Records = fresh
			decided = append(decided, c)
		})
		from := lifecycle.Fold(w.key, append([]events.Commit{w.log[0]}, decided...)...)
		if d := cmp.Diff(w.turn, from); d != "" {
			t.Fatalf("stored and decided events fold differently (-stored +decided):\n%s", d)
		}
		if d := cmp.Diff(w.turn, lifecycle.Fold(w.key, oneByOne(w.log)...)); d != "" {
			t.Fatalf("one by one the events fold differently:\n%s", d)
		}
	})
}

// Every prefix of every history can be brought to its end by whoever claims it
// next: every call has one terminal, and the laws hold.
func TestEveryPrefixRecovers(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		w := anyHistory(t, nil)
		single := oneByOne(w.log)
		for range 3 {
			n := rapid.IntRange(1, len(single)).Draw(t, "crash behind event")
			if err := recoverable(w.key, single[:n]); err != nil {
				t.Fatalf("crash behind event %d, %s: %v", n, eventLine(single[n-1].Records[0]), err)
			}
		}
	})
}

// What is due depends on the state alone, no debt contradicts another, and an owned
// turn that has not ended always owes something.
func TestDue(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		anyHistory(t, func(w *world, a act, _ []events.Record, _ error) {
			due := lifecycle.Due(w.turn)
			if !slices.Equal(due, lifecycle.Due(lifecycle.Fold(w.key, w.log...))) {
				t.Fatalf("after %T the same history owes something else", a.cmd)
			}
			owned := w.turn.Owner.Boot != "" && w.turn.Parked == nil && w.turn.Ended == nil
			if owned != (len(due) > 0) {
				t.Fatalf("after %T: owned and open is %t, and %d effects are due", a.cmd, owned, len(due))
			}
			consistent(t, w, due)
		})
	})
}

// consistent fails for two debts that cannot both be paid, and for one that would be
// refused.
func consistent(t *rapid.T, w *world, due []lifecycle.Effect) {
	seen := map[lifecycle.Effect]bool{}
	main := map[int]lifecycle.Do{} // what a call is owed, apart from being stopped
	starts := 0
	for _, e := range due {
		if seen[e] {
			t.Fatalf("%s is due twice", effectLine(e))
		}
		seen[e] = true
		if e.Do == lifecycle.DoPark && slices.ContainsFunc(due, func(o lifecycle.Effect) bool { return o.Do != lifecycle.DoExpire && o != e }) {
			t.Fatalf("to park is due beside %v", due)
		}
		if e.Call == events.TurnEvent {
			continue
		}
		c := w.turn.Call(e.Call)
		_, _, cancelled := w.turn.Cancelled(c)
		switch {
		case e.Do == lifecycle.DoStop && (!cancelled || main[e.Call] != lifecycle.DoPerform):
			t.Fatalf("%s is due, of a call that is not cancelled or does not run", effectLine(e))
		case e.Do == lifecycle.DoStop:
			continue
		case main[e.Call] != "":
			t.Fatalf("call %d is owed %s and %s", e.Call, main[e.Call], e.Do)
		case e.Do == lifecycle.DoPerform && (c.Started.Owner != w.turn.Owner || c.Attempt != e.Attempt):
			t.Fatalf("%s is due, and that attempt is not its owner's", effectLine(e))
		case e.Do == lifecycle.DoStart && cancelled:
			t.Fatalf("%s is due, of a call whose end was asked for", effectLine(e))
		}
		main[e.Call] = e.Do
		if e.Do == lifecycle.DoStart || e.Do == lifecycle.DoPerform {
			starts++
		}
	}
	if starts > w.turn.Concurrency() {
		t.Fatalf("%d calls would run at once, at most %d may", starts, w.turn.Concurrency())
	}
}

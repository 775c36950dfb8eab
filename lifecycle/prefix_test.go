package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// everyPrefix cuts a history between any two of its events and lets another
// boot, and then the same one once more, bring the turn to its end.
func everyPrefix(t *testing.T, key events.TurnKey, log []events.Commit) {
	t.Helper()
	single := oneByOne(log)
	for n := 1; n <= len(single); n++ {
		if err := recoverable(key, single[:n]); err != nil {
			t.Errorf("crash behind event %d, %s: %v", n, eventLine(single[n-1].Records[0]), err)
		}
	}
}

// recoverable says why a turn with this history cannot be brought to its end,
// by another boot or by the one that claimed it last.
func recoverable(key events.TurnKey, prefix []events.Commit) error {
	w := onwards(key, prefix)
	if w.turn.Submitted == nil || w.turn.Submitted.Imported != "" || w.turn.Ended != nil {
		return nil
	}
	own := w.turn.Owner.Boot
	for _, claim := range []lifecycle.Claim{{Boot: "other"}, {Boot: own}, {Boot: own, Reply: "another message"}} {
		if claim.Boot == "" {
			continue
		}
		if err := claimed(onwards(key, prefix), claim); err != nil {
			return fmt.Errorf("claimed by %s %s: %w", claim.Boot, claim.Reply, err)
		}
	}
	return nil
}

// claimed brings a turn to its end after a claim.
func claimed(w *world, claim lifecycle.Claim) error {
	if _, err := w.do(events.Owner{}, claim); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return whole(w)
}

// whole says what is wrong with a history that has come to its end.
func whole(w *world) error {
	if found := lifecycle.Laws(w.log); len(found) > 0 {
		return fmt.Errorf("%s", found[0])
	}
	if w.turn.Broken != "" || w.turn.Foreign {
		return fmt.Errorf("broken: %q, foreign: %t", w.turn.Broken, w.turn.Foreign)
	}
	terminals := make([]int, len(w.turn.Calls))
	for _, c := range w.log {
		for _, r := range c.Records {
			if events.IsTerminal(r.Event.Kind()) {
				terminals[r.Call]++
			}
		}
	}
	for i, n := range terminals {
		if n != 1 {
			return fmt.Errorf("call %d has %d terminals", i, n)
		}
	}
	return nil
}

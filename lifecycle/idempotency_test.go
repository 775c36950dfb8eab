package lifecycle_test

import (
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestWhoWaitedForAKeyIsToldWhatItsHolderIs: also that nobody knows. Who comes
// later is blocked, until somebody resolves it; then both find the same.
func TestWhoWaitedForAKeyIsToldWhatItsHolderIs(t *testing.T) {
	waited, late := events.CallKey{Trace: "u", Turn: "1", Offset: 2}, events.CallKey{Trace: "u", Turn: "2"}
	entry := &lifecycle.KeyEntry{Holder: "t/1/0", Hash: "h", Waiting: []string{"w/9", waited.TurnKey().String()}}
	for _, c := range []struct {
		name         string
		said         []string
		waited, late lifecycle.DedupeRuling
		as           events.Kind
	}{
		{"running", begunPay(), lifecycle.KeyWait, lifecycle.KeyWait, ""},
		{"completed", begunPay("settle 0 ok"), lifecycle.KeyReuse, lifecycle.KeyReuse, events.KindCompleted},
		{"failed, no effects", begunPay("settle 0 tool effects=none"), lifecycle.KeyTake, lifecycle.KeyTake, ""},
		{"failed, nobody knows", begunPay("settle 0 tool effects=possible"), lifecycle.KeyReuse, lifecycle.KeyBlocked, events.KindFailed},
		{"timed out", begunPay("settle 0 timeout unanswered"), lifecycle.KeyReuse, lifecycle.KeyBlocked, events.KindTimedOut},
		{"cancelled while it ran", begunPay("cancel 0", "settle 0 cancelled unanswered"), lifecycle.KeyReuse, lifecycle.KeyBlocked, events.KindCancelled},
		{"lost, being asked", begunPay("crash"), lifecycle.KeyWait, lifecycle.KeyWait, ""},
		{"lost", begunPay("crash", "probe 0 failed"), lifecycle.KeyReuse, lifecycle.KeyBlocked, events.KindUnknown},
		{"resolved: done", begunPay("crash", "probe 0 failed", "resolve 0 done"), lifecycle.KeyReuse, lifecycle.KeyReuse, events.KindCompleted},
		{"resolved: none", begunPay("crash", "probe 0 failed", "resolve 0 none"), lifecycle.KeyTake, lifecycle.KeyTake, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			sp := &speaker{world: w}
			for _, line := range c.said {
				sp.line(t, line)
			}
			got, d := lifecycle.Dedupe(waited, "h", entry, w.turn)
			if got != c.waited || (d != nil) != (got == lifecycle.KeyReuse) {
				t.Fatalf("who waited: %s, %v; want %s", got, d, c.waited)
			}
			if d != nil {
				told := lifecycle.AnswerOf(0, events.RawCall{}, d)
				holder := lifecycle.AnswerOf(0, events.RawCall{}, w.turn.Calls[0].Terminal)
				if w.turn.Calls[0].Resolved == nil && told.Standing != holder.Standing {
					t.Errorf("who waited is told %s, the holder %s", told.Standing, holder.Standing)
				}
				if d.As != c.as || d.Of != entry.Holder {
					t.Errorf("as %s of %s, want %s of %s", d.As, d.Of, c.as, entry.Holder)
				}
			}
			if got, _ := lifecycle.Dedupe(late, "h", entry, w.turn); got != c.late {
				t.Errorf("who comes later: %s, want %s", got, c.late)
			}
			if got, _ := lifecycle.Dedupe(waited, "other", entry, w.turn); c.waited != lifecycle.KeyTake && got != lifecycle.KeyConflict {
				t.Errorf("other arguments: %s", got)
			}
		})
	}
}

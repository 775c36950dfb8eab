package lifecycle_test

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// polling is a world with one readonly call whose attempt n has just started.
func polling(t *testing.T, limits events.Limits) *world {
	t.Helper()
	w := newWorld()
	for _, cmd := range []lifecycle.Command{
		lifecycle.Submit{Turn: events.TurnSubmitted{
			Principal: events.Principal{ID: "agent"}, Mode: events.ModeWrite, Limits: limits,
			Calls: []events.RawCall{rawCall(0, "poll", "", "")},
		}},
		lifecycle.Claim{Boot: "n1"},
	} {
		w.must(t, cmd)
	}
	w.must(t, lifecycle.Plan{Facts: facts(w.turn), Policy: "p1"})
	w.must(t, judged(w.turn, w.turn.Calls[0]))
	w.must(t, begun(w.turn, w.turn.Calls[0]))
	return w
}

func (w *world) must(t *testing.T, cmd lifecycle.Command) []events.Record {
	t.Helper()
	records, err := w.do(w.me, cmd)
	if err != nil || len(records) == 0 {
		t.Fatalf("%T: %v, %d events", cmd, err, len(records))
	}
	return records
}

// TestRetriesWaitTwiceAsLongEachTime: between half of and the whole doubled delay, as
// chance says, never longer than half a minute, and as often as the tool allows.
func TestRetriesWaitTwiceAsLongEachTime(t *testing.T) {
	for _, jitter := range []float64{0, 0.25, 1} {
		w := polling(t, events.Limits{})
		for n := 1; ; n++ {
			w.must(t, lifecycle.Settle{Call: 0, Attempt: n, Class: events.ClassUnavailable, Answered: false, Confirmed: true, Jitter: jitter})
			c := w.turn.Calls[0]
			if c.Phase != lifecycle.PhaseRetrying {
				if most := fixtures["poll"].retries + 1; n != most || c.Last != events.KindFailed {
					t.Errorf("jitter %v: %s after %d attempts, want %d", jitter, c.Last, n, most)
				}
				break
			}
			full := min(200*time.Millisecond<<min(n-1, 20), 30*time.Second)
			want := full/2 + time.Duration(jitter*float64(full/2))
			if got := c.RetryAt.Sub(w.now); got != want {
				t.Errorf("jitter %v: %s after attempt %d, want %s", jitter, got, n, want)
			}
			if _, err := w.do(w.me, begun(w.turn, c)); err == nil {
				t.Errorf("jitter %v: attempt %d started before its time", jitter, n+1)
			}
			w.now = c.RetryAt
			w.must(t, begun(w.turn, c))
		}
	}
}

// TestWhatIsNotTriedAgain: each of these would be, but for one thing.
func TestWhatIsNotTriedAgain(t *testing.T) {
	again := lifecycle.Settle{Call: 0, Attempt: 1, Class: events.ClassUnavailable, Confirmed: true}
	with := func(change func(*lifecycle.Settle)) lifecycle.Settle {
		s := again
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		settle lifecycle.Settle
		limits events.Limits
		cancel bool
		want   events.Kind
	}{
		"nothing is in the way":         {settle: again, want: events.KindRetrying},
		"a time-out":                    {settle: with(func(s *lifecycle.Settle) { s.Class = events.ClassTimeout }), want: events.KindRetrying},
		"the caller's own deadline":     {settle: with(func(s *lifecycle.Settle) { s.Class = events.ClassTimeout }), limits: events.Limits{CallMS: 50}, want: events.KindTimedOut},
		"refused arguments":             {settle: with(func(s *lifecycle.Settle) { s.Class, s.Answered = events.ClassInvalid, true }), want: events.KindFailed},
		"a conflict":                    {settle: with(func(s *lifecycle.Settle) { s.Class, s.Answered = events.ClassConflict, true }), want: events.KindFailed},
		"the tool's own failure":        {settle: with(func(s *lifecycle.Settle) { s.Class, s.Answered = events.ClassTool, true }), want: events.KindFailed},
		"a panic":                       {settle: with(func(s *lifecycle.Settle) { s.Class = events.ClassPanic }), want: events.KindFailed},
		"it may still run":              {settle: with(func(s *lifecycle.Settle) { s.Confirmed, s.Pids = false, []int{7} }), want: events.KindUnknown},
		"after a minute, as asked":      {settle: with(func(s *lifecycle.Settle) { s.After = time.Minute }), want: events.KindRetrying},
		"after more than a minute":      {settle: with(func(s *lifecycle.Settle) { s.After = time.Minute + 1 }), want: events.KindFailed},
		"before the turn's deadline":    {settle: again, limits: events.Limits{DeadlineMS: 101}, want: events.KindRetrying},
		"at the turn's deadline":        {settle: again, limits: events.Limits{DeadlineMS: 100}, want: events.KindFailed},
		"Retry-After past the deadline": {settle: with(func(s *lifecycle.Settle) { s.After = 2 * time.Second }), limits: events.Limits{DeadlineMS: 2_000}, want: events.KindFailed},
		"somebody asked for the end":    {settle: again, cancel: true, want: events.KindFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := polling(t, c.limits)
			if c.cancel {
				w.must(t, lifecycle.CancelTurn{By: person})
			}
			w.must(t, c.settle)
			if got := w.turn.Calls[0].Last; got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}

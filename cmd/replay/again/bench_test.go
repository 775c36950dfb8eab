package again_test

import (
	"fmt"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
	"github.com/sluice-run/sluice/test/corpus"
)

// BenchmarkSurvey asks a policy about calls, of which nothing but two settings is known:
// each is judged with the network and without.
func BenchmarkSurvey(b *testing.B) {
	set, err := cedar.Default(cedar.Options{})
	if err != nil {
		b.Fatal(err)
	}
	off := false
	for _, p := range []struct {
		name string
		conf again.Config
	}{
		{"rules", again.Config{Policy: policy.Default()}},
		{"cedar", again.Config{Policy: set}},
		{"cedar_network_off", again.Config{Policy: set, Settings: again.Settings{Network: &off}}},
	} {
		b.Run(p.name, func(b *testing.B) {
			s := again.NewSurvey(p.conf, again.Selection{})
			calls := []events.RawCall{raw("Read", `{"path":"a.txt"}`), raw("Bash", `{"command":"git status && ls -l"}`), raw("Edit", `{"path":"a.go"}`), raw("charge", `{"order":"o"}`)}
			n := 0
			for b.Loop() {
				for _, c := range simple(n, calls...) {
					s.Add(c)
				}
				n++
			}
			b.ReportMetric(float64(n*len(calls))/b.Elapsed().Seconds(), "calls/s")
			if sum := s.End(); sum.Calls != n*len(calls) {
				b.Errorf("%d calls of %d", sum.Calls, n*len(calls))
			}
		})
	}
}

// BenchmarkTurn decides the turns of the corpus again.
func BenchmarkTurn(b *testing.B) {
	for _, name := range []string{"ends", "people", "owners", "imported"} {
		b.Run(name, func(b *testing.B) {
			l, err := corpus.Read("v1", name)
			if err != nil {
				b.Fatal(err)
			}
			commits, err := l.Commits()
			if err != nil {
				b.Fatal(err)
			}
			keys, of := turnsOf(commits)
			n := 0
			for b.Loop() {
				for _, k := range keys {
					r := again.Turn(k, of[k], again.Config{})
					if n += r.Decided; r.Difference != nil {
						b.Fatal(r.Difference)
					}
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkLongTurn decides a turn of many calls again: the cost of an event must not
// grow with the turn.
func BenchmarkLongTurn(b *testing.B) {
	for _, calls := range []int{16, 256} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			key, log := long(b, calls)
			n := 0
			for b.Loop() {
				r := again.Turn(key, log, again.Config{})
				if n += r.Decided; r.Difference != nil {
					b.Fatal(r.Difference)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// long is a turn of so many calls, as the deciders write it.
func long(tb testing.TB, calls int) (events.TurnKey, []bus.Stored) {
	tb.Helper()
	var raws []events.RawCall
	for i := range calls {
		raws = append(raws, raw("Read", fmt.Sprintf(`{"path":"%d"}`, i)))
	}
	w := &writer{tb: tb, key: events.TurnKey{Trace: "long", Turn: "t"}, now: epoch}
	w.all(raws)
	return w.key, w.log
}

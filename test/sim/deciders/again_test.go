package deciders

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/cmd/replay/again"
)

// TestWhatHappenedIsDecidedAgain: today's deciders, given what led to each log, decide
// every event of it once more, also where every event was a commit of its own and some
// were lost.
func TestWhatHappenedIsDecidedAgain(t *testing.T) {
	decided, cut := 0, 0
	for seed := range uint64(*seedsFlag / 6) {
		s := newSim(seed + 1)
		if err := s.run(); err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		for _, c := range s.clients {
			_, _, log := s.load(c.key)
			r := again.Turn(c.key, log, again.Config{})
			decided += r.Decided
			for _, n := range r.Notes {
				switch {
				case n.Kind == again.NoteCut:
					cut++
				case n.Kind == again.NoteAssumed && !strings.Contains(n.Text, "its probe must have failed"): // that is in no event
					t.Errorf("seed %d, %s: %s: %s", seed+1, c.key, n.Position, n.Text)
				}
			}
			if r.Difference != nil || r.Stopped != nil || r.Decided != r.Events {
				said := ""
				for _, st := range log {
					said += fmt.Sprintf("%d %s %s/%d: %v\n", st.Seq, st.Commit.At.Format("04:05.000000"), st.Commit.By.Boot, st.Commit.By.Epoch, kinds(st.Commit.Records))
				}
				t.Fatalf("seed %d, %s: %v, stopped %+v\n%s", seed+1, c.key, r.Difference, r.Stopped, said)
			}
		}
	}
	if cut == 0 {
		t.Error("no decision was cut short: this test shows less than it means to")
	}
	t.Logf("%d events, %d decisions cut short", decided, cut)
}

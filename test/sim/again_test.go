package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/cmd/replay/again"
)

var againFlag = flag.Uint64("again", 20, "how many seeds' logs to decide again")

// TestWhatHappenedIsDecidedAgain: today's deciders and policy, given what led to each
// log, decide every event of it once more, whatever went wrong meanwhile.
func TestWhatHappenedIsDecidedAgain(t *testing.T) {
	decided, turns := 0, 0
	for seed := range *againFlag {
		s := newSim(seed + 1)
		if err := s.run(); err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		for _, c := range s.clients {
			log := s.read(c.key)
			for _, conf := range []again.Config{{}, {Policy: authorizer{}}} {
				r := again.Turn(c.key, log, conf)
				turns++
				decided += r.Decided
				if r.Difference != nil || r.Stopped != nil || r.Decided != r.Events {
					t.Errorf("seed %d, %s, policy %v: %v, stopped %+v\n%s", seed+1, c.key, conf.Policy, r.Difference, r.Stopped, told(s, c))
				}
				for _, n := range r.Notes { // whether a probe failed or found nothing is in no event
					if n.Kind == again.NoteAssumed && !strings.Contains(n.Text, "its probe must have failed") {
						t.Errorf("seed %d, %s: %s: %s", seed+1, c.key, n.Position, n.Text)
					}
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d events of %d turns", decided, turns)
}

// told is a client's turn, commit by commit.
func told(s *sim, c *client) string {
	out := ""
	for _, st := range s.read(c.key) {
		out += fmt.Sprintf("%d %s %s %s/%d: %v\n", st.Seq, st.Commit.ID, st.Commit.At.Format("04:05.000000"), st.Commit.By.Boot, st.Commit.By.Epoch, kinds(st.Commit.Records))
	}
	return out
}

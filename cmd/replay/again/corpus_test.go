package again_test

import (
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/corpus"
)

// turnsOf are the turns of commits, in the order in which they began.
func turnsOf(commits []events.Commit) (keys []events.TurnKey, of map[events.TurnKey][]bus.Stored) {
	of = map[events.TurnKey][]bus.Stored{}
	for i, c := range commits {
		if of[c.Turn] == nil {
			keys = append(keys, c.Turn)
		}
		of[c.Turn] = append(of[c.Turn], bus.Stored{Generation: 1, Seq: uint64(i + 1), Commit: c})
	}
	return keys, of
}

func TestEveryReleasesLogsAreDecidedTheSame(t *testing.T) {
	logs, err := corpus.Logs()
	if err != nil {
		t.Fatal(err)
	}
	decided := 0
	for _, l := range logs {
		commits, err := l.Commits()
		if err != nil {
			t.Fatal(err)
		}
		keys, of := turnsOf(commits)
		for _, k := range keys {
			r := again.Turn(k, of[k], again.Config{Strict: true})
			if r.Difference != nil || r.Stopped != nil || r.Decided != r.Events {
				t.Errorf("%s/%s, turn %s: %v, stopped %+v, %d of %d", l.Release, l.Name, k, r.Difference, r.Stopped, r.Decided, r.Events)
			}
			decided += r.Decided
		}
	}
	if decided < 100 {
		t.Errorf("only %d events", decided)
	}
}

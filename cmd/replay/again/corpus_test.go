package again_test

import (
	"path/filepath"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/cmd/replay/archive"
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

// TestEveryReleasesArchivesAreDecidedTheSame: also those that were redacted.
func TestEveryReleasesArchivesAreDecidedTheSame(t *testing.T) {
	files, err := filepath.Glob("../../../test/corpus/archives/v*/*.sluice")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d archives, %v", len(files), err)
	}
	for _, file := range files {
		a, err := archive.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		of := map[events.TurnKey][]bus.Stored{}
		err = a.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
			of[s.Commit.Turn] = append(of[s.Commit.Turn], s)
			return nil
		})
		if err != nil || len(of) == 0 {
			t.Fatalf("%s: %d turns, %v", file, len(of), err)
		}
		conf := again.Config{Settings: again.Settings{Redacted: a.Redacted(), Body: func(ref events.BlobRef) (string, bool) {
			b, err := a.Blobs().Get(t.Context(), ref)
			return string(b), err == nil
		}}}
		for k, log := range of {
			r := again.Turn(k, log, conf)
			if stopped := r.Stopped != nil && r.Stopped.Kind != again.StopNewer; r.Difference != nil || stopped {
				t.Errorf("%s, %s: %v, %+v", file, k, r.Difference, r.Stopped)
			}
		}
	}
}

package jetlog

import (
	"testing"

	"github.com/sluice-run/sluice/events"
)

// TestLoadsFromTheLogWhereTheMirrorStandsStill: a turn is read whole although the mirror
// has nothing of it.
func TestLoadsFromTheLogWhereTheMirrorStandsStill(t *testing.T) {
	b, _ := opened(t, ServerConfig{Dir: t.TempDir()})
	first := commits(t, b, "a", 2, 0)
	last := commits(t, b, "b", 1, first)
	if err := b.admin.DeleteStream(t.Context(), StreamRead); err != nil {
		t.Fatal(err)
	}
	empty := b.cfg.readConfig()
	empty.Mirror = nil
	if _, err := b.admin.CreateStream(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	turn := testTurn
	got, err := b.Load(t.Context(), turn, last)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[2].Seq != last || got[0].Commit.Turn != turn {
		t.Errorf("%d commits, the last at %d: want 3, up to %d", len(got), got[len(got)-1].Seq, last)
	}
	for i, s := range got[1:] {
		if s.Seq <= got[i].Seq {
			t.Errorf("commit %d at %d, behind %d", i+1, s.Seq, got[i].Seq)
		}
	}
	rest, err := b.loadHot(t.Context(), turn, first+1)
	if err != nil || len(rest) != 1 || rest[0].Seq != last {
		t.Errorf("from %d: %d commits, %v", first+1, len(rest), err)
	}
	if none, err := b.loadHot(t.Context(), events.TurnKey{Trace: "a", Turn: "none"}, 1); err != nil || len(none) != 0 {
		t.Errorf("a turn without events: %d commits, %v", len(none), err)
	}
}

// TestALoadDoesNotWaitForWhatIsLost: a sequence that went with the log's tail never comes.
func TestALoadDoesNotWaitForWhatIsLost(t *testing.T) {
	b, _ := opened(t, ServerConfig{Dir: t.TempDir()})
	last := commits(t, b, "a", 2, 0)
	got, err := b.Load(t.Context(), testTurn, last+1000)
	if err != nil || len(got) != 2 {
		t.Errorf("%d commits, %v: want the two that there are", len(got), err)
	}
}

package actors

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// sayHere writes a boot's presence.
func sayHere(t *testing.T, b bus.Bus, boot string, last here, ttl time.Duration) {
	t.Helper()
	value, err := json.Marshal(last)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cells().Put(t.Context(), bus.BucketPresence, boot, value, 0, ttl); err != nil {
		t.Fatal(err)
	}
}

// heldTurn is a turn whose message a boot has in hands, and has claimed if owned.
func heldTurn(t *testing.T, b bus.Bus, boot, placement string, owned bool) events.TurnKey {
	t.Helper()
	key := submit(t, b, events.TurnSubmitted{Calls: calls("echo"), Placement: placement})
	d, err := b.Pull(t.Context(), []string{placement})
	if err != nil || d.Item().Turn != key {
		t.Fatalf("pulled %+v, %v", d, err)
	}
	if !owned {
		return key
	}
	stored, err := b.Load(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	recs, err := lifecycle.Decide(lifecycle.Fold(key, commits(stored)...), lifecycle.Env{Now: now}, lifecycle.Claim{Boot: boot, Reply: d.Reply()})
	if err != nil {
		t.Fatal(err)
	}
	c := events.Commit{ID: ulid.Make().String(), Turn: key, At: now, By: events.Owner{Boot: boot, Epoch: 1}, Records: recs}
	if _, err := b.Append(t.Context(), c, stored[0].Seq); err != nil {
		t.Fatal(err)
	}
	return key
}

// copies are how many messages of each turn the queue has.
func copies(l *memlog.Log) map[events.TurnKey]int {
	out := make(map[events.TurnKey]int)
	for _, it := range l.Queued() {
		out[it.Turn]++
	}
	return out
}

// TestADeathGivesATurnBackOnce, however often it is looked: the queue of what nobody
// empties does not grow, what the dead boot did not serve is left alone, and the log
// speaks of turns.
func TestADeathGivesATurnBackOnce(t *testing.T) {
	gpu := []string{"gpu"}
	rows := []struct {
		name           string
		last           here
		live           []string // what somebody serves
		free, own, far int      // messages afterwards: of nobody, of the dead boot, of another placement
		turns          int      // that were given back
	}{
		{"it serves", here{}, []string{"default"}, 2, mournPasses, 1, 2},
		{"nobody serves", here{}, gpu, 1, 1, 1, 1},
		// That it owns a turn of a queue that it did not take from cannot be.
		{"it served another placement", here{Placements: gpu}, []string{"default", "gpu"}, 1, 1, 2, 1},
		{"it drained", here{Draining: true}, []string{"default", "gpu"}, 1, 1, 1, 1},
		{"it drained another placement", here{Placements: gpu, Draining: true}, []string{"default", "gpu"}, 1, 1, 1, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			l := memlog.New(memlog.Config{AckWait: time.Hour})
			b := l.View("old")
			var said spoken
			n := testNode(t, l.View("n"), func(c *Config) {
				c.Placements, c.Sweep = []string{"elsewhere"}, -1
				c.Log = slog.New(slog.NewTextHandler(&said, nil))
			})
			sayHere(t, b, "live", here{Placements: row.live}, time.Hour)
			free, own := heldTurn(t, b, "old", "default", false), heldTurn(t, b, "old", "default", true)
			far := heldTurn(t, b, "old", "gpu", false)
			m := newMourning(n, "old", row.last)
			for range mournPasses {
				if err := m.look(); err != nil {
					t.Fatal(err)
				}
			}
			has := copies(l)
			if has[free] != row.free || has[own] != row.own || has[far] != row.far {
				t.Errorf("messages: of nobody's turn %d, of its own %d, of another placement's %d", has[free], has[own], has[far])
			}
			if len(m.given) != row.turns {
				t.Errorf("%d turns were given back, want %d", len(m.given), row.turns)
			}
			lines := strings.Count(said.String(), "given back")
			if want := min(1, row.turns); lines != want || want == 1 && !strings.Contains(said.String(), fmt.Sprintf("turns=%d", row.turns)) {
				t.Errorf("it says %s", said.String())
			}
		})
	}
}

// TestADrainThatEndsIsNoDeath: its presence ends a while after it, and only what it still
// owns comes back.
func TestADrainThatEndsIsNoDeath(t *testing.T) {
	l := memlog.New(memlog.Config{AckWait: time.Hour})
	b := l.View("old")
	var said spoken
	free, own := heldTurn(t, b, "old", "default", false), heldTurn(t, b, "old", "default", true)
	sayHere(t, b, "old", here{Draining: true}, 2*time.Second)
	n := testNode(t, l.View("n"), func(c *Config) {
		c.Presence, c.Sweep = time.Second, -1
		c.Log = slog.New(slog.NewTextHandler(&said, nil))
	}, testTool("echo", events.Readonly, echo))
	turn := ended(t, b, own)
	wantLasts(t, turn, "completed")
	if turn.Claim.Why != events.ClaimTakenOver {
		t.Errorf("claimed because %s", turn.Claim.Why)
	}
	eventually(t, "the log to tell", func() bool { return strings.Contains(said.String(), "still owned turns") })
	stopNode(t, n)
	if strings.Contains(said.String(), "a node has died") {
		t.Errorf("it says %s", said.String())
	}
	if has := copies(l); has[free] != 1 {
		t.Errorf("what nobody had claimed has %d messages", has[free])
	}
}

package actors

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// sweeping makes a node look for forgotten turns all the time.
func sweeping(c *Config) { c.Sweep = 10 * time.Millisecond }

// appendOnly is a door that dies before it queues its turn.
func appendOnly(t *testing.T, b bus.Bus, sub events.TurnSubmitted, at time.Time) events.TurnKey {
	t.Helper()
	key := events.TurnKey{Trace: "t" + ulid.Make().String(), Turn: "1"}
	sub.Principal = events.Principal{ID: "agent"}
	recs, err := lifecycle.Decide(lifecycle.Turn{Key: key}, lifecycle.Env{Now: at}, lifecycle.Submit{Turn: sub})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(t.Context(), events.Commit{ID: ulid.Make().String(), Turn: key, At: at, Records: recs}, 0); err != nil {
		t.Fatal(err)
	}
	return key
}

// write appends a command to the log and tells nobody.
func write(t *testing.T, b bus.Bus, key events.TurnKey, cmd lifecycle.Command) {
	t.Helper()
	stored, err := b.Load(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	recs, err := lifecycle.Decide(lifecycle.Fold(key, commits(stored)...), lifecycle.Env{Now: now}, cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(t.Context(), events.Commit{ID: ulid.Make().String(), Turn: key, At: now, Records: recs}, stored[len(stored)-1].Seq); err != nil {
		t.Fatal(err)
	}
}

// TestATurnThatWasNeverQueued runs: its door died between the append and the push.
func TestATurnThatWasNeverQueued(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, sweeping, testTool("echo", events.Readonly, echo))
	wantLasts(t, ended(t, b, appendOnly(t, b, events.TurnSubmitted{Calls: calls("echo")}, time.Now().UTC())), "completed")
}

// TestAWakeUpThatWasLost: somebody cancelled a parked turn, and died before the
// wake-up.
func TestAWakeUpThatWasLost(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, sweeping, testTool("ask", events.Approval, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("ask"), CanAsk: true})
	until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	write(t, b, key, lifecycle.CancelTurn{By: events.Principal{ID: "me"}})
	wantLasts(t, ended(t, b, key), "cancelled")
}

// TestAMessageThatIsGone: a zombie acked the message of a turn whose next owner died.
func TestAMessageThatIsGone(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	key := appendOnly(t, b, events.TurnSubmitted{Calls: calls("echo")}, time.Now().UTC())
	stored, err := b.Load(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	recs, err := lifecycle.Decide(lifecycle.Fold(key, commits(stored)...), lifecycle.Env{Now: now}, lifecycle.Claim{Boot: "gone", Reply: "none"})
	if err != nil {
		t.Fatal(err)
	}
	by := events.Owner{Boot: "gone", Epoch: 1}
	if _, err := b.Append(t.Context(), events.Commit{ID: ulid.Make().String(), Turn: key, At: now, By: by, Records: recs}, stored[0].Seq); err != nil {
		t.Fatal(err)
	}
	testNode(t, b, sweeping, testTool("echo", events.Readonly, echo))
	turn := ended(t, b, key)
	wantLasts(t, turn, "completed")
	if turn.Claim.Why != events.ClaimTakenOver || turn.Owner.Epoch != 2 {
		t.Errorf("claimed because %s, epoch %d", turn.Claim.Why, turn.Owner.Epoch)
	}
}

// TestAPlacementThatNobodyServes: its turns can be cancelled, their deadlines pass,
// and they wait for a node that serves it.
func TestAPlacementThatNobodyServes(t *testing.T) {
	log := memlog.New(memlog.Config{})
	b := log.View("a")
	n := testNode(t, b, sweeping, testTool("echo", events.Readonly, echo))
	far := events.TurnSubmitted{Calls: calls("echo", "echo"), Placement: "far"}
	waits := submit(t, b, far)
	cancelled := submit(t, b, far)
	as(t, b, cancelled, lifecycle.CancelTurn{By: events.Principal{ID: "me"}, Reason: "enough"})
	wantLasts(t, ended(t, b, cancelled), "cancelled cancelled")
	far.Limits.DeadlineMS = 1
	late := appendOnly(t, b, far, time.Now().UTC().Add(-time.Minute))
	wantLasts(t, ended(t, b, late), "timed_out timed_out")

	if turn := until(t, b, waits, "being there", func(turn lifecycle.Turn) bool { return turn.Submitted != nil }); turn.Owner.Boot != "" {
		t.Errorf("%s has claimed it", turn.Owner.Boot)
	}
	eventually(t, "the one that waits to be counted", func() bool { return n.Unserved() == 1 })
	testNode(t, log.View("b"), func(c *Config) { c.Placements = []string{"far"} }, testTool("echo", events.Readonly, echo))
	wantLasts(t, ended(t, b, waits), "completed completed")
	eventually(t, "nothing to wait any more", func() bool { return n.Unserved() == 0 })
}

// TestAnOwnerIsLostWhereNobodyServes: what it ran is settled, and what asks people
// expires, although its tools are on no node any more.
func TestAnOwnerIsLostWhereNobodyServes(t *testing.T) {
	log := memlog.New(memlog.Config{AckWait: 200 * time.Millisecond})
	b := log.View("b")
	stuck, began := stuckTool("stuck", events.Irreversible)
	reg := []string{"far"}
	dies := log.View("a")
	testNode(t, dies, func(c *Config) {
		c.Placements, c.Presence, c.Approval = reg, time.Second, 200*time.Millisecond
	}, stuck, testTool("ask", events.Approval, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("stuck", "ask"), Placement: "far", CanAsk: true})
	<-began
	dies.Disconnect()
	defer dies.Connect()
	testNode(t, b, sweeping, testTool("echo", events.Readonly, echo))
	wantLasts(t, ended(t, b, key), "unknown denied")
}

// TestWhatWasNotKeptIsNotTold: a turn's deadline is about to be noted, and a person's no
// comes first. What would have been appended is nobody's answer.
func TestWhatWasNotKeptIsNotTold(t *testing.T) {
	log := memlog.New(memlog.Config{})
	b := log.View("b")
	far := testNode(t, log.View("a"), func(c *Config) { c.Placements = []string{"far"} }, testTool("ask", events.Approval, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("ask"), Placement: "far", CanAsk: true, Limits: events.Limits{DeadlineMS: 3_600_000}})
	parked := until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	stopNode(t, far)

	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	n := testNode(t, b, func(c *Config) { c.Sweep, c.Now = -1, later }, testTool("echo", events.Readonly, echo))
	told, stop := n.Watch(key)
	defer stop()
	var once sync.Once
	log.SetFaults(&memlog.Faults{Append: func(c events.Commit) (bool, error) {
		if c.By.Boot == n.cfg.Boot {
			once.Do(func() {
				as(t, b, key, lifecycle.Reject{Call: 0, By: events.Principal{ID: "me", Kind: lifecycle.KindPerson}})
			})
		}
		return false, nil
	}})
	defer log.SetFaults(nil)
	if err := n.endTurn(parked, ""); err != nil {
		t.Fatal(err)
	}
	select {
	case f := <-told:
		t.Errorf("somebody was told %s, which is not in the log", f.Turn.Calls[0].Terminal.Kind())
	default:
	}
	wantLasts(t, until(t, b, key, "being refused", func(turn lifecycle.Turn) bool { return !turn.Calls[0].Open() }), "denied")
}

// TestATurnThatGrowsTooOld is abandoned before the log forgets it, with an answer
// for every call.
func TestATurnThatGrowsTooOld(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, func(c *Config) { c.Sweep, c.Retention = 10*time.Millisecond, time.Hour }, testTool("echo", events.Readonly, echo))
	far := events.TurnSubmitted{Calls: calls("echo", "nope"), Placement: "far"}
	old := appendOnly(t, b, far, time.Now().UTC().Add(-31*time.Minute))
	young := appendOnly(t, b, far, time.Now().UTC().Add(-29*time.Minute))
	turn := ended(t, b, old)
	wantLasts(t, turn, "cancelled cancelled")
	if turn.Ended.Kind() != events.KindTurnAbandoned {
		t.Errorf("it ended as %s", turn.Ended.Kind())
	}
	if turn := until(t, b, young, "being there", func(turn lifecycle.Turn) bool { return turn.Submitted != nil }); turn.Owner.Boot != "" {
		t.Errorf("%s has claimed the younger one", turn.Owner.Boot)
	}
}

// TestOneSweeps: of several nodes one reads the log, the next one goes on where it
// stood, and what has ended is not remembered.
func TestOneSweeps(t *testing.T) {
	log := memlog.New(memlog.Config{})
	b := log.View("a")
	n := testNode(t, b, func(c *Config) { c.Sweep = -1 }, testTool("echo", events.Readonly, echo), testTool("ask", events.Approval, echo))
	other := testNode(t, log.View("b"), func(c *Config) { c.Sweep = -1 }, testTool("echo", events.Readonly, echo), testTool("ask", events.Approval, echo))
	one, two := &sweeper{n: n}, &sweeper{n: other}
	mine := func(s *sweeper) bool {
		t.Helper()
		is, err := s.mine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if !mine(one) || mine(two) || !mine(one) {
		t.Fatal("want the first one to sweep, and nobody else")
	}
	ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("echo")}))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("ask"), CanAsk: true})
	until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	if err := one.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if open := sortedTurns(one.open); !slices.Equal(open, []events.TurnKey{key}) {
		t.Errorf("%v is remembered, want the parked turn", open)
	}
	stopNode(t, n)
	if !other.drained(n.cfg.Boot) || !mine(two) {
		t.Error("nobody sweeps once the first one has drained, while its presence says so")
	}
}

package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// mortalNode is a node that can be killed: it is cut off, its context ends, and
// nothing that it still does reaches anybody.
func mortalNode(t *testing.T, l *memlog.Log, boot string, change func(*Config), list ...tools.Tool) (n *Node, kill func()) {
	t.Helper()
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	view := l.View(boot)
	cfg := Config{Bus: view, Registry: reg, Authorizer: lax{}, Boot: boot, Workspace: t.TempDir(), Presence: time.Second, Heartbeat: 50 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	if n, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	dead := make(chan struct{})
	var once atomic.Bool
	kill = func() {
		if once.CompareAndSwap(false, true) {
			view.Disconnect()
			stop()
			go func() { defer close(dead); stopNode(t, n) }()
		}
	}
	t.Cleanup(func() { kill(); <-dead })
	return n, kill
}

// fast are the settings of tests that wait for redeliveries.
func fast(c *Config) { c.Heartbeat = 50 * time.Millisecond }

func shortLog() *memlog.Log { return memlog.New(memlog.Config{AckWait: 200 * time.Millisecond}) }

// counting is a tool that counts its runs and then waits for gate, if there is one.
func counting(name string, tier events.Tier, ran *atomic.Int64, gate <-chan struct{}) tools.Tool {
	return testTool(name, tier, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
				return events.Result{}, ctx.Err()
			}
		}
		return echo(ctx, in)
	})
}

func TestATakeOverRunsNothingBeforeItsClaim(t *testing.T) {
	t.Parallel()
	l := shortLog()
	var first, second atomic.Int64
	_, kill := mortalNode(t, l, "dead", nil, counting("charge", events.Irreversible, &first, make(chan struct{})))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	eventually(t, "the first run", func() bool { return first.Load() == 1 })
	kill()
	testNode(t, l.View("b"), fast, counting("charge", events.Irreversible, &second, nil))
	wantLasts(t, ended(t, b, key), "unknown")
	if second.Load() != 0 {
		t.Errorf("a call whose owner was lost ran %d times more", second.Load())
	}
}

// TestAStaleMirrorRunsNothingAgain: a message that comes again, and a question of
// another node, make a node read a turn from a mirror that does not know yet that
// the call has completed.
func TestAStaleMirrorRunsNothingAgain(t *testing.T) {
	for _, how := range []string{"redelivered", "asked"} {
		t.Run(how, func(t *testing.T) {
			l := shortLog()
			var stale atomic.Uint64
			var lose atomic.Bool
			lose.Store(true)
			l.SetFaults(&memlog.Faults{
				Mirror: func(_ events.TurnKey, last uint64) uint64 {
					if s := stale.Load(); s > 0 {
						return min(s, last)
					}
					return last
				},
				AckLost: func(bus.Item) bool { return lose.CompareAndSwap(true, false) },
			})
			var ran, waited atomic.Int64
			gate := make(chan struct{})
			n := testNode(t, l.View("a"), fast, counting("charge", events.Irreversible, &ran, nil), counting("slow", events.Readonly, &waited, gate))
			b := l.View("door")
			names := []string{"charge"}
			if how == "asked" {
				names = append(names, "slow")
			}
			key := submit(t, b, events.TurnSubmitted{Calls: calls(names...)})
			turn := until(t, b, key, "charge's end", func(turn lifecycle.Turn) bool { return len(turn.Calls) > 0 && !turn.Calls[0].Open() })
			stored, err := b.Load(t.Context(), key, 0)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(stored, func(s bus.Stored) bool { return strings.Contains(kinds([]bus.Stored{s}), " started/0") })
			stale.Store(stored[i].Seq)
			if how == "asked" {
				eventually(t, "the other call", func() bool { return waited.Load() == 1 })
				if mine, err := testNode(t, l.View("b"), fast).askOwner(turn.Owner.Boot, key, 0); err != nil || !mine {
					t.Fatalf("mine: %t, %v", mine, err)
				}
				pause(t.Context(), 50*time.Millisecond)
				close(gate)
			}
			eventually(t, "an ack", func() bool {
				turns, _ := n.Running()
				return l.Redeliver("") == 0 && turns == 0
			})
			stale.Store(0)
			wantLasts(t, ended(t, b, key), strings.TrimSpace(strings.Repeat("completed ", len(names))))
			if ran.Load() != 1 {
				t.Errorf("an irreversible call ran %d times", ran.Load())
			}
		})
	}
}

// TestEveryBoundaryLostAndKept puts a fault on each append of a turn in turn: the
// answer is the same, each effect happens once, and nothing is left behind.
func TestEveryBoundaryLostAndKept(t *testing.T) {
	for _, kept := range []bool{false, true} {
		for at := range 8 {
			t.Run(fmt.Sprintf("kept=%t/%d", kept, at), func(t *testing.T) {
				l := memlog.New(memlog.Config{})
				var ran, seen atomic.Int64
				charge := counting("charge", events.Irreversible, &ran, nil)
				charge.Resources = func(json.RawMessage) []events.ResourceUse {
					return []events.ResourceUse{{Name: "db:x", Exclusive: true}}
				}
				n := testNode(t, l.View("a"), nil, charge, testTool("echo", events.Readonly, echo))
				l.SetFaults(&memlog.Faults{Append: func(c events.Commit) (bool, error) {
					if c.By.Boot == "" || int(seen.Add(1)) != at+1 {
						return true, nil
					}
					return kept, bus.ErrUncertain
				}})
				b := l.View("door")
				key := submit(t, b, events.TurnSubmitted{Calls: calls("charge", "echo", "charge")})
				wantLasts(t, ended(t, b, key), "completed completed completed")
				if ran.Load() != 2 {
					t.Errorf("two calls ran %d times", ran.Load())
				}
				forgotten(t, n)
				freed(t, b, "db:x")
			})
		}
	}
}

// forgotten waits until a node holds nothing of any turn.
func forgotten(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, "an empty memory", func() bool {
		turns, attempts := n.Running()
		n.hands.mu.Lock()
		defer n.hands.mu.Unlock()
		n.locks.mu.Lock()
		defer n.locks.mu.Unlock()
		return turns == 0 && attempts == 0 && len(n.hands.at) == 0 && len(n.locks.pids) == 0
	})
}

func lockOf(t *testing.T, b bus.Bus, resource string) (s lifecycle.LockState) {
	t.Helper()
	cell, err := b.Cells().Get(t.Context(), bus.BucketLock, lockCell(resource))
	if err == nil {
		err = json.Unmarshal(cell.Value, &s)
	}
	if err != nil && cell.Value != nil {
		t.Fatal(err)
	}
	return s
}

// freed waits until nobody holds a resource, long before its lease ends.
func freed(t *testing.T, b bus.Bus, resource string) {
	t.Helper()
	eventually(t, "a free lock", func() bool { return lockOf(t, b, resource).Empty(time.Now()) })
}

// TestAZombieComesBack: its attempt goes on while another node takes over, and goes
// on with the turn. What it answers is evidence, and its leases are not its own any
// more.
func TestAZombieComesBack(t *testing.T) {
	t.Parallel()
	l := shortLog()
	var ran, slow atomic.Int64
	gate, last := make(chan struct{}), make(chan struct{})
	charge := testTool("charge", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		<-gate // deaf: it hears of no cancel
		return echo(ctx, in)
	})
	charge.Resources = func(json.RawMessage) []events.ResourceUse {
		return []events.ResourceUse{{Name: "db:x", Exclusive: true}}
	}
	zv := l.View("zombie")
	short := func(c *Config) { c.Heartbeat, c.LockTTL = 50*time.Millisecond, time.Second }
	zombie := testNode(t, zv, short, charge, counting("slow", events.Readonly, &slow, last))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge", "slow")})
	eventually(t, "the run", func() bool { return ran.Load() == 1 })
	zv.Disconnect()
	other := testNode(t, l.View("b"), short, charge, counting("slow", events.Readonly, &slow, last))
	eventually(t, "the next call", func() bool { return slow.Load() == 1 })
	freed(t, b, "db:x")
	zv.Connect()
	close(gate)
	turn := until(t, b, key, "the evidence", func(turn lifecycle.Turn) bool { return turn.Calls[0].Resolved != nil })
	wantLasts(t, turn, "unknown started")
	late := turn.Calls[0].Late
	if len(late) != 1 || late[0].Owner.Boot != zombie.cfg.Boot || turn.Calls[0].Resolved.Effects != events.EffectsDone {
		t.Errorf("late %+v, resolved %+v", late, turn.Calls[0].Resolved)
	}
	forgotten(t, zombie)
	pause(t.Context(), 500*time.Millisecond) // more than one renewal
	if s := lockOf(t, b, "db:x"); !s.Empty(time.Now()) {
		t.Errorf("the lock is held again: %+v", s)
	}
	close(last)
	wantLasts(t, ended(t, b, key), "unknown completed")
	forgotten(t, other)
	if ran.Load() != 1 {
		t.Errorf("it ran %d times", ran.Load())
	}
}

// TestALockOfADeadBoot: the call that waits gets it once the dead owner's call is
// settled, and keeps it for longer than a lease.
func TestALockOfADeadBoot(t *testing.T) {
	t.Parallel()
	l := shortLog()
	var first, second atomic.Int64
	x := func(json.RawMessage) []events.ResourceUse {
		return []events.ResourceUse{{Name: "db:x", Exclusive: true}}
	}
	charge := counting("charge", events.Irreversible, &first, make(chan struct{}))
	charge.Resources = x
	_, kill := mortalNode(t, l, "dead", func(c *Config) { c.Room = 1 }, charge)
	b := l.View("door")
	k1 := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	eventually(t, "the first run", func() bool { return first.Load() == 1 })
	gate := make(chan struct{})
	hold := counting("hold", events.Irreversible, &second, gate)
	hold.Resources = x
	n := testNode(t, l.View("b"), func(c *Config) { c.Heartbeat, c.LockTTL = 50*time.Millisecond, time.Second }, charge, hold)
	k2 := submit(t, b, events.TurnSubmitted{Calls: calls("hold")})
	until(t, b, k2, "a verdict", func(turn lifecycle.Turn) bool { return turn.Calls[0].Phase == lifecycle.PhaseAuthorized })
	kill()
	wantLasts(t, ended(t, b, k1), "unknown")
	eventually(t, "the second run", func() bool { return second.Load() == 1 })
	pause(t.Context(), 1500*time.Millisecond)
	if s := lockOf(t, b, "db:x"); !s.Held(time.Now(), k2.Call(0).String(), n.cfg.Boot) {
		t.Errorf("a long attempt has lost its lease: %+v", s)
	}
	close(gate)
	wantLasts(t, ended(t, b, k2), "completed")
	forgotten(t, n)
	freed(t, b, "db:x")
}

func TestTwoDeliveriesAndARedeliveryWhileItRuns(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	gate := make(chan struct{})
	n := testNode(t, l.View("a"), fast, counting("charge", events.Irreversible, &ran, gate))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	eventually(t, "the run", func() bool { return ran.Load() == 1 })
	for range 5 {
		l.Duplicate("")
		l.Redeliver("")
		pause(t.Context(), 10*time.Millisecond)
	}
	close(gate)
	turn := ended(t, b, key)
	wantLasts(t, turn, "completed")
	if ran.Load() != 1 || turn.Owner.Epoch != 1 {
		t.Errorf("ran %d times, epoch %d", ran.Load(), turn.Owner.Epoch)
	}
	eventually(t, "an ack of every copy", func() bool { return l.Redeliver("") == 0 })
	forgotten(t, n)
}

// TestGivingUpWithAnAppendInFlight: the grace time ends while the answer of an
// effect is on its way into the log. It is waited for.
func TestGivingUpWithAnAppendInFlight(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprint("kept=", kept), func(t *testing.T) {
			l := shortLog()
			var ran atomic.Int64
			release, stuck := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			l.SetFaults(&memlog.Faults{Append: func(c events.Commit) (bool, error) {
				ends := slices.ContainsFunc(c.Records, func(r events.Record) bool { return r.Event.Kind() == events.KindCompleted })
				if !ends || !once.CompareAndSwap(false, true) {
					return true, nil
				}
				close(stuck)
				<-release
				return kept, bus.ErrUncertain
			}})
			charge := counting("charge", events.Irreversible, &ran, nil)
			a := testNode(t, l.View("a"), func(c *Config) { c.Heartbeat, c.Drain = 50*time.Millisecond, 50*time.Millisecond }, charge, testTool("echo", events.Readonly, echo))
			b := l.View("door")
			key := submit(t, b, events.TurnSubmitted{Calls: calls("charge", "echo")})
			<-stuck
			stopped := make(chan struct{})
			go func() { defer close(stopped); stopNode(t, a) }()
			pause(t.Context(), 150*time.Millisecond) // the grace time, and more
			close(release)
			<-stopped
			testNode(t, l.View("b"), fast, charge, testTool("echo", events.Readonly, echo))
			turn := ended(t, b, key)
			wantLasts(t, turn, "completed completed")
			if ran.Load() != 1 || turn.Claim.Why != events.ClaimDrained {
				t.Errorf("ran %d times, claimed because %s", ran.Load(), turn.Claim.Why)
			}
		})
	}
}

func TestStopAtOnceAndTwice(t *testing.T) {
	t.Parallel()
	for range 6 {
		l := memlog.New(memlog.Config{})
		n := testNode(t, l.View("a"), func(c *Config) { c.Room = 1 }, testTool("echo", events.Readonly, echo))
		key := submit(t, l.View("door"), events.TurnSubmitted{Calls: calls("echo")})
		done := make(chan struct{})
		go func() { defer close(done); stopNode(t, n) }()
		stopNode(t, n)
		<-done
		m := testNode(t, l.View("b"), nil, testTool("echo", events.Readonly, echo))
		ended(t, l.View("door"), key)
		stopNode(t, m)
	}
}

// TestRoomForOne: a node with room for one turn runs one after another, and hears
// of cancels all the while.
func TestRoomForOne(t *testing.T) {
	l := memlog.New(memlog.Config{})
	for range 5 {
		var ran atomic.Int64
		n := testNode(t, l.View("a"), func(c *Config) { c.Room = 1 }, counting("stuck", events.Readonly, &ran, make(chan struct{})), testTool("echo", events.Readonly, echo))
		b := l.View("door")
		k1 := submit(t, b, events.TurnSubmitted{Calls: calls("stuck")})
		eventually(t, "the run", func() bool { return ran.Load() == 1 })
		k2 := submit(t, b, events.TurnSubmitted{Calls: calls("echo")})
		as(t, b, k1, lifecycle.CancelTurn{By: events.Principal{ID: "me"}})
		wantLasts(t, ended(t, b, k1), "cancelled")
		wantLasts(t, ended(t, b, k2), "completed")
		stopNode(t, n)
	}
}

// TestDurabilityIsLost: nothing above readonly starts without its barrier, the node
// says that it must stop, and it can be stopped.
func TestDurabilityIsLost(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	n := testNode(t, l.View("a"), func(c *Config) { c.Drain = 100 * time.Millisecond }, counting("charge", events.Irreversible, &ran, nil))
	var broken atomic.Bool
	broken.Store(true)
	l.SetFaults(&memlog.Faults{Barrier: func() error {
		if broken.Load() {
			return errors.New("the disk is gone")
		}
		return nil
	}})
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	select {
	case err := <-n.Failed():
		t.Log(err)
	case <-t.Context().Done():
	}
	stopNode(t, n)
	broken.Store(false)
	testNode(t, l.View("b"), nil, counting("charge", events.Irreversible, &ran, nil))
	turn := ended(t, b, key)
	if ran.Load() != 0 && turn.Calls[0].Last != events.KindCompleted || ran.Load() > 1 {
		t.Errorf("it ran %d times and ended %s", ran.Load(), turn.Calls[0].Last)
	}
}

// TestAClaimOfTheSameNode: the turn has ended here, its ack was lost, and the message
// is seated again on a mirror that lags. The new actor's claim is lost too; the one
// that it then finds in the log, of the same node and epoch, is not its own.
func TestAClaimOfTheSameNode(t *testing.T) {
	l := shortLog()
	var again atomic.Bool
	var looked, appended, ran atomic.Int64
	var started atomic.Uint64
	l.SetFaults(&memlog.Faults{
		AckLost: func(bus.Item) bool { return again.CompareAndSwap(false, true) },
		Mirror: func(_ events.TurnKey, last uint64) uint64 {
			switch {
			case !again.Load() || started.Load() == 0:
				return last
			case looked.Add(1) == 1:
				return 1 // the submission
			}
			return started.Load()
		},
		Append: func(c events.Commit) (bool, error) {
			if again.Load() && c.By.Boot != "" && appended.Add(1) == 1 {
				return false, bus.ErrUncertain
			}
			return true, nil
		},
	})
	n := testNode(t, l.View("a"), fast, counting("charge", events.Irreversible, &ran, nil))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	wantLasts(t, ended(t, b, key), "completed")
	stored, err := b.Load(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(stored, func(s bus.Stored) bool { return holds(s.Commit, events.KindStarted) })
	looked.Store(0)
	started.Store(stored[i].Seq)
	eventually(t, "the second claim's loss", func() bool { return appended.Load() > 0 })
	eventually(t, "an ack", func() bool { turns, _ := n.Running(); return turns == 0 && l.Redeliver("") == 0 })
	if ran.Load() != 1 {
		t.Errorf("an irreversible call ran %d times", ran.Load())
	}
}

// TestAProbeThatCannotBeMade says what stood in its way: no node has looked, and nothing is
// told of what the tool finds.
func TestAProbeThatCannotBeMade(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		heir []tools.Tool
		want string
	}{
		"no such tool": {nil, "has no such tool, so that nobody could ask it"},
		"no probe any more": {
			[]tools.Tool{testTool("charge", events.Irreversible, echo)}, "the tool as it is now cannot say",
		},
		"it cannot tell": {
			[]tools.Tool{probed(testTool("charge", events.Irreversible, echo), tools.Finding{}, errors.New("the bank is closed"))}, "was asked whether the effect happened, and could not say",
		},
		"it finds nothing": {
			[]tools.Tool{probed(testTool("charge", events.Irreversible, echo), tools.Finding{}, nil)}, "the tool finds no effect, and that does not prove",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := shortLog()
			var ran atomic.Int64
			_, kill := mortalNode(t, l, "dead", nil, probed(counting("charge", events.Irreversible, &ran, make(chan struct{})), tools.Finding{}, nil))
			b := l.View("door")
			key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
			eventually(t, "the run", func() bool { return ran.Load() == 1 })
			kill()
			testNode(t, l.View("heir"), fast, c.heir...)
			turn := ended(t, b, key)
			wantLasts(t, turn, "unknown")
			if got := turn.Calls[0].Outcome.Result.Error.Message; !strings.Contains(got, c.want) {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// TestAProbeIsMadeAgain: the tool is back a moment after the node that takes its call over,
// and what it says then counts.
func TestAProbeIsMadeAgain(t *testing.T) {
	t.Parallel()
	l := shortLog()
	var ran, asked atomic.Int64
	_, kill := mortalNode(t, l, "dead", nil, probed(counting("charge", events.Irreversible, &ran, make(chan struct{})), tools.Finding{}, nil))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	eventually(t, "the run", func() bool { return ran.Load() == 1 })
	kill()
	back := testTool("charge", events.Irreversible, echo)
	back.Probe = func(context.Context, tools.Invocation) (tools.Finding, error) {
		if asked.Add(1) < 3 {
			return tools.Finding{}, errors.New("nobody serves it yet")
		}
		return tools.Finding{Found: true, Result: events.Result{Status: events.Success, Text: events.Body{Text: "charged"}}}, nil
	}
	testNode(t, l.View("heir"), func(c *Config) { fast(c); c.Probing = time.Minute }, back)
	wantLasts(t, ended(t, b, key), "completed")
}

// probed is a tool that can be asked what became of a call.
func probed(t tools.Tool, f tools.Finding, err error) tools.Tool {
	t.Probe = func(context.Context, tools.Invocation) (tools.Finding, error) { return f, err }
	return t
}

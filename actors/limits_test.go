package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// limited has a node held to limits.
func limited(t *testing.T, rules ...lifecycle.LimitRule) func(*Config) {
	t.Helper()
	l, err := lifecycle.NewLimits(rules)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Limits = func() lifecycle.Limits { return l } }
}

// crowd is a tool that notes how many of its calls run, and lets them go on when it is told.
type crowd struct {
	mu        sync.Mutex
	now, most int
	ran       int
	open      chan struct{} // closed: nobody waits
}

func newCrowd() *crowd { return &crowd{open: make(chan struct{})} }

func (c *crowd) run(ctx context.Context, in tools.Invocation) (events.Result, error) {
	c.mu.Lock()
	c.now++
	c.ran++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return events.Result{}, ctx.Err()
	case <-c.open:
	}
	return echo(ctx, in)
}

func (c *crowd) is() (now, most, ran int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most, c.ran
}

// slotsHeld is how many hold a slot of a limit with one bucket.
func slotsHeld(t *testing.T, b bus.Bus, rule string) int {
	t.Helper()
	cell, err := b.Cells().Get(t.Context(), bus.BucketLock, bus.LimitCell(bus.SlotCells, rule, ""))
	if err != nil {
		return 0
	}
	var s lifecycle.LockState
	if err := json.Unmarshal(cell.Value, &s); err != nil {
		t.Fatal(err)
	}
	return len(s.Holds)
}

// TestALimitHoldsInTheCluster: whichever nodes they come to, no more calls run at once,
// as many do, and all of them end.
func TestALimitHoldsInTheCluster(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	c := newCrowd()
	b := l.View("door")
	for _, name := range []string{"a", "b", "c"} {
		testNode(t, l.View(name), limited(t, lifecycle.LimitRule{ID: "few", Tool: "svc", Concurrency: 3, Wait: lifecycle.MaxLimitWait}),
			testTool("svc", events.Irreversible, c.run), testTool("echo", events.Readonly, echo))
	}
	var keys []events.TurnKey
	for range 25 {
		keys = append(keys, submit(t, b, events.TurnSubmitted{Calls: calls("svc", "echo", "svc")}))
	}
	eventually(t, "three of them", func() bool { now, _, _ := c.is(); return now == 3 })
	close(c.open)
	for _, key := range keys {
		wantLasts(t, ended(t, b, key), "completed completed completed")
	}
	if _, most, ran := c.is(); most > 3 || ran != 50 {
		t.Errorf("%d ran at once, %d in all", most, ran)
	}
	eventually(t, "every slot given back", func() bool { return slotsHeld(t, b, "few") == 0 })
}

// TestOverItsLimitACallIsDenied, with a code of its own: nothing is begun, nobody's circuit
// hears of it, what it had of other limits is given back, and the log tells.
func TestOverItsLimitACallIsDenied(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	c := newCrowd()
	b := l.View("door")
	n := testNode(
		t, l.View("a"), limited(
			t,
			lifecycle.LimitRule{ID: "a-rate", Tool: "svc", Rate: lifecycle.Rate{N: 2, Per: time.Hour}},
			lifecycle.LimitRule{ID: "b-few", Tool: "svc", Concurrency: 1},
			lifecycle.LimitRule{ID: "c-mine", Principal: "test*", Each: true, Tool: "svc", Concurrency: 5},
		),
		testTool("svc", events.Readonly, c.run),
	)
	first := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
	turn := until(t, b, first, "its start", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 0 && turn.Calls[0].Phase == lifecycle.PhaseStarted
	})
	has := turn.Calls[0].Started.Limits
	if len(has) != 3 || !has[0].Token || has[0].Slot.Resource != "" || has[1].Slot.Resource != "limit:b-few" || has[2].Slot.Resource != "limit:c-mine:tester" || has[2].Principal != "tester" {
		t.Errorf("it was started with %+v", has)
	}
	for range 3 { // each gives its token back, or the second one would be the last
		turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")}))
		d, ok := turn.Calls[0].Terminal.(*events.Denied)
		if !ok || d.Gate != "limit" || d.Code != events.RateLimited || len(d.Policies) != 1 || d.Policies[0] != "b-few" || !strings.Contains(d.Reason, "try again") {
			t.Fatalf("%T %+v", turn.Calls[0].Terminal, turn.Calls[0].Terminal)
		}
		if turn.Calls[0].Attempt != 0 {
			t.Error("it was begun")
		}
	}
	close(c.open)
	wantLasts(t, ended(t, b, first), "completed")
	eventually(t, "the slot given back", func() bool { return slotsHeld(t, b, "b-few") == 0 })
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")})), "completed")
	eventually(t, "the slot given back", func() bool { return slotsHeld(t, b, "b-few") == 0 })
	turn = ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")}))
	if d, ok := turn.Calls[0].Terminal.(*events.Denied); !ok || d.Policies[0] != "a-rate" {
		t.Errorf("the third start of two: %T %+v", turn.Calls[0].Terminal, turn.Calls[0].Terminal)
	}
	if _, _, ran := c.is(); ran != 2 || !n.breaks.closed(own("svc")) || n.breaks.get(own("svc")) != (lifecycle.Breaker{}) {
		t.Errorf("%d ran; the breaker is %+v", ran, n.breaks.get(own("svc")))
	}
}

// TestLimitsThatCannotBeAsked: nobody knows who runs, so the call waits, and is not denied
// however little it may wait.
func TestLimitsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]lifecycle.LimitRule{
		"slots": {ID: "r", Concurrency: 1},
		"rate":  {ID: "r", Rate: lifecycle.Rate{N: 1, Per: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := memlog.New(memlog.Config{})
			b := l.View("door")
			var broken atomic.Bool
			var tried atomic.Int64
			broken.Store(true)
			l.SetFaults(&memlog.Faults{Put: func(bucket, _ string) (bool, error) {
				if bucket == bus.BucketLock && broken.Load() {
					tried.Add(1)
					return false, bus.ErrUnavailable
				}
				return true, nil
			}})
			c := newCrowd()
			close(c.open)
			testNode(t, l.View("a"), limited(t, rule), testTool("svc", events.Readonly, c.run))
			key := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
			eventually(t, "a try", func() bool { return tried.Load() > 0 })
			eventually(t, "another one", func() bool { return tried.Load() > 1 })
			if _, _, ran := c.is(); ran != 0 {
				t.Error("it ran on a guess")
			}
			broken.Store(false)
			wantLasts(t, ended(t, b, key), "completed")
		})
	}
}

// TestACallThatIsCancelledInLineLeavesIt: it holds nothing, and those behind it go on.
func TestACallThatIsCancelledInLineLeavesIt(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	c := newCrowd()
	b := l.View("door")
	testNode(t, l.View("a"), limited(t, lifecycle.LimitRule{ID: "one", Concurrency: 1, Wait: time.Minute}), testTool("svc", events.Readonly, c.run))
	first := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
	eventually(t, "the first one", func() bool { now, _, _ := c.is(); return now == 1 })
	second := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
	eventually(t, "somebody in line", func() bool {
		cell, err := b.Cells().Get(t.Context(), bus.BucketLock, bus.LimitCell(bus.SlotCells, "one", ""))
		return err == nil && strings.Contains(string(cell.Value), second.Trace)
	})
	third := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
	as(t, b, second, lifecycle.CancelTurn{By: boss})
	wantLasts(t, ended(t, b, second), "cancelled")
	close(c.open)
	wantLasts(t, ended(t, b, first), "completed")
	wantLasts(t, ended(t, b, third), "completed")
	eventually(t, "the slot given back", func() bool { return slotsHeld(t, b, "one") == 0 })
}

// TestARateCountsAttempts, further ones too: where the rate does not let it begin in time, the call
// ends as failed, with the limit's code: it has run.
func TestARateCountsAttempts(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	b := l.View("door")
	var ran atomic.Int64
	bad := testTool("svc", events.Readonly, func(context.Context, tools.Invocation) (events.Result, error) {
		ran.Add(1)
		return events.Result{}, &tools.Error{Code: events.NotFound, Class: events.ClassUnavailable, Message: "nobody there"}
	})
	testNode(t, l.View("a"), limited(t, lifecycle.LimitRule{ID: "r", Rate: lifecycle.Rate{N: 1, Per: time.Hour}}), bad)
	turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")}))
	wantLasts(t, turn, "failed")
	if e := turn.Calls[0].Outcome.Result.Error; ran.Load() != 1 || e.Code != events.RateLimited || !strings.Contains(e.Message, "the limit r lets 1 call begin in an hour") {
		t.Errorf("%d ran; %+v", ran.Load(), e)
	}
}

// TestWhoWaitsForAPersonHoldsNoSlot, and takes one again to go on.
func TestWhoWaitsForAPersonHoldsNoSlot(t *testing.T) {
	t.Parallel()
	a := &asker{state: "s"}
	s := newSafe(t, limited(t, lifecycle.LimitRule{ID: "one", Concurrency: 1, Rate: lifecycle.Rate{N: 1, Per: time.Hour}}), a.tool())
	key, turn := s.asks(true)
	if !turn.Calls[0].Started.Limits[0].Token {
		t.Errorf("it was begun with %+v", turn.Calls[0].Started.Limits)
	}
	eventually(t, "the slot given back", func() bool { return slotsHeld(t, s.bus, "one") == 0 })
	if _, err := s.answer(key, `{"name":"ann"}`); err != nil {
		t.Fatal(err)
	}
	turn = ended(t, s.bus, key)
	wantLasts(t, turn, "completed")
	if l := turn.Calls[0].Started.Limits[0]; l.Token || l.Slot.Resource == "" {
		t.Errorf("it went on with %+v", l)
	}
	eventually(t, "the slot given back", func() bool { return slotsHeld(t, s.bus, "one") == 0 })
}

// TestLimitsOnAServer: nodes that share nothing but a NATS server never give more slots
// than there are, and exactly as many tokens.
func TestLimitsOnAServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, alone(t), 0, bus.BucketLock, nil, testTool("echo", events.Readonly, echo))
	u := lifecycle.LimitUse{LimitRule: lifecycle.LimitRule{ID: "r", Concurrency: 2, Rate: lifecycle.Rate{N: 20, Per: time.Hour}}, Bucket: "somebody"}
	var now, slots, tokens atomic.Int64
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			m := f.node(i % 3)
			for round := range 5 {
				key := events.CallKey{Trace: "t", Turn: fmt.Sprint("u-", i), Offset: round}
				slot, err := m.locks.slot(t.Context(), key, u, m.cfg.Steady().Add(2*time.Minute))
				if err != nil {
					t.Errorf("%s: %v", key, err)
					continue
				}
				if n := now.Add(1); n > 2 {
					t.Errorf("%d slots of two are held", n)
				}
				slots.Add(1)
				if _, ok, err := m.rates.take(t.Context(), u, time.Time{}); err != nil {
					t.Errorf("%s: %v", key, err)
				} else if ok {
					tokens.Add(1)
				}
				now.Add(-1)
				m.locks.undo(slot, key)
			}
		})
	}
	wg.Wait()
	if slots.Load() != 45 || tokens.Load() != 20 {
		t.Errorf("%d slots and %d tokens were given", slots.Load(), tokens.Load())
	}
}

// TestAPanicKeepsNoSlot: an actor breaks when it has decided a start, and the start is not
// in the log yet. What the start had taken is given back, or, where it may be on its way
// into the log, judged once the log was read.
func TestAPanicKeepsNoSlot(t *testing.T) {
	t.Parallel()
	for name, flown := range map[string]bool{"decided": false, "on its way": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := memlog.New(memlog.Config{})
			c := newCrowd()
			defer close(c.open)
			b := l.View("door")
			n := testNode(t, l.View("a"), limited(t, lifecycle.LimitRule{ID: "few", Tool: "svc", Concurrency: 1, Wait: lifecycle.MaxLimitWait}), testTool("svc", events.Readonly, c.run))
			submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
			eventually(t, "the slot taken", func() bool { return slotsHeld(t, b, "few") == 1 })
			key := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
			turn := until(t, b, key, "waiting for a slot", func(turn lifecycle.Turn) bool {
				return len(turn.Calls) > 0 && turn.Calls[0].Phase == lifecycle.PhaseAuthorized
			})

			slot, err := n.locks.slot(t.Context(), key.Call(0), lifecycle.LimitUse{LimitRule: lifecycle.LimitRule{ID: "other", Concurrency: 1}}, n.cfg.Steady().Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			stored, err := b.Load(t.Context(), key, 0)
			if err != nil {
				t.Fatal(err)
			}
			a := newTurnActor(n, key, stored, false)
			a.mine = claimed{turn.Owner, turn.Claim.Reply}
			a.refold(stored)
			begin := lifecycle.Begin{Verdict: *turn.Calls[0].Verdict, Limits: []events.Limit{{Rule: "other", Slot: slot}}}
			for _, g := range lifecycle.StartGates {
				begin.Findings = append(begin.Findings, lifecycle.Finding{Gate: g})
			}
			a.command(begin)
			if len(a.cmds) != 1 || a.spec.Calls[0].Phase != lifecycle.PhaseStarted {
				t.Fatalf("the start was not decided: it is %s", a.spec.Calls[0].Phase)
			}
			if flown {
				a.flown, a.cmds = a.cmds, nil
			}
			a.undecide()
			if flown != (slotsHeld(t, b, "other") == 1 && len(a.doubt) == 1) {
				t.Errorf("%d slots are held, %d starts in doubt", slotsHeld(t, b, "other"), len(a.doubt))
			}
			if flown { // it is not in the log, and the call goes another way
				a.unstarted(begins(a.doubt)[0], nil)
			}
			eventually(t, "the slot given back", func() bool { return slotsHeld(t, b, "other") == 0 })
		})
	}
}

// TestTheEndOfATurnLetsGoOfAll: of a call, too, whose end was folded as the actor broke.
func TestTheEndOfATurnLetsGoOfAll(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	b := l.View("door")
	rule := lifecycle.LimitRule{ID: "few", Tool: "svc", Concurrency: 1}
	n := testNode(t, l.View("a"), limited(t, rule), testTool("svc", events.Readonly, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
	wantLasts(t, ended(t, b, key), "completed")
	eventually(t, "the slot given back", func() bool { return slotsHeld(t, b, "few") == 0 })
	if _, err := n.locks.slot(t.Context(), key.Call(0), lifecycle.LimitUse{LimitRule: rule}, n.cfg.Steady().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	stored, err := b.Load(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := newTurnActor(n, key, stored, false)
	a.self = actor.NewPID("nonhost", "gone")
	a.refold(stored)
	a.end(nil)
	eventually(t, "the slot given back once more", func() bool { return slotsHeld(t, b, "few") == 0 })
}

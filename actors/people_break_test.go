package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

var boss = events.Principal{ID: "boss", Kind: "person"}

// try appends a command where it is not refused, and wakes.
func try(t *testing.T, b bus.Bus, key events.TurnKey, cmd lifecycle.Command) error {
	reg, err := tools.NewRegistry()
	if err != nil {
		return err
	}
	n := &Node{cfg: Config{Bus: b, Registry: reg}.withDefaults()}
	n.ctx = t.Context()
	n.live = newPublisher(n)
	if err := n.appendAs(t.Context(), key, cmd); err != nil {
		return err
	}
	return b.Wake(t.Context(), bus.Item{ID: fmt.Sprintf("w%d", wakes.Add(1)), Turn: key})
}

// holds says whether a commit has an event of a kind.
func holds(c events.Commit, kind events.Kind) bool {
	return slices.ContainsFunc(c.Records, func(r events.Record) bool { return r.Event.Kind() == kind })
}

// TestAWakeUpMeetsAParkingTurn: somebody approves just before, while and just after
// a turn is parked. Nobody has to wait for a timer.
func TestAWakeUpMeetsAParkingTurn(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	n := testNode(t, l.View("a"), nil, counting("ask", events.Approval, &ran, nil))
	b := l.View("door")
	var said sync.WaitGroup
	var round atomic.Int64
	l.SetFaults(&memlog.Faults{Append: func(c events.Commit) (bool, error) {
		parked, asked := holds(c, events.KindTurnParked), holds(c, events.KindApprovalRequested)
		after := time.Duration(round.Load()) * 50 * time.Microsecond
		if i := round.Load(); c.By.Boot != "" && (parked && i >= 10 || asked && i < 10) {
			said.Go(func() {
				pause(t.Context(), after)
				for try(t, b, c.Turn, lifecycle.Approve{Call: 0, By: boss}) != nil && pause(t.Context(), time.Millisecond) {
					continue
				}
			})
		}
		return true, nil
	}})
	for i := range int64(40) {
		round.Store(i)
		key := submit(t, b, events.TurnSubmitted{Calls: calls("ask"), CanAsk: true})
		began := time.Now()
		wantLasts(t, ended(t, b, key), "completed")
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("round %d took %s", i, d)
		}
	}
	said.Wait()
	if ran.Load() != 40 {
		t.Errorf("40 calls ran %d times", ran.Load())
	}
	forgotten(t, n)
}

// TestApprovalRacesExpiry: one of the two is first in the log, and that one counts.
func TestApprovalRacesExpiry(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	testNode(t, l.View("a"), func(c *Config) { c.Approval = 60 * time.Millisecond }, counting("ask", events.Approval, &ran, nil))
	b := l.View("door")
	approved := 0
	for i := range 24 {
		key := submit(t, b, events.TurnSubmitted{Calls: calls("ask"), CanAsk: true})
		until(t, b, key, "the question", func(turn lifecycle.Turn) bool { return turn.Calls[0].AskedAt != time.Time{} })
		pause(t.Context(), time.Duration(50+i)*time.Millisecond)
		yes := try(t, b, key, lifecycle.Approve{Call: 0, By: boss}) == nil
		turn := ended(t, b, key)
		if c := turn.Calls[0]; yes && c.Last != events.KindCompleted || !yes && c.Last != events.KindDenied {
			t.Errorf("approved: %t, and it ended %s", yes, c.Last)
		}
		if yes {
			approved++
		}
	}
	if int(ran.Load()) != approved {
		t.Errorf("%d were approved, %d ran", approved, ran.Load())
	}
	t.Logf("%d of 24 were approved in time", approved)
}

// TestCancelRacesTheEnd: a cancel that comes with the answer changes no answer.
func TestCancelRacesTheEnd(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	var done atomic.Int64
	n := testNode(t, l.View("a"), nil, testTool("charge", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		if !pause(ctx, 3*time.Millisecond) {
			return events.Result{}, ctx.Err()
		}
		done.Add(1)
		return echo(ctx, in)
	}))
	b := l.View("door")
	for i := range 60 {
		done.Store(0)
		key := submit(t, b, events.TurnSubmitted{Calls: calls("charge", "charge")})
		pause(t.Context(), time.Duration(i%30)*300*time.Microsecond)
		var cmd lifecycle.Command = lifecycle.CancelTurn{By: boss}
		if i%2 == 0 {
			cmd = lifecycle.CancelCall{Call: 0, By: boss}
		}
		_ = try(t, b, key, cmd) // it may have ended
		completed := int64(0)
		for _, c := range ended(t, b, key).Calls {
			switch {
			case c.Last == events.KindCompleted:
				completed++
			case c.Outcome.Effects != events.EffectsNone && c.Attempt == 0:
				t.Errorf("a call that had not started ended with effects %s", c.Outcome.Effects)
			}
		}
		if completed > done.Load() {
			t.Errorf("%d completed, %d had their effect", completed, done.Load())
		}
	}
	forgotten(t, n)
}

// choosy asks about everything and denies what says so.
type choosy struct{ lax }

func (choosy) Authorize(r policy.Request) policy.Verdict {
	v := lax{}.Authorize(r)
	var args struct{ Deny bool }
	if json.Unmarshal(r.Args, &args) == nil && args.Deny {
		v.Decision, v.Code, v.Reason = policy.Deny, events.PermissionDenied, "not that"
		return v
	}
	if r.Tier != events.Readonly {
		v.Decision = policy.Ask
	}
	return v
}

func changed(t *testing.T, text string) *lifecycle.Args {
	t.Helper()
	a, err := lifecycle.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// TestChangedArgumentsAreJudgedAgain: what a person has changed passes all gates,
// and what runs is what was let through.
func TestChangedArgumentsAreJudgedAgain(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, func(c *Config) { c.Authorizer = choosy{} }, testTool("charge", events.Irreversible, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge", "charge", "charge"), CanAsk: true})
	until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	as(t, b, key, lifecycle.Approve{Call: 1, By: boss, Args: changed(t, `{"deny":true}`)})
	as(t, b, key, lifecycle.Approve{Call: 2, By: boss, Args: changed(t, `{"v":"less"}`)})
	as(t, b, key, lifecycle.Approve{Call: 0, By: boss})
	turn := ended(t, b, key)
	wantLasts(t, turn, "completed denied completed")
	if got := turn.Calls[2].Outcome.Result.Text.Text; got != `{"v":"less"}` {
		t.Errorf("it ran with %s", got)
	}
	if d := turn.Calls[1].Terminal.(*events.Denied); d.Code != events.PermissionDenied {
		t.Errorf("denied with %+v", d)
	}
}

// TestASessionsApproval holds for the exact call in later turns of its trace, and
// nowhere else.
func TestASessionsApproval(t *testing.T) {
	t.Parallel()
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, func(c *Config) { c.Authorizer, c.Approval = choosy{}, 300*time.Millisecond }, testTool("charge", events.Irreversible, echo))
	turn := func(trace, name, args string) lifecycle.Turn {
		key := events.TurnKey{Trace: trace, Turn: name}
		submitAs(t, b, key, events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{{Tool: "charge", Args: events.Body{Text: args}}}})
		if name == "first" {
			until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
			as(t, b, key, lifecycle.Approve{Call: 0, By: boss, Scope: events.ScopeSession})
		}
		return ended(t, b, key)
	}
	wantLasts(t, turn("one", "first", `{"v":1,"w":2}`), "completed")
	wantLasts(t, turn("one", "second", `{"w":2, "v":1.0}`), "completed") // the same call
	wantLasts(t, turn("one", "third", `{"v":2,"w":2}`), "denied")        // nobody answers
	wantLasts(t, turn("two", "fourth", `{"v":1,"w":2}`), "denied")
}

func TestTheDeadlinePassesWhileParked(t *testing.T) {
	t.Parallel()
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, nil, testTool("ask", events.Approval, echo), testTool("echo", events.Readonly, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("echo", "ask"), CanAsk: true, Limits: events.Limits{DeadlineMS: 300}})
	until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	wantLasts(t, ended(t, b, key), "completed timed_out")
	forgotten(t, n)
}

// TestOneFailureEndsTheRest: what runs already is left to end, and what has not
// started does not start.
func TestOneFailureEndsTheRest(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	var ran atomic.Int64
	gate := make(chan struct{})
	fail := testTool("fail", events.Readonly, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		return events.Result{}, &tools.Error{Code: events.NotFound, Message: "no"}
	})
	testNode(t, b, nil, counting("slow", events.Readonly, &ran, gate), fail, testTool("write", events.Irreversible, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("slow", "fail", "slow", "write"), OnError: events.OnErrorAbortRest, Limits: events.Limits{Concurrency: 2}})
	turn := until(t, b, key, "the end of the rest", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 0 && !turn.Calls[3].Open() && !turn.Calls[2].Open()
	})
	wantLasts(t, turn, "started failed cancelled cancelled")
	close(gate)
	wantLasts(t, ended(t, b, key), "completed failed cancelled cancelled")
	if ran.Load() != 1 {
		t.Errorf("%d ran", ran.Load())
	}
}

// TestACancelThatAnotherNodeHears: a wake-up is pulled by a node that does not own the
// turn. The owner must see what it is about, however far its mirror lags behind.
func TestACancelThatAnotherNodeHears(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	testNode(t, l.View("a"), nil, counting("stuck", events.Readonly, &ran, make(chan struct{})))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("stuck")})
	eventually(t, "the run", func() bool { return ran.Load() == 1 })
	other := testNode(t, l.View("b"), nil)
	head, err := b.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.SetFaults(&memlog.Faults{Mirror: func(events.TurnKey, uint64) uint64 { return head.Seq - 1 }})
	n := &Node{cfg: other.cfg, log: other.log, ctx: t.Context()}
	n.live = newPublisher(n)
	if err := n.appendAs(t.Context(), key, lifecycle.CancelTurn{By: boss}); err != nil {
		t.Fatal(err)
	}
	if err := other.forward(bus.Item{ID: "w", Turn: key, Seq: head.Seq}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	stored, err := b.Load(ctx, key, head.Seq+1) // the cancel, and what follows from it
	if err != nil || !holds(stored[len(stored)-1].Commit, events.KindCancelled) {
		t.Errorf("the owner has not heard: %v,%s", err, kinds(stored))
	}
}

// TestTheClockIsSetBack while approvals and deadlines wait: they pass a little later,
// not never.
func TestTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	var back atomic.Int64
	b := memlog.New(memlog.Config{}).View("a")
	var ran atomic.Int64
	testNode(t, b, func(c *Config) {
		c.Approval = 150 * time.Millisecond
		c.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
	}, testTool("ask", events.Approval, echo), counting("stuck", events.Readonly, &ran, make(chan struct{})))
	k1 := submit(t, b, events.TurnSubmitted{Calls: calls("stuck", "ask"), CanAsk: true})
	k2 := submit(t, b, events.TurnSubmitted{Calls: calls("stuck", "stuck"), Limits: events.Limits{Concurrency: 1, DeadlineMS: 400}})
	eventually(t, "both runs", func() bool { return ran.Load() == 2 })
	until(t, b, k1, "the question", func(turn lifecycle.Turn) bool { return turn.Calls[1].Phase == lifecycle.PhaseAsking })
	back.Store(int64(100 * time.Millisecond))
	until(t, b, k1, "the expiry", func(turn lifecycle.Turn) bool { return turn.Calls[1].Last == events.KindDenied })
	wantLasts(t, ended(t, b, k2), "timed_out timed_out")
	as(t, b, k1, lifecycle.CancelTurn{By: boss})
	wantLasts(t, ended(t, b, k1), "cancelled denied")
}

package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// stuckTool runs until its context ends, and says on the channel that it runs.
func stuckTool(name string, tier events.Tier) (tools.Tool, chan struct{}) {
	began := make(chan struct{}, 16)
	return testTool(name, tier, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		began <- struct{}{}
		<-ctx.Done()
		return events.Result{}, ctx.Err()
	}), began
}

func as(t *testing.T, b bus.Bus, key events.TurnKey, cmd lifecycle.Command) {
	t.Helper()
	n := &Node{cfg: Config{Bus: b, Registry: &tools.Registry{}}.withDefaults()}
	n.ctx = t.Context()
	n.live = newPublisher(n)
	if err := n.appendAs(t.Context(), key, cmd); err != nil {
		t.Fatal(err)
	}
	if err := b.Wake(t.Context(), bus.Item{ID: fmt.Sprintf("w%d", wakes.Add(1)), Turn: key}); err != nil {
		t.Fatal(err)
	}
}

var wakes atomic.Int64

func lasts(turn lifecycle.Turn) string {
	out := ""
	for _, c := range turn.Calls {
		out += string(c.Last) + " "
	}
	return out
}

func wantLasts(t *testing.T, turn lifecycle.Turn, want string) {
	t.Helper()
	if got := lasts(turn); got != want+" " {
		t.Errorf("calls ended %s, want %s", got, want)
	}
}

func TestEndings(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, nil,
		testTool("echo", events.Readonly, echo),
		testTool("panic", events.Readonly, func(context.Context, tools.Invocation) (events.Result, error) { panic("boom") }),
		testTool("fail", events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
			return events.Result{}, &tools.Error{Code: events.NotFound, Message: "no such order", Effects: events.EffectsNone}
		}),
		testTool("broken", events.Readonly, func(context.Context, tools.Invocation) (events.Result, error) {
			return events.Result{}, errors.New("ours")
		}),
	)
	turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("echo", "panic", "nope", "fail", "broken", "echo"), Allow: []string{"echo", "panic", "fail", "broken", "nope"}}))
	wantLasts(t, turn, "completed failed denied failed failed completed")
	turn = ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("echo", "fail"), Allow: []string{"echo"}}))
	wantLasts(t, turn, "completed denied")
	raw := calls("echo", "echo")
	raw[0].Args.Text = `{"v":`
	turn = ended(t, b, submit(t, b, events.TurnSubmitted{Calls: raw}))
	wantLasts(t, turn, "denied completed")
}

func TestCancelOfARunningCallAndOfTheRest(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	stuck, began := stuckTool("stuck", events.Readonly)
	testNode(t, b, nil, stuck, testTool("write", events.Irreversible, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("stuck", "write")})
	<-began
	as(t, b, key, lifecycle.CancelTurn{By: events.Principal{ID: "me"}, Reason: "enough"})
	wantLasts(t, ended(t, b, key), "cancelled cancelled")
}

func TestDeadlineOfACall(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	stuck, _ := stuckTool("stuck", events.Readonly)
	testNode(t, b, nil, stuck)
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("stuck"), Limits: events.Limits{CallMS: 50}})), "timed_out")
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("stuck", "stuck"), Limits: events.Limits{DeadlineMS: 80, Concurrency: 1}})), "timed_out timed_out")
}

func TestApprovalParksAndWakes(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, nil, testTool("ask", events.Approval, echo), testTool("echo", events.Readonly, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("echo", "ask", "echo"), CanAsk: true})
	turn := until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	wantLasts(t, turn, "completed approval_requested authorized")
	eventually(t, "an empty memory", func() bool { turns, _ := n.Running(); return turns == 0 })
	as(t, b, key, lifecycle.Approve{Call: 1, By: events.Principal{ID: "boss", Kind: "person"}})
	turn = ended(t, b, key)
	wantLasts(t, turn, "completed completed completed")
	if turn.Claim.Why != events.ClaimWoken {
		t.Errorf("claimed because %s", turn.Claim.Why)
	}
}

func TestApprovalRejectedAndExpired(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	testNode(t, b, func(c *Config) { c.Approval = 200 * time.Millisecond }, testTool("ask", events.Approval, echo))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("ask", "ask"), CanAsk: true})
	until(t, b, key, "parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	as(t, b, key, lifecycle.Reject{Call: 0, By: events.Principal{ID: "boss", Kind: "person"}})
	turn := ended(t, b, key)
	wantLasts(t, turn, "denied denied")
	codes := []events.Code{turn.Calls[0].Terminal.(*events.Denied).Code, turn.Calls[1].Terminal.(*events.Denied).Code}
	if codes[0] != events.ApprovalRejected || codes[1] != events.ApprovalExpired {
		t.Errorf("codes %v", codes)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for !ok() {
		if !pause(ctx, 2*time.Millisecond) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

func TestOneKeyOneRun(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	charge := testTool("charge", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		pause(ctx, 30*time.Millisecond)
		return echo(ctx, in)
	})
	charge.Key = func(json.RawMessage) string { return "order-1" }
	for _, name := range []string{"a", "b"} {
		testNode(t, l.View(name), nil, charge)
	}
	b := l.View("door")
	one := []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":10}`}}}
	var keys []events.TurnKey
	for range 6 {
		keys = append(keys, submit(t, b, events.TurnSubmitted{Calls: one}))
	}
	completed := 0
	for _, k := range keys {
		turn := ended(t, b, k)
		if turn.Calls[0].Last == events.KindCompleted {
			completed++
		} else if turn.Calls[0].Last != events.KindDeduplicated {
			t.Errorf("%s ended %s: %+v", k, turn.Calls[0].Last, turn.Calls[0].Terminal)
		}
	}
	if completed != 1 || ran.Load() != 1 {
		t.Errorf("%d completed, %d ran", completed, ran.Load())
	}
	other := []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":11}`}}}
	turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: other}))
	if d, ok := turn.Calls[0].Terminal.(*events.Denied); !ok || d.Code != events.IdempotencyConflict {
		t.Errorf("other arguments: %+v", turn.Calls[0].Terminal)
	}
}

func TestLocksKeepTheOrder(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var inside, most atomic.Int64
	write := testTool("write", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		most.Store(max(most.Load(), inside.Add(1)))
		pause(ctx, 2*time.Millisecond)
		inside.Add(-1)
		return echo(ctx, in)
	})
	write.Resources = func(json.RawMessage) []events.ResourceUse {
		return []events.ResourceUse{{Name: "db:x", Exclusive: true}}
	}
	testNode(t, l.View("a"), nil, write)
	testNode(t, l.View("b"), nil, write)
	b := l.View("door")
	var keys []events.TurnKey
	for range 8 {
		keys = append(keys, submit(t, b, events.TurnSubmitted{Calls: calls("write", "write")}))
	}
	for _, k := range keys {
		wantLasts(t, ended(t, b, k), "completed completed")
	}
	if most.Load() != 1 {
		t.Errorf("%d at once inside an exclusive lock", most.Load())
	}
}

func TestBreakerOpensAndProbesOnce(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var down atomic.Bool
	var ran atomic.Int64
	down.Store(true)
	tool := testTool("svc", events.Readonly, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		if down.Load() {
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Message: "503"}
		}
		return echo(ctx, in)
	})
	tool.Limits.Retries = -1
	b := l.View("a")
	n := testNode(t, b, func(c *Config) { c.Breaker.Window = 300 * time.Millisecond }, tool)
	for range 3 {
		wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")})), "failed")
	}
	eventually(t, "the breaker to open", func() bool { return !n.breaks.closed(own("svc")) })
	turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")}))
	if d, ok := turn.Calls[0].Terminal.(*events.Denied); !ok || d.Code != events.CircuitOpen || ran.Load() != 3 {
		t.Errorf("%+v after %d runs", turn.Calls[0].Terminal, ran.Load())
	}
	open, err := OpenTools(t.Context(), b.Cells(), n.cfg.Breaker, time.Now(), []string{"svc"})
	if err != nil || !open["svc"] {
		t.Errorf("open tools %v, %v", open, err)
	}
	down.Store(false)
	eventually(t, "the window's end", func() bool { return n.breaks.get(own("svc")).Peek(n.cfg.Breaker, time.Now()) })
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")})), "completed")
	eventually(t, "the breaker to close", func() bool { return n.breaks.closed(own("svc")) })
}

// TestNobodyIsNoEvidence: where there is nobody who could run a tool, its circuit hears of
// nothing, and who comes back is asked at once.
func TestNobodyIsNoEvidence(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var back atomic.Bool
	var asked atomic.Int32
	tool := testTool("svc", events.Readonly, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		if !back.Load() {
			class := []events.Class{events.ClassUnavailable, events.ClassTimeout}[asked.Add(1)%2]
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: class, Message: "nobody", Effects: events.EffectsNone, Absent: true}
		}
		return echo(ctx, in)
	})
	tool.Limits.Retries = 1
	b := l.View("a")
	n := testNode(t, b, nil, tool)
	for range 3 {
		turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")}))
		wantLasts(t, turn, "failed")
		if turn.Calls[0].Attempt != 2 {
			t.Errorf("%d attempts", turn.Calls[0].Attempt)
		}
	}
	if v := n.breaks.get(own("svc")); v != (lifecycle.Breaker{}) {
		t.Errorf("the circuit is %+v", v)
	}
	back.Store(true)
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")})), "completed")
}

func TestTakeOverOfADeadNode(t *testing.T) {
	l := memlog.New(memlog.Config{AckWait: 300 * time.Millisecond})
	stuck, began := stuckTool("stuck", events.Readonly)
	charge, charged := stuckTool("charge", events.Irreversible)
	ctx, kill := context.WithCancel(t.Context())
	reg, err := tools.NewRegistry(stuck, charge, testTool("echo", events.Readonly, echo))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := New(Config{Bus: l.View("dead"), Registry: reg, Authorizer: lax{}, Boot: "dead", Workspace: t.TempDir(), Presence: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b := l.View("door")
	k1 := submit(t, b, events.TurnSubmitted{Calls: calls("stuck", "echo")})
	k2 := submit(t, b, events.TurnSubmitted{Calls: calls("charge", "echo")})
	<-began
	<-charged
	kill()
	stopNode(t, dead)
	testNode(t, l.View("b"), nil, testTool("stuck", events.Readonly, echo), testTool("charge", events.Irreversible, echo), testTool("echo", events.Readonly, echo))
	turn := ended(t, b, k1)
	wantLasts(t, turn, "completed completed")
	if turn.Calls[0].Attempt != 2 || turn.Owner.Epoch != 2 {
		t.Errorf("attempt %d, owner %+v", turn.Calls[0].Attempt, turn.Owner)
	}
	wantLasts(t, ended(t, b, k2), "unknown completed")
}

func TestDrainHandsOver(t *testing.T) {
	l := memlog.New(memlog.Config{})
	release := make(chan struct{})
	began := make(chan struct{}, 4)
	slow := testTool("slow", events.Readonly, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		began <- struct{}{}
		<-release
		return echo(ctx, in)
	})
	a := testNode(t, l.View("a"), nil, slow)
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("slow", "slow"), Limits: events.Limits{Concurrency: 1}})
	<-began
	stopped := make(chan struct{})
	go func() { defer close(stopped); stopNode(t, a) }()
	eventually(t, "the drain", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.draining })
	testNode(t, l.View("b"), nil, slow)
	close(release)
	<-stopped
	turn := ended(t, b, key)
	wantLasts(t, turn, "completed completed")
	if turn.Claim.Why != events.ClaimDrained || turn.Calls[0].Attempt != 1 {
		t.Errorf("claimed because %s, first call's attempt %d", turn.Claim.Why, turn.Calls[0].Attempt)
	}
}

func TestPresenceGivesADeadNodesTurnsBack(t *testing.T) {
	l := memlog.New(memlog.Config{AckWait: time.Hour})
	stuck, began := stuckTool("stuck", events.Readonly)
	ctx, kill := context.WithCancel(t.Context())
	reg, err := tools.NewRegistry(stuck)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := New(Config{Bus: l.View("dead"), Registry: reg, Authorizer: lax{}, Boot: "dead", Workspace: t.TempDir(), Presence: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: calls("stuck")})
	<-began
	testNode(t, l.View("b"), nil, testTool("stuck", events.Readonly, echo))
	kill()
	stopNode(t, dead)
	turn := ended(t, b, key)
	wantLasts(t, turn, "completed")
	if turn.Claim.Why != events.ClaimTakenOver {
		t.Errorf("claimed because %s", turn.Claim.Why)
	}
}

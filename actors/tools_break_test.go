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

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// TestAToolsOwnFunctionPanics: the call is denied before it has any effect, its
// siblings go on, and so does the node.
func TestAToolsOwnFunctionPanics(t *testing.T) {
	breaks := map[string]func(*tools.Tool){
		"Safe":      func(t *tools.Tool) { t.Safe = func(json.RawMessage) bool { panic("x") } },
		"TierOf":    func(t *tools.Tool) { t.TierOf = func(json.RawMessage) events.Tier { panic("x") } },
		"Operation": func(t *tools.Tool) { t.Operation = func(json.RawMessage) events.Operation { panic("x") } },
		"Resources": func(t *tools.Tool) { t.Resources = func(json.RawMessage) []events.ResourceUse { panic("x") } },
		"Key":       func(t *tools.Tool) { t.Key = func(json.RawMessage) string { panic("x") } },
		"Asks":      func(t *tools.Tool) { t.Asks = func(json.RawMessage) string { panic("x") } },
		"Operands":  func(t *tools.Tool) { t.Operands = func(json.RawMessage) []string { panic("x") } },
	}
	for name, breakIt := range breaks {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int64
			b := memlog.New(memlog.Config{}).View("a")
			bad := counting("bad", events.Approval, &ran, nil)
			breakIt(&bad)
			n := testNode(t, b, nil, bad, testTool("echo", events.Readonly, echo))
			raw := calls("echo", "bad", "bad", "echo")
			raw[2].Key = "k" // judged on a goroutine of its own
			turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: raw, CanAsk: true}))
			wantLasts(t, turn, "completed denied denied completed")
			for _, i := range []int{1, 2} {
				if d := turn.Calls[i].Terminal.(*events.Denied); d.Code != events.ExecutionError {
					t.Errorf("call %d: %+v", i, d)
				}
			}
			if ran.Load() != 0 {
				t.Error("it ran")
			}
			forgotten(t, n)
		})
	}
}

// poison is an observer that panics a number of times.
type poison struct{ left atomic.Int64 }

func (p *poison) Committed(bus.Stored, map[int]string) {
	if p.left.Add(-1) >= 0 {
		panic("a poisonous observer")
	}
}
func (*poison) Count(string, int) {}

// TestATurnsActorPanics: it begins anew from the log, and no call runs again. One
// that always panics is abandoned, and every call has an answer.
func TestATurnsActorPanics(t *testing.T) {
	t.Parallel()
	for _, times := range []int64{1, 3, 1 << 40} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			t.Parallel()
			var ran atomic.Int64
			p := &poison{}
			p.left.Store(times)
			b := memlog.New(memlog.Config{}).View("a")
			charge := counting("charge", events.Irreversible, &ran, nil)
			charge.Resources = func(json.RawMessage) []events.ResourceUse {
				return []events.ResourceUse{{Name: "db:x", Exclusive: true}}
			}
			n := testNode(t, b, func(c *Config) { c.Seen = p }, charge)
			turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("charge", "charge", "charge", "charge", "charge", "charge")}))
			if kind := turn.Ended.Kind(); times < maxPanics && lasts(turn) != strings.Repeat("completed ", 6) || times > maxPanics && kind != events.KindTurnAbandoned {
				t.Errorf("%s: %s", kind, lasts(turn))
			}
			most := int64(0)
			for _, c := range turn.Calls {
				if c.Attempt > 0 {
					most++
				}
			}
			if ran.Load() > most {
				t.Errorf("%d attempts, %d runs", most, ran.Load())
			}
			forgotten(t, n)
		})
	}
}

// bitter is an authorizer that panics about one tool.
type bitter struct{ lax }

func (bitter) Authorize(r policy.Request) policy.Verdict {
	if r.Tool == "bad" {
		panic("a policy that breaks")
	}
	return lax{}.Authorize(r)
}

// TestAGatePanics, on an actor or on a goroutine of its own: the turn is abandoned
// in the end, and the node serves the others.
func TestAGatePanics(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "k"} {
		t.Run("key="+key, func(t *testing.T) {
			t.Parallel()
			b := memlog.New(memlog.Config{}).View("a")
			n := testNode(t, b, func(c *Config) { c.Authorizer = bitter{} }, testTool("bad", events.Irreversible, echo), testTool("echo", events.Readonly, echo))
			raw := calls("echo", "bad")
			raw[1].Key = key
			bad := submit(t, b, events.TurnSubmitted{Calls: raw})
			wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("echo")})), "completed")
			if turn := ended(t, b, bad); turn.Ended.Kind() != events.KindTurnAbandoned || turn.Calls[1].Open() {
				t.Errorf("it ended %s, %s", turn.Ended.Kind(), lasts(turn))
			}
			forgotten(t, n)
		})
	}
}

// sick is a bus whose blobs cannot be had while it is sick.
type sick struct {
	*memlog.View
	ill atomic.Bool
}

type sickBlobs struct {
	bus.Blobs
	s *sick
}

func (s *sick) Blobs() bus.Blobs { return sickBlobs{s.View.Blobs(), s} }

func (b sickBlobs) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if b.s.ill.Load() {
		return nil, bus.ErrUnavailable
	}
	return b.Blobs.Get(ctx, ref)
}

func referred(t *testing.T, b bus.Bus, tool, text string) events.RawCall {
	t.Helper()
	ref, err := b.Blobs().Put(t.Context(), []byte(text), "application/json")
	if err != nil {
		t.Fatal(err)
	}
	return events.RawCall{Tool: tool, Args: events.Body{Ref: &ref}}
}

func TestArgumentsByReference(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	s := &sick{View: l.View("a")}
	n := testNode(t, s, nil, testTool("charge", events.Irreversible, echo), testTool("echo", events.Readonly, echo))
	b := l.View("door")
	large := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
	gone := events.RawCall{Tool: "echo", Args: events.Body{Ref: &events.BlobRef{Digest: "sha256:" + strings.Repeat("0", 64), Size: 9}}}

	turn := ended(t, b, submit(t, b, events.TurnSubmitted{Calls: []events.RawCall{referred(t, b, "charge", large), gone, calls("echo")[0]}}))
	wantLasts(t, turn, "completed denied completed")

	s.ill.Store(true)
	key := submit(t, b, events.TurnSubmitted{Calls: []events.RawCall{referred(t, b, "charge", large)}})
	until(t, b, key, "a claim, although it cannot be planned", func(turn lifecycle.Turn) bool { return turn.Owner.Boot != "" })
	as(t, b, key, lifecycle.CancelTurn{By: boss})
	wantLasts(t, ended(t, b, key), "cancelled")

	key = submit(t, b, events.TurnSubmitted{Calls: []events.RawCall{referred(t, b, "charge", large)}})
	until(t, b, key, "a claim", func(turn lifecycle.Turn) bool { return turn.Owner.Boot != "" })
	s.ill.Store(false)
	wantLasts(t, ended(t, b, key), "completed")
	forgotten(t, n)
}

// TestATakeOverWithoutArguments: the next owner cannot read them for a while. It
// waits, and never runs the call with others.
func TestATakeOverWithoutArguments(t *testing.T) {
	t.Parallel()
	l := shortLog()
	var mu sync.Mutex
	var seen []string
	var first atomic.Int64
	args := `{"k":"` + strings.Repeat("x", 100) + `"}`
	_, kill := mortalNode(t, l, "dead", nil, counting("charge", events.Irreversible, &first, nil), counting("stuck", events.Readonly, &first, make(chan struct{})))
	b := l.View("door")
	key := submit(t, b, events.TurnSubmitted{Calls: []events.RawCall{calls("stuck")[0], referred(t, b, "charge", args)}})
	eventually(t, "the first call", func() bool { return first.Load() == 1 })
	kill()
	s := &sick{View: l.View("b")}
	s.ill.Store(true)
	testNode(t, s, fast, testTool("stuck", events.Readonly, echo), testTool("charge", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, string(in.Args))
		return echo(ctx, in)
	}))
	until(t, b, key, "the take-over", func(turn lifecycle.Turn) bool { return turn.Owner.Epoch == 2 })
	pause(t.Context(), 100*time.Millisecond)
	s.ill.Store(false)
	wantLasts(t, ended(t, b, key), "completed completed")
	if len(seen) != 1 || seen[0] != args {
		t.Errorf("it ran with %.80q", seen)
	}
}

// TestOneKeyTwiceInATurn, and two turns whose keys cross: keys are taken in request
// order, so nobody waits for one who waits for it.
func TestOneKeyTwiceInATurn(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	order := counting("order", events.Irreversible, &ran, nil)
	order.Key = func(args json.RawMessage) string { return string(args) }
	for _, name := range []string{"a", "b"} {
		testNode(t, l.View(name), nil, order)
	}
	b := l.View("door")
	orders := func(keys ...string) (out []events.RawCall) {
		for _, k := range keys {
			out = append(out, events.RawCall{Tool: "order", Args: events.Body{Text: fmt.Sprintf(`{"k":%q}`, k)}})
		}
		return out
	}
	for i := range 20 {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		k0 := submit(t, b, events.TurnSubmitted{Calls: orders(x+"!", x+"!", x+"!")})
		k1 := submit(t, b, events.TurnSubmitted{Calls: orders(x, y)})
		k2 := submit(t, b, events.TurnSubmitted{Calls: orders(y, x)})
		wantLasts(t, ended(t, b, k0), "completed deduplicated deduplicated")
		one, two := ended(t, b, k1), ended(t, b, k2)
		for _, turn := range []lifecycle.Turn{one, two} {
			for _, c := range turn.Calls {
				if c.Last != events.KindCompleted && c.Last != events.KindDeduplicated {
					t.Errorf("round %d: %s and %s", i, lasts(one), lasts(two))
				}
			}
		}
	}
	if ran.Load() != 60 {
		t.Errorf("60 keys ran %d times", ran.Load())
	}
}

// TestAKeysHolderDies before it has started, and after its effect. Whoever waits for
// the key gets its answer, or hears that nobody knows.
func TestAKeysHolderDies(t *testing.T) {
	t.Parallel()
	for _, when := range []events.Kind{events.KindAuthorized, events.KindStarted, events.KindCompleted} {
		t.Run(string(when), func(t *testing.T) {
			l := shortLog()
			var ran atomic.Int64
			order := counting("order", events.Irreversible, &ran, nil)
			order.Key = func(json.RawMessage) string { return "k" }
			_, kill := mortalNode(t, l, "dead", nil, order)
			var died atomic.Bool
			l.SetFaults(&memlog.Faults{Append: func(c events.Commit) (bool, error) {
				if c.By.Boot == "dead" && holds(c, when) && died.CompareAndSwap(false, true) {
					kill() // the key's entry is there, and this commit never comes
				}
				return true, nil
			}})
			b := l.View("door")
			k1 := submit(t, b, events.TurnSubmitted{Calls: calls("order")})
			eventually(t, "the death", died.Load)
			testNode(t, l.View("b"), fast, order)
			k2 := submit(t, b, events.TurnSubmitted{Calls: calls("order")})
			first, second := ended(t, b, k1), ended(t, b, k2)
			if when != events.KindCompleted {
				wantLasts(t, first, "completed")
				wantLasts(t, second, "deduplicated")
			} else { // an honest answer: do not repeat, check first. Who waited gets the same one, who came later is denied
				wantLasts(t, first, "unknown")
				if got := lasts(second); got != "denied " && (got != "deduplicated " || second.Calls[0].Outcome.Effects != events.EffectsPossible) {
					t.Errorf("the second one ended %s", got)
				}
			}
			if ran.Load() != 1 {
				t.Errorf("it ran %d times", ran.Load())
			}
		})
	}
}

// TestAWaiterMeetsTheHoldersEnd: a call registers with a key's holder just as that
// one ends. It does not wait for the backstop every time.
func TestAWaiterMeetsTheHoldersEnd(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	order := testTool("order", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		pause(ctx, time.Millisecond)
		return echo(ctx, in)
	})
	order.Key = func(args json.RawMessage) string { return string(args) }
	testNode(t, l.View("a"), nil, order)
	testNode(t, l.View("b"), nil, order)
	b := l.View("door")
	began := time.Now()
	for i := range 40 {
		raw := []events.RawCall{{Tool: "order", Args: events.Body{Text: fmt.Sprintf(`{"k":%d}`, i)}}}
		k1 := submit(t, b, events.TurnSubmitted{Calls: raw})
		pause(t.Context(), time.Duration(i%20)*150*time.Microsecond)
		k2 := submit(t, b, events.TurnSubmitted{Calls: raw})
		one, two := lasts(ended(t, b, k1)), lasts(ended(t, b, k2))
		if one+two != "completed deduplicated " && one+two != "deduplicated completed " {
			t.Errorf("round %d: %s %s", i, one, two)
		}
	}
	if d := time.Since(began); ran.Load() != 40 || d > 20*time.Second {
		t.Errorf("%d runs, %s", ran.Load(), d)
	}
}

// TestABreakersProbe that is cancelled, that a lock's conflict stops, or whose node
// dies does not close the way for the next one.
func TestABreakersProbe(t *testing.T) {
	t.Parallel()
	l := shortLog()
	var down atomic.Bool
	var hang atomic.Bool
	var ran atomic.Int64
	down.Store(true)
	svc := testTool("svc", events.Readonly, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		if hang.Load() {
			<-ctx.Done()
			return events.Result{}, ctx.Err()
		}
		if down.Load() {
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Message: "503"}
		}
		return echo(ctx, in)
	})
	svc.Limits.Retries = -1
	short := func(c *Config) {
		c.Heartbeat = 50 * time.Millisecond
		c.Breaker = lifecycle.BreakerConfig{Window: 100 * time.Millisecond, Lease: time.Second}
	}
	dead, kill := mortalNode(t, l, "dead", short, svc)
	b := l.View("door")
	for range 3 {
		wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")})), "failed")
	}
	eventually(t, "the end of the window", func() bool {
		return dead.breaks.get(own("svc")).State(dead.cfg.Breaker, time.Now()) == lifecycle.BreakerHalfOpen
	})
	hang.Store(true)
	probe := func() events.TurnKey {
		before := ran.Load()
		key := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
		eventually(t, "the probe", func() bool { return ran.Load() > before })
		return key
	}
	key := probe()
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")})), "denied") // one probe at a time
	as(t, b, key, lifecycle.CancelTurn{By: boss})
	wantLasts(t, ended(t, b, key), "cancelled")
	key = probe() // at once: the slot is free
	kill()
	hang.Store(false)
	down.Store(false)
	n := testNode(t, l.View("b"), short, svc)
	wantOneOf(t, ended(t, b, key), "completed", "failed") // readonly: started again, or the breaker still waits for the dead probe
	eventually(t, "a closed breaker", func() bool {
		ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("svc")}))
		return n.breaks.closed(own("svc"))
	})
}

func wantOneOf(t *testing.T, turn lifecycle.Turn, want ...string) {
	t.Helper()
	for _, w := range want {
		if lasts(turn) == w+" " {
			return
		}
	}
	t.Errorf("calls ended %s, want one of %v", lasts(turn), want)
}

// TestNobodyProbesOnAGuess: while the breaker's cell cannot be written, a half-open
// tool's call waits instead of passing as a probe that nobody knows of.
func TestNobodyProbesOnAGuess(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	var ran atomic.Int64
	b := l.View("door")
	half, err := json.Marshal(lifecycle.Breaker{Failures: 3, OpenedAt: time.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cells().Put(t.Context(), bus.BucketBreaker, BreakerCell(own("svc")), half, 0, 0); err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	broken.Store(true)
	l.SetFaults(&memlog.Faults{Put: func(bucket, _ string) (bool, error) {
		if bucket == bus.BucketBreaker && broken.Load() {
			return false, bus.ErrUnavailable
		}
		return true, nil
	}})
	n := testNode(t, l.View("a"), nil, counting("svc", events.Readonly, &ran, nil))
	eventually(t, "a view of the cell", func() bool { return !n.breaks.closed(own("svc")) })
	key := submit(t, b, events.TurnSubmitted{Calls: calls("svc")})
	until(t, b, key, "a verdict", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 0 && turn.Calls[0].Phase == lifecycle.PhaseAuthorized
	})
	pause(t.Context(), 50*time.Millisecond)
	if ran.Load() != 0 {
		t.Error("it ran on a guess")
	}
	broken.Store(false)
	turn := ended(t, b, key)
	wantLasts(t, turn, "completed")
	if !turn.Calls[0].Started.Breaker.Probe {
		t.Errorf("it was no probe: %+v", turn.Calls[0].Started.Breaker)
	}
	eventually(t, "a closed breaker", func() bool { return n.breaks.closed(own("svc")) })
}

// TestAProbesEndDoesNotSwallowItsReport: the end of a probe gives back what the call
// held. Where the report of its success is slower than that, the success still counts.
func TestAProbesEndDoesNotSwallowItsReport(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	half, err := json.Marshal(lifecycle.Breaker{Failures: 3, OpenedAt: time.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	b := l.View("door")
	if _, err := b.Cells().Put(t.Context(), bus.BucketBreaker, BreakerCell(own("svc")), half, 0, 0); err != nil {
		t.Fatal(err)
	}
	n := testNode(t, l.View("a"), nil, counting("svc", events.Readonly, new(atomic.Int64), nil))
	eventually(t, "a view of the cell", func() bool { return !n.breaks.closed(own("svc")) })
	call := events.CallKey{Trace: "t", Turn: "u"}
	who := holder(call, "a")
	f, view := n.breaks.admit(t.Context(), own("svc"), who)
	if !view.Probe {
		t.Fatalf("it is no probe: %+v", f)
	}
	var failed atomic.Bool
	held := make(chan struct{})
	l.SetFaults(&memlog.Faults{Put: func(bucket, _ string) (bool, error) {
		if bucket == bus.BucketBreaker && failed.CompareAndSwap(false, true) {
			close(held)
			return false, bus.ErrUnavailable // the report is tried again a while later
		}
		return true, nil
	}})
	ended := &lifecycle.Call{Tool: "svc", Started: &events.Started{Breaker: view, Owner: events.Owner{Boot: "a"}}}
	n.breaks.report(ended, who, events.ClassOK)
	<-held
	n.unheld(call, ended, "")
	eventually(t, "a closed breaker", func() bool { return n.breaks.closed(own("svc")) })
}

// TestALateAnswerIsEvidence: a deaf tool is given up, and answers in the end.
func TestALateAnswerIsEvidence(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	gate := make(chan struct{})
	n := testNode(t, b, nil, testTool("deaf", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		<-gate
		return echo(ctx, in)
	}))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("deaf"), Limits: events.Limits{CallMS: 20}})
	wantLasts(t, ended(t, b, key), "unknown")
	close(gate)
	turn := until(t, b, key, "the evidence", func(turn lifecycle.Turn) bool { return turn.Calls[0].Resolved != nil })
	if len(turn.Calls[0].Late) != 1 || turn.Calls[0].Resolved.Effects != events.EffectsDone {
		t.Errorf("%d late answers, resolved %+v", len(turn.Calls[0].Late), turn.Calls[0].Resolved)
	}
	forgotten(t, n)
}

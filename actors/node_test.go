package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m, append(leaks.OfServers, leaks.OfActors)...)
}

// lax lets everything through: these tests are not about policy.
type lax struct{}

func (lax) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Allow, Policies: []string{"lax"}, Version: "lax"}
}
func (lax) Version() string { return "lax" }

// testTool is a tool that takes any object.
func testTool(name string, tier events.Tier, run func(ctx context.Context, in tools.Invocation) (events.Result, error)) tools.Tool {
	return tools.Tool{
		Spec: tools.Spec{Name: name, Description: name, Tier: tier, Schema: json.RawMessage(`{"type":"object"}`)},
		Run:  run,
	}
}

func echo(_ context.Context, in tools.Invocation) (events.Result, error) {
	return events.Result{Status: events.Success, Text: events.Body{Text: string(in.Args)}}, nil
}

// testNode starts a node over a log and stops it with the test.
func testNode(t *testing.T, b bus.Bus, change func(*Config), list ...tools.Tool) *Node {
	t.Helper()
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Bus: b, Registry: reg, Authorizer: lax{}, Boot: "b" + ulid.Make().String(), Workspace: t.TempDir(), Probing: -1, Log: slog.New(slog.NewTextHandler(testLog{t}, nil))}
	if change != nil {
		change(&cfg)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNode(t, n) })
	return n
}

func stopNode(t *testing.T, n *Node) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer stop()
	if err := n.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		fmt.Fprint(os.Stderr, string(p))
	}
	return len(p), nil
}

// submit does what a door does.
func submit(t *testing.T, b bus.Bus, s events.TurnSubmitted) events.TurnKey {
	t.Helper()
	key := events.TurnKey{Trace: "t-" + ulid.Make().String(), Turn: "u1"}
	submitAs(t, b, key, s)
	return key
}

func submitAs(t *testing.T, b bus.Bus, key events.TurnKey, s events.TurnSubmitted) {
	t.Helper()
	if s.Principal.ID == "" {
		s.Principal.ID = "tester"
	}
	submitTo(t, b, key, s)
}

func submitTo(t testing.TB, b bus.Bus, key events.TurnKey, s events.TurnSubmitted) {
	t.Helper()
	recs, err := lifecycle.Decide(lifecycle.Turn{Key: key}, lifecycle.Env{Now: time.Now()}, lifecycle.Submit{Turn: s})
	if err != nil {
		t.Fatal(err)
	}
	st, err := b.Append(t.Context(), events.Commit{ID: ulid.Make().String(), Turn: key, At: time.Now().UTC(), Records: recs}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Push(t.Context(), bus.Item{ID: st.Commit.ID, Turn: key, Seq: st.Seq, Placement: s.Placement}); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the turn's end, wherever it is brought about.
func ended(t *testing.T, b bus.Bus, key events.TurnKey) lifecycle.Turn {
	t.Helper()
	return until(t, b, key, "its end", func(turn lifecycle.Turn) bool { return turn.Ended != nil })
}

func until(t *testing.T, b bus.Bus, key events.TurnKey, what string, ok func(lifecycle.Turn) bool) lifecycle.Turn {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for {
		stored, err := b.Load(ctx, key, 0)
		if err != nil {
			t.Fatal(err)
		}
		turn := lifecycle.Fold(key, commits(stored)...)
		if ok(turn) {
			for _, v := range lifecycle.Laws(commits(stored)) {
				t.Errorf("law: %s", v)
			}
			return turn
		}
		if !pause(ctx, 2*time.Millisecond) {
			t.Fatalf("waited for %s in vain; history: %s", what, kinds(stored))
		}
	}
}

func kinds(stored []bus.Stored) string {
	out := ""
	for _, s := range stored {
		out += " |"
		for _, r := range s.Commit.Records {
			out += fmt.Sprintf(" %s/%d", r.Event.Kind(), r.Call)
		}
	}
	return out
}

func calls(names ...string) []events.RawCall {
	var out []events.RawCall
	for i, n := range names {
		out = append(out, events.RawCall{ProviderID: fmt.Sprintf("call_%d", i), Tool: n, Args: events.Body{Text: fmt.Sprintf(`{"v":%d}`, i)}})
	}
	return out
}

func TestATurnOfReads(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, nil, testTool("echo", events.Readonly, echo))
	key := events.TurnKey{Trace: "t1", Turn: "u1"}
	done, stop := n.Watch(key)
	defer stop()
	submitAs(t, b, key, events.TurnSubmitted{Calls: calls("echo", "echo", "echo", "echo")})
	f := <-done
	for i, c := range f.Turn.Calls {
		if c.Last != events.KindCompleted || c.Outcome.Result.Text.Text != fmt.Sprintf(`{"v":%d}`, i) {
			t.Errorf("call %d: %s %+v", i, c.Last, c.Outcome)
		}
	}
	ended(t, b, key)
	t.Logf("commits:%s", kinds(f.Commits))
	if len(f.Commits) > 7 {
		t.Errorf("%d commits for four reads", len(f.Commits))
	}
}

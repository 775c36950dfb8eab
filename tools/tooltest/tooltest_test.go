package tooltest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools"
)

func TestMain(m *testing.M) { leaks.Main(m) }

type args struct {
	V string `json:"v" jsonschema:"anything"`
}

// fine is a tool with nothing wrong; change makes one that has.
func fine(t *testing.T, change func(*tools.Tool)) tools.Tool {
	t.Helper()
	tool, err := tools.Typed(tools.Spec{Name: "fine", Description: "says it again", Tier: events.Readonly},
		func(_ context.Context, _ tools.Invocation, in args) (string, error) { return in.V, nil })
	if err != nil {
		t.Fatal(err)
	}
	change(&tool)
	return tool
}

// waiting replaces the code by one that waits until its context ends.
func waiting(then func(ctx context.Context) (events.Result, error)) func(*tools.Tool) {
	return func(tool *tools.Tool) {
		tool.Run = func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
			<-ctx.Done()
			return then(ctx)
		}
	}
}

func gone(ctx context.Context) (events.Result, error) { return events.Result{}, ctx.Err() }

func TestRun(t *testing.T) {
	Run(t, fine(t, func(*tools.Tool) {}), Example{Args: `{"v":"hi"}`}, Example{Name: "long", Args: `{"v":"` + strings.Repeat("x", 5000) + `"}`})
	Run(t, fine(t, waiting(gone)), Example{Args: `{"v":"hi"}`, Blocks: true})
}

// broken is a tool that breaks a rule, and what the suite says of it.
type broken struct {
	change  func(*tools.Tool)
	example Example
	rule    string
	says    string
}

var (
	hi     = Example{Args: `{"v":"hi"}`}
	blocks = Example{Args: `{"v":"hi"}`, Blocks: true}
)

// brokenSpecs break the rules about what a tool says of itself.
func brokenSpecs() map[string]broken {
	var turn atomic.Int64
	return map[string]broken{
		"loose schema": {func(tool *tools.Tool) {
			tool.Schema = []byte(`{"type":"object","properties":{"v":{"type":"string","description":"x"}}}`)
		}, hi, "schema", "does not exist is accepted"},
		"no description of an argument": {func(tool *tools.Tool) {
			tool.Schema = []byte(`{"type":"object","additionalProperties":false,"properties":{"v":{"type":"string"}}}`)
		}, hi, "schema", "argument v has no description"},
		"no description":       {func(tool *tools.Tool) { tool.Description = " " }, hi, "schema", "no description"},
		"no such argument":     {func(tool *tools.Tool) { tool.Writes = []string{"/path"} }, hi, "schema", "which is no argument"},
		"example does not fit": {func(*tools.Tool) {}, Example{Args: `{"v":1}`}, "schema", `at "/v"`},
		"changes its mind": {func(tool *tools.Tool) {
			tool.Key = func(json.RawMessage) string { return string(rune(97 + turn.Add(1)%20)) }
		}, hi, "spec", "and then"},
		"no such tier": {func(tool *tools.Tool) { tool.TierOf = func(json.RawMessage) events.Tier { return "mild" } }, hi, "operation", `no tier "mild"`},
		"write without a path": {func(tool *tools.Tool) {
			tool.Operation = func(json.RawMessage) events.Operation { return events.Operation{Class: events.OpWrite} }
		}, hi, "operation", "names no path"},
		"network without host": {func(tool *tools.Tool) {
			tool.Operation = func(json.RawMessage) events.Operation { return events.Operation{Class: events.OpNetwork} }
		}, hi, "operation", "names no host"},
		"nothing": {func(tool *tools.Tool) {
			tool.Operation = func(json.RawMessage) events.Operation { return events.Operation{} }
		}, hi, "operation", "no class"},
		"reads and is no read": {func(tool *tools.Tool) {
			tool.Operation = func(json.RawMessage) events.Operation { return events.Operation{Class: events.OpExecute} }
		}, hi, "operation", "Operation.Reads is false"},
		"escape codes": {func(tool *tools.Tool) { tool.Asks = func(json.RawMessage) string { return "rm #\x1b[2K" } }, hi, "operation", "would read"},
		"undo of a read": {func(tool *tools.Tool) {
			tool.Compensate = func(context.Context, tools.Invocation, events.Result) (events.Result, error) {
				return events.Result{}, nil
			}
		}, hi, "operation", "an undo for tier readonly"},
	}
}

// brokenRuns break the rules about what a tool does.
func brokenRuns() map[string]broken {
	effects := 0
	counts := Example{Args: `{"v":"hi"}`, Count: func(string) int { return effects }}
	counting := func(tool *tools.Tool) {
		tool.HonoursKey = true
		tool.Tier = events.Irreversible
		tool.Run = func(context.Context, tools.Invocation) (events.Result, error) {
			effects++
			return events.Result{}, nil
		}
	}
	return map[string]broken{
		"fails": {func(tool *tools.Tool) {
			tool.Run = func(context.Context, tools.Invocation) (events.Result, error) {
				return events.Result{}, errors.New("no")
			}
		}, hi, "examples", "INTERNAL_ERROR"},
		"does not fail": {func(*tools.Tool) {}, Example{Args: `{"v":"x"}`, Fails: events.NotFound}, "examples", "should fail with NOT_FOUND"},
		"leaves processes": {func(tool *tools.Tool) {
			tool.Run = func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
				tools.Tell(ctx, tools.Ending{Pids: []int{1}})
				return events.Result{}, nil
			}
		}, hi, "examples", "not confirmed"},
		"does not wait":        {func(*tools.Tool) {}, blocks, "deadline", "should have ended timeout"},
		"ends before a cancel": {func(*tools.Tool) {}, blocks, "cancel", "should have ended cancelled"},
		"done, and irreversible": {func(tool *tools.Tool) {
			tool.Tier = events.Irreversible
			waiting(func(context.Context) (events.Result, error) {
				return events.Result{}, &tools.Error{Effects: events.EffectsDone}
			})(tool)
		}, blocks, "cancel", "its effects are done"},
		"keys without a count": {func(tool *tools.Tool) { tool.HonoursKey = true }, hi, "key", "no example can count"},
		"keys not honoured":    {counting, counts, "key", "after a second with its key"},
		"probe finds nothing": {func(tool *tools.Tool) {
			tool.Probe = func(context.Context, tools.Invocation) (tools.Finding, error) { return tools.Finding{}, nil }
		}, hi, "probe", "that was made: found false"},
		"probe finds anything": {func(tool *tools.Tool) {
			tool.Probe = func(context.Context, tools.Invocation) (tools.Finding, error) { return tools.Finding{Found: true}, nil }
		}, hi, "probe", "that was not made: found true"},
		"undo fails": {func(tool *tools.Tool) {
			tool.Compensate = func(context.Context, tools.Invocation, events.Result) (events.Result, error) {
				return events.Result{}, errors.New("gone")
			}
		}, hi, "undo", "the undo fails"},
	}
}

// TestFaults: the suite finds what is wrong with a tool.
func TestFaults(t *testing.T) {
	all := brokenSpecs()
	maps.Copy(all, brokenRuns())
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == b.rule })
			k := &check{ctx: t.Context(), tool: fine(t, b.change), examples: []Example{b.example}, dir: t.TempDir}
			rules[i].check(k)
			if !slices.ContainsFunc(k.faults, func(f string) bool { return strings.Contains(f, b.says) }) {
				t.Errorf("no fault with %q: %q", b.says, k.faults)
			}
		})
	}
}

func TestAToolWithoutExamples(t *testing.T) {
	k := &check{ctx: t.Context(), tool: fine(t, func(*tools.Tool) {}), dir: t.TempDir}
	examplesRun(k)
	if len(k.faults) != 1 {
		t.Errorf("%q", k.faults)
	}
}

// Package tooltest is the suite that every tool passes: its schema is strict,
// its spec is pure, it ends when it should, it stays within its limits, and its
// claims about keys, probes and undoing are true.
package tooltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// Example is one call of the tool under test, in a workspace of its own.
type Example struct {
	Name    string            // for the reader; "" means the arguments
	Args    string            // a JSON object that the schema accepts
	Files   map[string]string // of the workspace, by slash-separated path
	Fails   events.Code       // how the call fails; "" means that it succeeds
	Blocks  bool              // the call goes on until it is ended: it shows that deadline and cancel are obeyed
	Network bool              // the call may use the network
	Asks    bool              // the call ends as its tool asks a person
	// Given is what the call goes on with, for a tool that asks; nil means nothing.
	Given func(in tools.Invocation) *events.Given
	// Count is the number of effects that there are by now; a tool that says
	// HonoursKey needs an example that can count. nil means that nothing can.
	Count func(workspace string) int
}

func (e Example) title() string {
	if e.Name != "" {
		return e.Name
	}
	return e.Args
}

// Run checks one tool by its examples, at least one, each rule as a subtest. A
// tool that can take long needs an example that Blocks.
func Run(t *testing.T, tool tools.Tool, examples ...Example) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			c := &check{ctx: t.Context(), tool: tool, examples: examples, dir: t.TempDir}
			r.check(c)
			for _, f := range c.faults {
				t.Error(f)
			}
		})
	}
}

// rule is one thing that must be true of a tool.
type rule struct {
	name  string
	check func(*check)
}

var rules = []rule{
	{"schema", schemaIsStrict},
	{"spec", specIsPure},
	{"operation", operationIsNamed},
	{"examples", examplesRun},
	{"deadline", deadlineIsObeyed},
	{"cancel", cancelIsObeyed},
	{"output", outputIsBounded},
	{"key", keyIsHonoured},
	{"probe", probeFinds},
	{"undo", undoUndoes},
}

// check is one rule at work.
type check struct {
	ctx      context.Context // of the test
	tool     tools.Tool
	examples []Example
	dir      func() string
	faults   []string
}

func (c *check) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// calls numbers all calls of the process, so that no two share a ledger's line.
var calls atomic.Int64

// call prepares an invocation of an example in a new workspace.
func (c *check) call(e Example) tools.Invocation {
	n := int(calls.Add(1))
	in := tools.Invocation{
		Call: events.CallKey{Trace: "tooltest", Turn: fmt.Sprintf("p%d", os.Getpid()), Offset: n}, Attempt: 1,
		Tool: c.tool.Name, Args: []byte(e.Args), Workspace: c.dir(), Mode: events.ModeWrite, Network: e.Network,
		Progress: func(events.Progress) {},
	}
	if c.tool.Key != nil {
		if k := c.tool.Key(in.Args); k != "" {
			in.Key = in.Call.String() + "/" + k
		}
	}
	if e.Given != nil {
		in.Given = e.Given(in)
	}
	for name, text := range e.Files {
		path := filepath.Join(in.Workspace, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.fault("%s: %v", e.title(), err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			c.fault("%s: %v", e.title(), err)
		}
	}
	return in
}

// each calls f for the examples that end by themselves.
func (c *check) each(f func(Example)) {
	if len(c.examples) == 0 {
		c.fault("there is no example")
	}
	for _, e := range c.examples {
		if !e.Blocks {
			f(e)
		}
	}
}

// blocking calls f for the examples that go on until they are ended.
func (c *check) blocking(f func(Example)) {
	for _, e := range c.examples {
		if e.Blocks {
			f(e)
		}
	}
}

// good calls f for the examples that succeed, once each has.
func (c *check) good(f func(e Example, in tools.Invocation, r tools.Report)) {
	c.each(func(e Example) {
		if e.Fails != "" || e.Asks {
			return
		}
		in := c.call(e)
		r := tools.Execute(c.ctx, c.tool, in, tools.Options{})
		if r.Class != events.ClassOK {
			c.fault("%s: %s", e.title(), said(r))
			return
		}
		f(e, in, r)
	})
}

// said is a report in few words.
func said(r tools.Report) string {
	if r.Result.Error != nil {
		return fmt.Sprintf("ended %s, effects %s, %s: %s", r.Class, r.Effects, r.Result.Error.Code, r.Result.Error.Message)
	}
	return fmt.Sprintf("ended %s, effects %s", r.Class, r.Effects)
}

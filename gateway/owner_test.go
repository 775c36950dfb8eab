package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// owner is a node of a test: it claims a turn and takes its calls as far as a
// test wants, by the same deciders as a real one.
type owner struct {
	t    *testing.T
	bus  bus.Bus
	boot string
	v    View
	n    int
}

func newOwner(t *testing.T, b bus.Bus) *owner { return &owner{t: t, bus: b, boot: "boot1"} }

// take pulls the next turn and claims and plans it.
func (o *owner) take() events.TurnKey {
	o.t.Helper()
	d, err := o.bus.Pull(within(o.t), []string{events.DefaultPlacement})
	must(o.t, err)
	key := d.Item().Turn
	must(o.t, d.Ack())
	o.load(key)
	o.do(lifecycle.Claim{Boot: o.boot, Node: "test"})
	facts := make([]lifecycle.CallFacts, len(o.v.Turn.Calls))
	for i, c := range o.v.Turn.Submitted.Calls {
		facts[i] = lifecycle.CallFacts{Hash: hash(c.Args.Text), Known: true}
	}
	o.do(lifecycle.Plan{Facts: facts})
	return key
}

func hash(args string) string {
	a, err := lifecycle.Parse(args)
	if err != nil {
		return ""
	}
	return a.Hash
}

func (o *owner) load(key events.TurnKey) {
	o.t.Helper()
	commits, err := o.bus.Load(within(o.t), key, 0)
	must(o.t, err)
	o.v = viewOf(key, commits)
}

// do decides a command as the owner, appends it and tells it live.
func (o *owner) do(cmd lifecycle.Command) {
	o.t.Helper()
	env := lifecycle.Env{Now: time.Now().UTC().Truncate(time.Microsecond), Owner: o.v.Turn.Owner}
	records, err := lifecycle.Decide(o.v.Turn, env, cmd)
	must(o.t, err)
	if len(records) == 0 {
		o.t.Fatalf("%T gave no events", cmd)
	}
	o.n++
	c := events.Commit{ID: fmt.Sprintf("%s-%s-%d", o.boot, o.v.Turn.Key.Turn, o.n), Turn: o.v.Turn.Key, At: env.Now, By: env.Owner, Records: records}
	s, err := o.bus.Append(within(o.t), c, o.v.seq())
	must(o.t, err)
	o.v = viewOf(o.v.Turn.Key, append(o.v.Commits, s))
	must(o.t, o.bus.Publish(within(o.t), s, nil))
}

// judge lets a call through every gate, or asks a person.
func (o *owner) judge(call int, tier events.Tier) {
	o.t.Helper()
	findings := make([]lifecycle.Finding, len(lifecycle.PlanGates))
	for i, g := range lifecycle.PlanGates {
		findings[i] = lifecycle.Finding{Gate: g}
	}
	o.do(lifecycle.Judge{Call: call, Findings: findings, Asks: "do it", Verdict: events.Verdict{Tier: tier, Hash: o.v.Turn.Calls[call].Hash}})
}

func (o *owner) start(call int) {
	o.t.Helper()
	findings := make([]lifecycle.Finding, len(lifecycle.StartGates))
	for i, g := range lifecycle.StartGates {
		findings[i] = lifecycle.Finding{Gate: g}
	}
	o.do(lifecycle.Begin{Call: call, Findings: findings, Verdict: *o.v.Turn.Calls[call].Verdict})
}

func (o *owner) settle(call int, text string) {
	o.t.Helper()
	o.do(lifecycle.Settle{
		Call: call, Attempt: 1, Class: events.ClassOK, Answered: true, Confirmed: true,
		Result: events.Result{Status: events.Success, Text: events.Body{Text: text}},
	})
}

// finish runs every call of the turn that it holds.
func (o *owner) finish(text string) {
	o.t.Helper()
	for i := range o.v.Turn.Calls {
		o.judge(i, events.Readonly)
	}
	for i := range o.v.Turn.Calls {
		o.start(i)
		o.settle(i, text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within is a context that ends a hanging test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(stop)
	return ctx
}

// newDesk is a started desk on an empty log.
func newDesk(t *testing.T) (*Desk, *memlog.Log) {
	t.Helper()
	log := memlog.New(memlog.Config{})
	d := NewDesk(DeskConfig{Bus: log.View("door"), Poll: 20 * time.Millisecond})
	d.Start(t.Context())
	t.Cleanup(func() {
		d.Stop()
		_ = log.Close()
	})
	return d, log
}

// echo is a submission of calls of one tool with these arguments.
func echo(args ...string) events.TurnSubmitted {
	s := events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, CanAsk: true, Format: "openai"}
	for i, a := range args {
		s.Calls = append(s.Calls, events.RawCall{ProviderID: fmt.Sprintf("call_%d", i), Tool: "echo", Args: events.Body{Text: a}})
	}
	return s
}

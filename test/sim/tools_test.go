package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// kind is a kind of call.
type kind struct {
	tier      events.Tier
	honours   bool // one effect for one key, whatever comes twice
	probe     bool
	retries   int
	exclusive bool
	asks      bool // the policy asks a person
	down      bool // fails for want of its server, most of the time
	bomb      bool // kills its node
	input     bool // asks a person before it does anything, most of the time
	hosts     bool // reaches two hosts, each with a circuit: one that is down, and one that never is
}

var callKinds = map[string]kind{
	"read":   {tier: events.Readonly, retries: 2},
	"fetch":  {tier: events.Readonly, retries: 1, down: true},
	"browse": {tier: events.Readonly, retries: 1, down: true, hosts: true},
	"edit":   {tier: events.Reversible, exclusive: true, retries: 2},
	"write":  {tier: events.Reversible, exclusive: true, probe: true, retries: 2},
	"upsert": {tier: events.Reversible, honours: true, retries: 2},
	"charge": {tier: events.Irreversible, retries: 2},
	"post":   {tier: events.Irreversible, probe: true, retries: 2},
	"pay":    {tier: events.Irreversible, probe: true, honours: true, retries: 2},
	"bash":   {tier: events.Irreversible, asks: true, retries: -1},
	"deploy": {tier: events.Approval, retries: -1},
	"quiz":   {tier: events.Readonly, input: true, retries: 2},
	"sign":   {tier: events.Irreversible, input: true, retries: -1},
	"bomb":   {tier: events.Readonly, bomb: true},
}

// kindNames are those that a model asks for when it does not want to kill anybody.
var kindNames = []string{"read", "fetch", "browse", "edit", "write", "upsert", "charge", "post", "pay", "bash", "deploy", "quiz", "sign"}

// wall is how long an attempt may take.
const wall = 20 * time.Second

// breakers are short, so that they open and close within a run.
var breakers = lifecycle.BreakerConfig{Failures: 3, Window: 8 * time.Second, Lease: 5 * time.Second}

// registry has all of them, for every node of every run.
var registry = func() *tools.Registry {
	r := &tools.Registry{}
	for name, k := range callKinds {
		t := tools.Tool{
			Spec: tools.Spec{
				Name: name, Description: name, Tier: k.tier, HonoursKey: k.honours, Limits: tools.Limits{Wall: wall, Retries: k.retries},
				Schema:    json.RawMessage(`{"type":"object"}`),
				Resources: func(args json.RawMessage) []events.ResourceUse { return resources(k, args) },
			},
			Run: func(context.Context, tools.Invocation) (events.Result, error) {
				return events.Result{}, errors.New("a simulated tool was run for real")
			},
		}
		if k.probe {
			t.Probe = probe
		}
		if k.hosts {
			t.Circuit = host
		}
		if err := r.Add(t); err != nil {
			panic(err)
		}
	}
	return r
}()

// The hosts of the tools that have several.
const (
	hostDown = "https://down.example"
	hostUp   = "http://up.example:8080"
)

// host is the circuit of a call that reaches one of the hosts.
func host(args json.RawMessage) string {
	var on struct{ N int }
	if json.Unmarshal(args, &on) != nil || on.N == 0 {
		return hostDown
	}
	return hostUp
}

// circuitOf is the circuit that a call of these arguments belongs to.
func circuitOf(tool string, args json.RawMessage) lifecycle.Circuit {
	c := lifecycle.Circuit{Tool: tool}
	if callKinds[tool].hosts {
		c.Of = host(args)
	}
	return c
}

// allCircuits are those that any call belongs to.
func allCircuits() []lifecycle.Circuit {
	var out []lifecycle.Circuit
	for _, tool := range kindNames {
		out = append(out, lifecycle.Circuit{Tool: tool})
		if callKinds[tool].hosts {
			out = append(out, lifecycle.Circuit{Tool: tool, Of: hostDown}, lifecycle.Circuit{Tool: tool, Of: hostUp})
		}
	}
	return out
}

func resources(k kind, args json.RawMessage) []events.ResourceUse {
	var on struct{ On string }
	if json.Unmarshal(args, &on) != nil || on.On == "" {
		return nil
	}
	return []events.ResourceUse{{Name: "file:" + on.On, Exclusive: k.exclusive || k.tier != events.Readonly && k.tier != events.Reversible}}
}

// authorizer asks a person about some tools, and allows the rest.
type authorizer struct{}

// Authorize is policy.Authorizer's.
func (authorizer) Authorize(r policy.Request) policy.Verdict {
	v := policy.Verdict{Decision: policy.Allow, Gate: "authorize", Policies: []string{"sim"}, Version: "sim"}
	if callKinds[r.Tool].asks {
		v.Decision, v.Reason = policy.Ask, "the policy asks"
		if !r.CanAsk {
			v.Decision, v.Code, v.Reason = policy.Deny, events.PermissionDenied, "nobody can be asked"
		}
	}
	return v
}

// Version is policy.Authorizer's.
func (authorizer) Version() string { return "sim" }

// attempt is one run of a tool, and what it does to the world.
type attempt struct {
	s         *sim
	n         *node
	call      events.CallKey
	attempt   int
	kind      kind
	tool, key string
	locks     []events.Lock
	slots     []string // names of the limits that it has passed
	began     time.Time
	takes     time.Duration
	class     events.Class
	effects   events.Effects
	answered  bool   // the tool itself answers
	stubborn  bool   // cannot be stopped
	asks      bool   // it ends as its tool asks a person
	running   bool   // its process is at it
	disturbed bool   // its node was not well meanwhile, or just before: it may have lost what it held
	pending   func() // takes back an effect that is still to come; nil if there is none
}

// execute is actors.Config's: it draws what becomes of an attempt.
func (n *node) execute(ctx context.Context, t tools.Tool, in tools.Invocation, o tools.Options) tools.Report {
	if real, _ := registry.Lookup(t.Name); real.Probe != nil && t.Probe == nil {
		return n.ask(ctx, t, in)
	}
	if ctx.Err() != nil {
		return tools.Report{
			Result: failure("not started"), Class: events.ClassCancelled, Effects: events.EffectsNone, Confirmed: true,
		}
	}
	a := n.s.begin(n, in)
	if a.kind.bomb {
		n.s.counts.mark("bomb")
		n.doomed = true
		n.m.Kill()
		n.m.Wait(0) // for ever
	}
	if n.s.chance(0.1) && o.Progress != nil {
		o.Progress(events.Progress{Attempt: in.Attempt, Text: "half-way"})
	}
	r := a.wait(ctx, in, o)
	if r.Class == events.ClassUnavailable || r.Class == events.ClassTimeout {
		n.s.evidence[circuitOf(in.Tool, in.Args)]++
	}
	return r
}

// wait returns once the attempt has ended, or was given up.
func (a *attempt) wait(ctx context.Context, in tools.Invocation, o tools.Options) tools.Report {
	left := min(wall, in.Deadline.Sub(a.n.m.Now()))
	cut := events.Class("")
	switch {
	case left <= 0:
		cut = events.ClassTimeout
	case a.n.m.Wait(min(a.takes, left), ctx.Done()) == 0:
		cut = events.ClassCancelled
	case left < a.takes:
		cut = events.ClassTimeout
	}
	if cut == "" {
		a.end()
		return a.report()
	}
	r := tools.Report{
		Result: failure(string(cut)), Class: cut, Effects: events.EffectsPossible, Run: a.s.w.Now().Sub(a.began), Confirmed: !a.stubborn,
	}
	if a.kind.tier == events.Readonly {
		r.Effects = events.EffectsNone
	}
	if !a.stubborn {
		a.answered = false // what is on the wire may still arrive
		if a.s.chance(0.5) {
			a.forgo()
		}
		a.end()
		return r
	}
	r.Pids, a.disturbed = []int{1}, true // nobody waits for it any more
	a.n.m.Go(func() { a.linger(o) })
	return r
}

// linger is a tool that does not stop when it is told to.
func (a *attempt) linger(o tools.Options) {
	a.n.m.Wait(time.Duration(1 + a.s.rng.Int64N(int64(20*time.Second))))
	a.s.counts.mark("late answer")
	a.end()
	if o.Late != nil {
		o.Late(a.report())
	}
}

// begin draws what will become of an attempt, and checks that it may be.
func (s *sim) begin(n *node, in tools.Invocation) *attempt {
	k := callKinds[in.Tool]
	a := &attempt{
		s: s, n: n, call: in.Call, attempt: in.Attempt, kind: k, tool: in.Tool, key: in.Key, locks: in.Locks,
		began: s.w.Now(), class: events.ClassOK, effects: events.EffectsDone, answered: true, running: true,
		disturbed: n.b.IsCut() || n.unwell.Add(ackWait).After(s.startOf(in.Call, in.Attempt)), // until it is heard of again, others may take its turns over
	}
	a.takes = time.Duration(1+s.rng.IntN(3000)) * time.Millisecond
	after := a.takes / 2
	has := true
	switch x := s.rng.IntN(100); {
	case k.hosts && host(in.Args) == hostUp:
	case k.down && x < 80 || x < 8: // its server is not there: connection refused
		a.class, a.effects, has = events.ClassUnavailable, events.EffectsNone, false
	case x < 16: // it fails for a reason of its own, before it does anything
		a.class, a.effects, has = events.ClassTool, events.EffectsNone, false
	case x < 22: // it fails half-way
		a.class, a.effects = events.ClassTool, events.EffectsDone
	case x < 26:
		a.class, a.effects, has = events.ClassInvalid, events.EffectsNone, false
	case x < 32: // the connection breaks, and the request may be on its way
		a.class, a.answered, a.effects = events.ClassUnavailable, false, events.EffectsPossible
		after = a.takes + time.Duration(s.rng.IntN(20))*time.Second
	case x < 38: // the other side says that it is busy, and may have done it all the same
		a.class, a.effects, has = events.ClassUnavailable, events.EffectsPossible, s.chance(0.5)
	case x < 42: // it breaks
		a.class, a.answered, a.effects, has = events.ClassPanic, false, events.EffectsPossible, s.chance(0.5)
	case x < 54: // it hangs; its effect comes, or not
		a.takes, a.stubborn, has = time.Hour, s.chance(0.5), s.chance(0.5)
		after = time.Duration(s.rng.IntN(30)) * time.Second
		if !has {
			a.class, a.effects = events.ClassTool, events.EffectsNone
		}
	}
	if k.input && s.chance(map[bool]float64{true: 0.2, false: 0.8}[in.Given != nil]) {
		a.class, a.effects, a.answered, a.asks, has = events.ClassInput, events.EffectsPossible, true, true, false
	}
	if k.tier == events.Readonly {
		a.effects, has = events.EffectsNone, false
	}
	s.checkGiven(in)
	s.attempts = append(s.attempts, a)
	if has {
		stop := s.w.At(s.w.Now().Add(after), a.happen)
		a.pending = stop
	}
	s.note("%s on %s: attempt %d runs for %s: %s", in.Call, n.m.Name(), a.attempt, a.takes, a.class)
	s.ledger.begin(s, a)
	s.leased(a)
	s.limited(a)
	return a
}

// happen is the effect.
func (a *attempt) happen() {
	a.pending = nil
	a.s.ledger.add(a.s, a)
	a.s.tidy()
}

// forgo takes the effect back before it has happened.
func (a *attempt) forgo() {
	if a.pending != nil {
		a.pending()
		a.pending = nil
	}
	a.s.tidy()
}

// end is the end of the attempt's process. An answer comes after what it tells of.
func (a *attempt) end() {
	if a.answered && a.pending != nil {
		a.pending()
		a.happen()
	}
	a.running = false
	a.s.tidy()
}

// tidy forgets the attempts that nothing more can come of.
func (s *sim) tidy() {
	s.attempts = slices.DeleteFunc(s.attempts, func(a *attempt) bool { return !a.running && a.pending == nil })
}

// found is what a probe answers, answer what an attempt does.
var found = events.Result{Status: events.Success, Text: events.Body{Text: "found"}}

func answer(call events.CallKey, attempt int) events.Result {
	return events.Result{Status: events.Success, Text: events.Body{Text: fmt.Sprintf("%s attempt %d", call, attempt)}}
}

func failure(what string) events.Result {
	return events.Result{Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: what}}
}

// report is that of an attempt that has ended by itself.
func (a *attempt) report() tools.Report {
	r := tools.Report{
		Result: answer(a.call, a.attempt), Class: a.class, Effects: a.effects, Run: a.s.w.Now().Sub(a.began),
		Answered: a.answered, Confirmed: true,
	}
	switch {
	case a.asks:
		r.Result, r.Input = events.Result{Status: events.Success}, a.question()
	case a.class != events.ClassOK:
		r.Result = failure(string(a.class))
	}
	return r
}

// probing carries a probe's world to it.
type probing struct{}

// ask runs a probe: it takes a moment, and cannot always tell.
func (n *node) ask(ctx context.Context, t tools.Tool, in tools.Invocation) tools.Report {
	n.m.Wait(time.Duration(1+n.s.rng.IntN(5000))*time.Millisecond, ctx.Done())
	_, err := t.Run(context.WithValue(ctx, probing{}, n.s), in)
	return tools.Report{Class: cmp.Or(events.ClassOK), Answered: err == nil, Confirmed: true}
}

// probe is that of every tool that has one.
func probe(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
	s := ctx.Value(probing{}).(*sim)
	if ctx.Err() != nil || s.chance(0.2) {
		s.counts.mark("probe that cannot tell")
		return tools.Finding{}, errors.New("nobody answers")
	}
	f := tools.Finding{Found: s.ledger.of(in.Call) > 0, Result: found}
	s.counts.mark("probe, found %t", f.Found)
	return f, nil
}

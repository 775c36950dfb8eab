package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// equip makes the registry of the script: the tools as they were recorded, none of
// which does anything.
func (s *Script) equip() error {
	s.registry = &tools.Registry{}
	for _, k := range s.calls {
		if _, have := s.registry.Lookup(k.tool); have || k.denied != nil && k.denied.Code == events.UnknownTool {
			continue
		}
		if err := s.registry.Add(s.scripted(s.telling(k))); err != nil {
			if k.ended != nil && k.denied == nil {
				s.note("the tool of call %d cannot be registered today: %v", k.offset, err)
			}
		}
	}
	for _, k := range s.calls {
		if !k.judged && k.denied == nil && k.reuses == nil && !k.made {
			s.note("nothing is recorded of how policy judged call %d: it is let through", k.offset)
		}
	}
	return nil
}

// telling is the call that says most of a call's tool: the first one that policy judged.
func (s *Script) telling(k *callScript) *callScript {
	if i := slices.IndexFunc(s.calls, func(o *callScript) bool { return o.tool == k.tool && o.judged }); i >= 0 {
		return s.calls[i]
	}
	return k
}

// errNoTool is what a scripted tool answers to whoever runs it otherwise than by the
// script. It is never seen.
var errNoTool = errors.New("a scripted tool was run for real")

// anyObject is the schema of every scripted tool: what a schema refused when it was
// recorded is refused by the script.
var anyObject = json.RawMessage(`{"type":"object"}`)

// scripted is the tool of a call, as it was recorded.
func (s *Script) scripted(k *callScript) tools.Tool {
	t := tools.Tool{
		Spec: tools.Spec{
			Name: k.tool, Description: "scripted", Version: k.verdict.ToolVersion, Schema: anyObject, Tier: k.verdict.Tier,
			HonoursKey: k.verdict.HonoursKey, Limits: tools.Limits{Wall: s.wall(k.tool), Retries: retries(k.verdict), Lines: boundless, Text: boundless, Output: boundless},
			TierOf:    func(args json.RawMessage) events.Tier { return s.of(k, args).verdict.Tier },
			Safe:      func(args json.RawMessage) bool { return s.of(k, args).safe },
			Resources: func(args json.RawMessage) []events.ResourceUse { return s.of(k, args).resources() },
			Key:       func(args json.RawMessage) string { return s.keyOf(s.of(k, args)) },
			Circuit:   func(args json.RawMessage) string { return s.of(k, args).circuit },
			Operation: func(args json.RawMessage) events.Operation { return s.of(k, args).verdict.Operation },
		},
		Run: func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, errNoTool },
	}
	if k.asked != nil {
		t.Asks = func(args json.RawMessage) string {
			if a := s.of(k, args).asked; a != nil {
				return a.Asks
			}
			return k.tool
		}
	}
	if k.verdict.Probe {
		t.Probe = probe
	}
	if k.verdict.Undo {
		t.Compensate = func(context.Context, tools.Invocation, events.Result) (events.Result, error) {
			return events.Result{}, errNoTool
		}
	}
	return t
}

func (s *Script) of(k *callScript, args json.RawMessage) *callScript {
	if found := s.call(k.tool, args); found != nil {
		return found
	}
	return k
}

// resources are what the call must lock: as recorded, and what keeps a call from starting
// that was never started.
func (k *callScript) resources() []events.ResourceUse {
	if !k.idle {
		return k.verdict.Resources
	}
	return append(slices.Clone(k.verdict.Resources), events.ResourceUse{Name: k.waitsFor(), Exclusive: true})
}

// waitsFor is the resource that is held for a call that had not started by the time its
// end was asked for, or its turn's deadline passed: whatever it had been waiting for.
func (k *callScript) waitsFor() string { return fmt.Sprint("replay:call:", k.offset) }

// retries are a verdict's as a tool states them.
func retries(v events.Verdict) int {
	if v.Retries == 0 {
		return -1
	}
	return v.Retries
}

// wall is how long an attempt of a tool may take: the longest that was recorded.
func (s *Script) wall(tool string) time.Duration {
	longest := time.Duration(0)
	for _, k := range s.calls {
		for _, a := range k.attempts {
			if k.tool == tool && !a.until.Equal(s.was.Deadline()) { // what the turn's deadline left says nothing of the tool
				longest = max(longest, a.wall)
			}
		}
	}
	if longest <= 0 {
		return lifecycle.DefaultWall
	}
	return longest
}

// keyOf is the idempotency key that a call's tool derived, as the tool gave it; "" if
// it derived none, or the caller gave the key.
func (s *Script) keyOf(k *callScript) string {
	scoped := k.verdict.Key
	if k.reuses != nil {
		scoped = k.reuses.Key
	}
	if s.sub.Calls[k.offset].Key != "" {
		return ""
	}
	key, ok := strings.CutPrefix(scoped, s.sub.Principal.ID+" "+k.tool+" ")
	if !ok {
		return ""
	}
	return key
}

// bench is the policy of one cell: what was decided when the turn was recorded.
type bench struct {
	s     *Script
	asked map[*callScript]int
	tried func(call int) int // how many attempts of a call were to be followed by another
}

// Authorize is policy.Authorizer's.
func (b *bench) Authorize(r policy.Request) policy.Verdict {
	v := policy.Verdict{Decision: policy.Allow, Gate: string(lifecycle.GateAuthorize), Version: b.s.policy}
	k := b.s.call(r.Tool, r.Args)
	if k == nil {
		return v
	}
	v.Policies = k.verdict.Policies
	if k.verdict.Policy != "" {
		v.Version = k.verdict.Policy
	}
	b.asked[k]++
	switch d := k.denied; {
	case k.limited != "" && b.tried(k.offset) >= k.behind:
		v.Decision, v.Code, v.Reason = policy.Deny, events.RateLimited, k.limited
	case d != nil && k.refused() && (!k.late || b.asked[k] > 1):
		v.Decision, v.Code, v.Reason, v.Path, v.Policies = policy.Deny, d.Code, d.Reason, d.Path, d.Policies
		if d.Policy != "" {
			v.Version = d.Policy
		}
	case k.asked != nil:
		v.Decision, v.Reason = policy.Ask, k.asked.Why
		if k.verdict.Tier == events.Approval {
			v.Decision = policy.Allow // the tier asks by itself
		}
	case d != nil && d.Gate == string(lifecycle.GateApprove):
		v.Decision, v.Reason = policy.Ask, "recorded: a person was to be asked"
	}
	return v
}

// refused says whether the call was denied by a judge, and not by a person.
func (k *callScript) refused() bool {
	return k.denied.Gate != string(lifecycle.GateApprove) && k.denied.By == nil
}

// Version is policy.Authorizer's.
func (b *bench) Version() string {
	if b.s.recheck { // calls are judged once more as they start
		return b.s.policy + " (asked again)"
	}
	return b.s.policy
}

// probing carries a cell to a probe.
type probing struct{}

// probe is that of every scripted tool that had one: it tells what has happened in
// the cell.
func probe(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
	c, ok := ctx.Value(probing{}).(*cell)
	if !ok {
		return tools.Finding{}, errNoTool
	}
	k := c.s.calls[in.Call.Offset]
	a := k.attempts[len(k.attempts)-1]
	if _, unknown := k.ended.(*events.Unknown); unknown && !k.made {
		return tools.Finding{}, fmt.Errorf("it could not tell when it was recorded")
	}
	f := tools.Finding{Found: c.ledger.effects(in.Call.Offset) > 0}
	if f.Found {
		f.Result = a.outcome.Result
		if a.outcome.Class != events.ClassOK {
			f.Result = made(k).Result
		}
	}
	return f, nil
}

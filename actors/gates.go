package actors

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// Gates asks the gates that need no I/O: allow, validate and authorize. It
// translates; the judges are in package policy, and lifecycle knows the order.
// It may be used from many goroutines.
type Gates struct {
	Registry   *tools.Registry
	Authorizer policy.Authorizer
	Allow      func(principal string) []string // see Config.Allow
	Network    bool
	Workspace  string // where a turn runs that names none; "": that is not known
	// Now is the clock by which policies know the time; nil: they do not.
	Now func() time.Time

	log *slog.Logger // hears of tools that break; nil: nobody does
}

// Asked is one call as the gates see it.
type Asked struct {
	Tool  string
	Args  lifecycle.Args
	Fault error                 // why the arguments do not parse; nil if they do
	Raw   *events.RawCall       // with the door's refusal, if it made one
	Turn  *events.TurnSubmitted // principal, mode, workspace, allowlist
	Key   events.TurnKey        // of Turn; zero: it is not known

	shown []string // real names of the files whose change a person was shown, and has agreed to
	// The trace holds a yes for the session to these arguments: where nobody can be asked,
	// what lifecycle says of that yes counts, and not that nobody can be.
	agreedBefore bool
	hash         string // of the call's arguments as they were when this was made
	about        *learnt
}

// Static is what the gates without I/O find of a call, in order, up to the first
// that denies, and what a call that passes may do.
func (g Gates) Static(a *Asked) ([]lifecycle.Finding, events.Verdict) {
	tool, known := g.Registry.Lookup(a.Tool)
	req := g.request(a, tool, known)
	var out []lifecycle.Finding
	add := func(f lifecycle.Finding) bool { out = append(out, bounded(f)); return f.Ruling != lifecycle.Deny }

	if a.Raw != nil && a.Raw.Refused != nil {
		add(lifecycle.Finding{Gate: lifecycle.GateAllow, Ruling: lifecycle.Deny, Code: a.Raw.Refused.Code, Reason: a.Raw.Refused.Reason})
		return out, events.Verdict{}
	}
	if !add(finding(lifecycle.GateAllow, policy.AllowGate(req))) {
		return out, events.Verdict{}
	}
	if !add(g.validate(tool, a)) {
		return out, events.Verdict{}
	}
	req.Op = g.learn(tool, a).op
	req.Tier = policy.StricterTier(req.Op.Class, g.learn(tool, a).tier)
	if f, sealed := sealedName(req.Op); sealed {
		add(f)
		return out, events.Verdict{}
	}
	v := g.Authorizer.Authorize(req)
	add(finding(lifecycle.GateAuthorize, v))
	return out, g.verdict(tool, a, req, v)
}

func (g Gates) request(a *Asked, tool tools.Tool, known bool) policy.Request {
	r := policy.Request{
		Principal: a.Turn.Principal, Tool: a.Tool, Known: known, Tier: tool.Tier,
		Mode: cmp.Or(a.Turn.Mode, events.ModeWrite), CanAsk: a.Turn.CanAsk, Agreed: a.agreedBefore, Network: g.Network,
		Workspace: cmp.Or(a.Turn.Workspace, g.Workspace), Args: a.Args.JSON,
		Session: policy.Session{Trace: a.Key.Trace, Turn: a.Key.Turn, Placement: cmp.Or(a.Turn.Placement, events.DefaultPlacement)},
	}
	if a.Raw != nil {
		r.Said = a.Raw.Said
	}
	if g.Now != nil {
		r.Time = g.Now().UTC().Truncate(time.Millisecond)
	}
	if len(a.Turn.Allow) > 0 {
		r.Allowlists = append(r.Allowlists, a.Turn.Allow)
	}
	if g.Allow != nil {
		for _, id := range append([]string{a.Turn.Principal.ID}, a.Turn.Principal.Parents...) {
			if list := g.Allow(id); list != nil {
				r.Allowlists = append(r.Allowlists, list)
			}
		}
	}
	return r
}

func finding(gate lifecycle.Gate, v policy.Verdict) lifecycle.Finding {
	f := lifecycle.Finding{Gate: gate, Code: v.Code, Reason: v.Reason, Path: v.Path, Policies: v.Policies, Policy: v.Version, Judged: v.Judged}
	switch v.Decision {
	case policy.Allow:
	case policy.Ask:
		f.Ruling = lifecycle.Ask
	default:
		f.Ruling = lifecycle.Deny
	}
	return f
}

// validate is the gate of that name: the arguments must parse, and fit the schema.
func (g Gates) validate(tool tools.Tool, a *Asked) lifecycle.Finding {
	f := lifecycle.Finding{Gate: lifecycle.GateValidate}
	deny := func(path, reason string) lifecycle.Finding {
		f.Ruling, f.Code, f.Path, f.Reason = lifecycle.Deny, events.InvalidParam, path, reason
		return f
	}
	if a.Fault != nil {
		return deny("", a.Fault.Error()+": send one JSON object that fits the tool's schema")
	}
	about := g.learn(tool, a)
	found := about.violations
	switch {
	case about.broke:
		f.Ruling, f.Code = lifecycle.Deny, events.ExecutionError
		f.Reason = "the tool " + tool.Name + " broke while it looked at these arguments: a fault in the tool, which its operator can read in the log; nothing was run, and the same call will break it again"
		return f
	case len(found) == 0:
		return f
	}
	reason := "the arguments do not fit the tool's schema:"
	for i, v := range found {
		if i == maxViolations {
			reason += fmt.Sprintf(" and %d more", len(found)-i)
			break
		}
		reason += fmt.Sprintf(" %s: %s;", cmp.Or(v.Path, "/"), v.Message)
	}
	return deny(found[0].Path, strings.TrimSuffix(reason, ";"))
}

// maxViolations bounds the sentence that a model reads.
const maxViolations = 20

func (g Gates) verdict(tool tools.Tool, a *Asked, r policy.Request, v policy.Verdict) events.Verdict {
	out := events.Verdict{
		Operation: r.Op, Tier: r.Tier, Hash: a.Args.Hash, ToolVersion: versionOf(tool),
		Policies: v.Policies, Policy: v.Version, Judged: v.Judged, HonoursKey: tool.HonoursKey, Probe: tool.Probe != nil,
		Undo: tool.Compensate != nil, Retries: retries(tool.Limits.Retries),
	}
	if key := g.keyOf(tool, a); key != "" {
		out.Key = scopedKey(a, tool.Name, key)
	}
	out.Resources = g.learn(tool, a).resources
	bound(&out)
	return out
}

// keyOf is the call's idempotency key: the caller's, or one from business fields.
func (g Gates) keyOf(tool tools.Tool, a *Asked) string {
	if a.Raw != nil && a.Raw.Key != "" {
		return a.Raw.Key
	}
	return nameOf(g.learn(tool, a).key)
}

// circuitOf is the circuit that the call belongs to.
func (g Gates) circuitOf(tool tools.Tool, a *Asked) lifecycle.Circuit {
	return lifecycle.Circuit{Tool: a.Tool, Of: g.learn(tool, a).circuit}
}

func versionOf(t tools.Tool) string { return cmp.Or(t.Version, "1") }

func retries(n int) int {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return 2
	}
	return n
}

// asks is what a person reads before saying yes.
func (g Gates) asks(tool tools.Tool, a *Asked) string {
	if tool.Asks != nil {
		return g.learn(tool, a).asks
	}
	return tools.Visible(tool.Name + " " + string(a.Args.JSON))
}

// facts are what planning needs to know of a call.
func (g Gates) facts(a *Asked) lifecycle.CallFacts {
	f := lifecycle.CallFacts{Hash: a.Args.Hash}
	tool, known := g.Registry.Lookup(a.Tool)
	if f.Known = known; known {
		f.Safe, f.Resources = g.learn(tool, a).safe, g.learn(tool, a).resources
	}
	return f
}

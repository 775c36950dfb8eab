package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fs"
)

// holding is what a call has taken and must give back.
type holding struct {
	call  events.CallKey
	locks []events.Lock      // slots of limits, too
	spent []events.Limit     // of whose rates it has a token
	probe *lifecycle.Circuit // whose probe the call is; nil if none
	boot  string
}

func (h holding) any() bool { return len(h.locks) > 0 || len(h.spent) > 0 || h.probe != nil }

// heldBy is what was taken for a start.
func heldBy(call events.CallKey, boot, tool string, b lifecycle.Begin) holding {
	h := holdingOf(call, boot, b.Limits)
	h.locks = append(h.locks, b.Locks...)
	if b.Breaker.Probe {
		h.probe = &lifecycle.Circuit{Tool: tool, Of: b.Breaker.Circuit}
	}
	return h
}

// giveBack undoes what was taken for one start. What an attempt of the same call
// holds that runs already stays: running says that there is one.
func (n *Node) giveBack(h holding, running bool) {
	for _, l := range h.locks {
		n.locks.undo(l, h.call)
	}
	if running {
		return
	}
	for _, l := range h.spent {
		n.rates.giveBack(l.Rule, l.Principal)
	}
	if h.probe != nil {
		n.breaks.spare(*h.probe, holder(h.call, h.boot))
	}
}

// keyed says whether the call has an idempotency key.
func (n *Node) keyed(a *Asked) bool {
	t, known := n.cfg.Registry.Lookup(a.Tool)
	return known && n.gates.keyOf(t, a) != ""
}

// quick asks the gates of an effect's moment where none of them has to look
// outside this process. ok is false where one has to.
func (n *Node) quick(e lifecycle.Effect, o owe, key events.CallKey) (cmd lifecycle.Command, ok bool) {
	tool, known := n.cfg.Registry.Lookup(o.asked.Tool)
	if e.Do == lifecycle.DoJudge {
		if known && n.keyed(o.asked) {
			return nil, false
		}
		j := n.judged(o, lifecycle.Finding{Gate: lifecycle.GateDedupe})
		return j, !known || !visible(tool) && !sealed(o) || !asksPerson(j.Findings, j.Verdict)
	}
	call := o.turn.Calls[key.Offset]
	if !known || n.looks(o.turn, o.asked, call, tool) {
		return nil, false
	}
	b := n.beginning(o, call, tool)
	if (visible(tool) || sealed(o)) && asksAnew(b, call) {
		return nil, false
	}
	b.Findings = append(b.Findings, lifecycle.Finding{Gate: lifecycle.GateLimit}, lifecycle.Finding{Gate: lifecycle.GateLock}, lifecycle.Finding{Gate: lifecycle.GateAdmit})
	b.Breaker = events.BreakerView{State: string(lifecycle.BreakerClosed), Circuit: n.gates.circuitOf(tool, o.asked).Of}
	return n.cutShort(b), true
}

// visible says whether a person who is asked is shown more of the tool's calls than
// their arguments say.
func visible(t tools.Tool) bool { return t.Operands != nil || t.Preview != nil }

// looks says whether the gates of a call's start look at or take something outside
// this process.
func (n *Node) looks(t lifecycle.Turn, asked *Asked, call *lifecycle.Call, tool tools.Tool) bool {
	files, _ := lifecycle.Bound(t, call)
	return len(files.Operands)+len(files.Base) > 0 || len(call.Verdict.Resources) > 0 || len(tool.Writes) > 0 || tool.Operands != nil ||
		!n.breaks.closed(n.gates.circuitOf(tool, asked)) || len(n.limitsOf(t, call)) > 0
}

// judged is the verdict of the plan gates, given what dedupe found.
func (n *Node) judged(o owe, dedupe lifecycle.Finding) lifecycle.Judge {
	cmd := lifecycle.Judge{Call: o.offset, Findings: []lifecycle.Finding{dedupe}, Looked: true, Expire: n.cfg.Approval}
	if dedupe.Ruling != lifecycle.Pass {
		return cmd
	}
	more, v := n.gates.Static(o.asked)
	cmd.Findings, cmd.Verdict = append(cmd.Findings, more...), v
	if len(more) < len(lifecycle.PlanGates)-2 || more[len(more)-1].Ruling == lifecycle.Deny {
		return cmd
	}
	tool, known := n.cfg.Registry.Lookup(o.asked.Tool)
	cmd.Findings = append(cmd.Findings, n.breaks.peek(n.gates.circuitOf(tool, o.asked)))
	if known {
		cmd.Asks = n.gates.asks(tool, o.asked)
		cmd.Findings = askable(cmd.Findings, cmd.Verdict, cmd.Asks)
	}
	return cmd
}

// judge asks the plan gates, with what has to be looked up.
func (n *Node) judge(ctx context.Context, e lifecycle.Effect, o owe, key events.CallKey) found {
	dedupe := lifecycle.Finding{Gate: lifecycle.GateDedupe}
	if n.keyed(o.asked) {
		var err error
		if dedupe, err = n.dedupe(ctx, o, key); err != nil {
			n.log.Warn("the idempotency key cannot be looked up: trying again", "call", key.String(), "err", err)
			return found{}
		}
		if dedupe.Ruling == lifecycle.Wait {
			return found{key: true}
		}
	}
	j := n.judged(o, dedupe)
	if tool, known := n.cfg.Registry.Lookup(o.asked.Tool); known && asksPerson(j.Findings, j.Verdict) {
		if j.Findings = n.unlikeSealed(ctx, o, key, tool, j.Findings); asksPerson(j.Findings, j.Verdict) {
			j.Operands, j.Preview = n.shows(ctx, o, key, tool)
		}
	}
	return found{cmd: j}
}

// lookAll is the digest of each file that is there.
func (n *Node) lookAll(ctx context.Context, workspace string, paths []string) []events.Seen {
	var out []events.Seen
	for _, p := range paths {
		if s, err := fs.Look(ctx, workspace, p); err == nil {
			out = append(out, s)
		}
	}
	return out
}

// beginning is a Begin with the findings of the gates that need no I/O. A
// verdict of the same policy on the same arguments is not asked for again, unless
// it held for its moment only: the call may have waited past the end of a window.
func (n *Node) beginning(o owe, call *lifecycle.Call, tool tools.Tool) lifecycle.Begin {
	b := lifecycle.Begin{Call: call.Offset, Verdict: *call.Verdict, Wall: tool.Limits.Wall}
	if tool.Containment != nil {
		b.Containment = tool.Containment(tools.Invocation{
			Tool: tool.Name, Args: o.asked.Args.JSON, Workspace: n.workspace(o.turn.Submitted), Mode: o.turn.Submitted.Mode, Network: n.cfg.Network,
		})
	}
	if o.asked.Fault != nil { // they were there when the call was let through
		b.Findings = []lifecycle.Finding{{Gate: lifecycle.GateAllow}, {
			Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.InternalError, Reason: "it was not run: " + o.asked.Fault.Error(),
		}}
		return b
	}
	if call.Verdict.Policy == n.cfg.Authorizer.Version() && call.Verdict.ToolVersion == versionOf(tool) && call.Verdict.Judged.IsZero() {
		b.Findings = []lifecycle.Finding{{Gate: lifecycle.GateAllow}, {Gate: lifecycle.GateAuthorize}}
		return b
	}
	more, v := n.gates.Static(o.asked)
	for _, f := range more {
		switch {
		case f.Gate == lifecycle.GateAllow || f.Gate == lifecycle.GateAuthorize:
			b.Findings = append(b.Findings, f)
		case f.Ruling == lifecycle.Deny: // a tool that takes other arguments since the call was planned
			f.Gate = lifecycle.GateAuthorize
			b.Findings = append(b.Findings, f)
		}
	}
	if v.Tier != "" {
		v.Key = call.Verdict.Key // held since the turn was planned
		b.Verdict, b.Asks = v, n.gates.asks(tool, o.asked)
		b.Findings = askable(b.Findings, b.Verdict, b.Asks)
	}
	return b
}

// cutShort drops the findings behind the one that ends the way.
func (n *Node) cutShort(b lifecycle.Begin) lifecycle.Begin {
	for i, f := range b.Findings {
		if f.Ruling == lifecycle.Deny || f.Ruling == lifecycle.Wait {
			b.Findings = b.Findings[:i+1]
			break
		}
	}
	return b
}

// begin asks the start gates: limits, leases in one order, expectations, the breaker.
func (n *Node) begin(ctx context.Context, e lifecycle.Effect, o owe, key events.CallKey) found {
	call := o.turn.Calls[key.Offset]
	tool, known := n.cfg.Registry.Lookup(call.Tool)
	if !known {
		return found{cmd: n.unregistered(o, call)}
	}
	b := n.cutShort(n.beginning(o, call, tool))
	if asksAnew(b, call) {
		b.Findings = n.unlikeSealed(ctx, o, key, tool, b.Findings)
	}
	if last := b.Findings[len(b.Findings)-1]; last.Ruling == lifecycle.Deny {
		return found{cmd: b}
	}
	var limit lifecycle.Finding
	var err error
	if b.Limits, b.LimitWait, limit, err = n.limit(ctx, o.turn, call, key); err != nil {
		if ctx.Err() == nil { // otherwise nobody waits for it any more
			n.log.Warn("the limits could not be asked, so the call waits: trying again", "call", key.String(), "err", err)
		}
		return found{}
	}
	if b.Findings = append(b.Findings, limit); limit.Ruling == lifecycle.Deny {
		return found{cmd: b}
	}
	if b.Locks, err = n.locks.takeAll(ctx, key, b.Verdict.Resources, n.workspace(o.turn.Submitted)); err != nil {
		n.log.Info("leases could not be had: trying again", "call", key.String(), "err", err)
		n.giveBack(heldBy(key, n.cfg.Boot, call.Tool, b), false)
		return found{}
	}
	lock := n.asSeen(ctx, &b, o, call, tool)
	if asksAnew(b, call) {
		b.Operands, b.Preview = n.shows(ctx, o, key, tool)
	}
	b.Findings = append(b.Findings, lock)
	if lock.Ruling == lifecycle.Pass {
		admit, view := n.breaks.admit(ctx, n.gates.circuitOf(tool, o.asked), holder(key, n.cfg.Boot))
		b.Findings, b.Breaker = append(b.Findings, admit), view
		if admit.Ruling == lifecycle.Wait {
			n.giveBack(heldBy(key, n.cfg.Boot, call.Tool, b), false)
			return found{}
		}
	}
	return found{cmd: n.cutShort(b), held: heldBy(key, n.cfg.Boot, call.Tool, b)}
}

// asSeen is the finding of the lock gate once the leases are held: the files are what
// they were when the trace, or a person, saw them last.
func (n *Node) asSeen(ctx context.Context, b *lifecycle.Begin, o owe, call *lifecycle.Call, tool tools.Tool) lifecycle.Finding {
	var err error
	if b.Expect, err = n.expectations(ctx, o, tool, n.workspace(o.turn.Submitted)); err != nil {
		return conflict(err)
	}
	lock := lifecycle.Finding{Gate: lifecycle.GateLock}
	if files, ok := lifecycle.Bound(o.turn, call); ok {
		if err := n.asShown(ctx, o, tool, files); err != nil {
			lock = conflict(err)
		}
		b.Expect = n.expecting(o, tool, b.Expect, files.Base)
	}
	return lock
}

// unregistered denies a call whose tool this node does not have any more.
func (n *Node) unregistered(o owe, call *lifecycle.Call) lifecycle.Command {
	f, _ := n.gates.Static(o.asked)
	return lifecycle.Begin{Call: call.Offset, Verdict: *call.Verdict, Findings: f[:1]}
}

func conflict(err error) lifecycle.Finding {
	f := lifecycle.Finding{Gate: lifecycle.GateLock, Ruling: lifecycle.Deny, Code: events.Conflict, Reason: err.Error()}
	var te *tools.Error
	if errors.As(err, &te) {
		f.Code, f.Reason, f.Path = te.Code, te.Message, te.Path
	}
	return f
}

// expectations are what this trace last saw of the files that the call would
// write, checked against what they are now.
func (n *Node) expectations(ctx context.Context, o owe, tool tools.Tool, workspace string) ([]events.Expectation, error) {
	var out []events.Expectation
	for _, ptr := range tool.Writes {
		given := stringAt(o.asked.Args.JSON, ptr)
		if given == "" {
			continue
		}
		name, err := fs.Resolve(workspace, given)
		if err != nil {
			continue // the tool itself refuses it, with the right words
		}
		seen, ok := lifecycle.SeenIn(o.turn, name)
		if !ok {
			continue
		}
		e := events.Expectation(seen)
		if err := n.unchanged(ctx, workspace, []events.Seen{seen}); err != nil {
			var te *tools.Error
			if errors.As(err, &te) {
				te.Path = ptr
			}
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// unchanged says which of the files is not what it was.
func (n *Node) unchanged(ctx context.Context, workspace string, files []events.Seen) error {
	for _, was := range files {
		now, err := fs.Look(ctx, workspace, was.Path)
		switch {
		case err != nil:
			return &tools.Error{
				Code: events.Conflict, Class: events.ClassConflict, Path: "",
				Message: was.Path + " cannot be read as it was when it was last seen: read it again before you go on",
			}
		case now.Digest != was.Digest || now.Size != was.Size:
			return &tools.Error{
				Code: events.Conflict, Class: events.ClassConflict,
				Message: was.Path + " has changed since it was last seen (it is " + cmp.Or(now.Digest, "gone") + " now): read it again before you go on",
			}
		}
	}
	return nil
}

// stringAt is the string at a JSON Pointer of one or more plain members, or "".
func stringAt(args json.RawMessage, ptr string) string {
	for _, name := range strings.Split(strings.TrimPrefix(ptr, "/"), "/") {
		var m map[string]json.RawMessage
		if json.Unmarshal(args, &m) != nil {
			return ""
		}
		args = m[name]
	}
	var s string
	if json.Unmarshal(args, &s) != nil {
		return ""
	}
	return s
}

// sortedUses are resources in the one order in which everybody takes them, each once:
// a call that wants one both ways would wait for itself where another one shares it.
func sortedUses(uses []events.ResourceUse) []events.ResourceUse {
	out := slices.Clone(uses)
	slices.SortFunc(out, func(a, b events.ResourceUse) int {
		if d := strings.Compare(a.Name, b.Name); d != 0 || a.Exclusive == b.Exclusive {
			return d
		}
		if a.Exclusive {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(out, func(a, b events.ResourceUse) bool { return a.Name == b.Name })
}

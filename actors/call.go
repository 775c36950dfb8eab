package actors

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// callActor moves one call along: it asks the gates, has the hands run what is
// due, and keeps the call's timers. What it learns goes to the turn's actor as
// commands. It holds nothing that outlives it.
type callActor struct {
	n      *Node
	key    events.CallKey
	parent *actor.PID
	self   *actor.PID
	over   *atomic.Bool // the turn is not this node's any more: nothing is begun

	owe     owe
	busy    map[lifecycle.Effect]*errand // what is being found out or waited for
	waiting []lifecycle.Effect           // gates that said: not now
	retry   func()                       // stops the timer that asks them again; nil if there is none
}

func newCallActor(n *Node, key events.CallKey, parent *actor.PID, over *atomic.Bool) *callActor {
	return &callActor{n: n, key: key, parent: parent, over: over, busy: make(map[lifecycle.Effect]*errand)}
}

// Receive is proto.actor's.
func (a *callActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
	case *actor.Stopping:
		a.stop()
	case owe:
		a.owed(m)
	case found:
		a.found(m)
	case timed:
		a.timed(m)
	case again:
		a.owe.heard = max(a.owe.heard, m.heard)
		a.again()
	}
}

// owed starts what is new, and stops what nobody wants any more.
func (a *callActor) owed(m owe) {
	if m.inc != a.owe.inc { // the turn's actor has begun anew: an answer that it had taken may be lost
		maps.DeleteFunc(a.busy, func(e lifecycle.Effect, _ *errand) bool { return e.Do == lifecycle.DoPerform })
	}
	a.owe = m
	for _, e := range orderedBy(a.busy, compareEffects) {
		if !slices.Contains(m.effects, e) {
			a.drop(e)
		}
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(e lifecycle.Effect) bool { return !slices.Contains(m.effects, e) })
	var cmds []lifecycle.Command
	for _, e := range m.effects {
		if a.busy[e] == nil && !slices.Contains(a.waiting, e) {
			if cmd := a.start(e); cmd != nil {
				cmds = append(cmds, cmd)
			}
		}
	}
	a.n.root.Send(a.parent, answer{m.inc, a.key.Offset, cmds})
}

// start pays a debt, or begins to. It returns a command where that is known at once.
func (a *callActor) start(e lifecycle.Effect) lifecycle.Command {
	switch e.Do {
	case lifecycle.DoJudge, lifecycle.DoStart:
		if wait := e.At.Sub(a.n.cfg.Now()); e.Do == lifecycle.DoStart && wait > 0 {
			a.after(e, wait)
			return nil
		}
		return a.gate(e)
	case lifecycle.DoPerform:
		a.perform(e)
	case lifecycle.DoStop:
		a.n.hands.stop(attemptKey{a.key, e.Attempt}, errCancelled)
	case lifecycle.DoProbe:
		a.outside(e, a.probe)
	case lifecycle.DoExpire:
		a.after(e, e.At.Sub(a.n.cfg.Now()))
	}
	return nil
}

// after has an effect come up again in d.
func (a *callActor) after(e lifecycle.Effect, d time.Duration) {
	is, self := &errand{}, a.self
	is.stop = a.n.after(d, func() { a.n.root.Send(self, timed{e, is}) })
	a.busy[e] = is
}

func (a *callActor) timed(m timed) {
	if a.busy[m.effect] != m.is {
		return // not wanted any more
	}
	delete(a.busy, m.effect)
	if wait := m.effect.At.Sub(a.n.cfg.Now()); wait > 0 { // the clock was set back meanwhile
		a.after(m.effect, wait)
		return
	}
	switch m.effect.Do {
	case lifecycle.DoExpire:
		a.n.root.Send(a.parent, act{lifecycle.Expire{Call: a.key.Offset}})
	case lifecycle.DoStart:
		a.send(a.gate(m.effect))
	}
}

func (a *callActor) send(cmd lifecycle.Command) {
	if cmd != nil {
		a.n.root.Send(a.parent, act{cmd})
	}
}

// gate asks the gates of one moment: at once where none of them needs to look
// outside, else on a goroutine.
func (a *callActor) gate(e lifecycle.Effect) lifecycle.Command {
	if cmd, ok := a.n.quick(e, a.owe, a.key); ok {
		return cmd
	}
	a.outside(e, func(ctx context.Context, o owe) found {
		if e.Do == lifecycle.DoJudge {
			return a.n.judge(ctx, e, o, a.key)
		}
		return a.n.begin(ctx, e, o, a.key)
	})
	return nil
}

// outside runs fn on a goroutine; its answer comes back as a message.
func (a *callActor) outside(e lifecycle.Effect, fn func(context.Context, owe) found) {
	ctx, cancel := context.WithCancel(a.n.ctx)
	is := &errand{stop: cancel}
	a.busy[e] = is
	n, o, self := a.n, a.owe, a.self
	n.do(func() {
		var f found
		f.broke = guarded(func() { f = fn(ctx, o) })
		f.effect, f.is = e, is
		if is.answer(f.held) {
			n.root.Send(self, f)
		} else {
			n.giveBack(f.held, is.running)
		}
	})
}

func (a *callActor) found(m found) {
	if a.busy[m.effect] != m.is {
		return // not wanted any more: the call went another way meanwhile
	}
	m.is.stop()
	delete(a.busy, m.effect)
	if m.broke != nil {
		panic(m.broke)
	}
	switch {
	case m.cmd != nil:
		a.send(m.cmd)
		return
	case m.is.anew: // what it found may be older than the word that things have changed
		a.send(a.gate(m.effect))
		return
	}
	a.waiting = append(a.waiting, m.effect)
	if m.key {
		a.n.root.Send(a.parent, keyHeld{a.owe.inc, a.key.Offset, a.owe.heard})
	}
	if a.retry == nil {
		heard := a.owe.heard
		a.retry = a.n.after(retryWait, func() { a.n.root.Send(a.self, again{heard}) })
	}
}

// retryWait is the backstop of a gate that said: not now.
const retryWait = 2 * time.Second

func (a *callActor) again() {
	if a.retry != nil {
		a.retry()
		a.retry = nil
	}
	for _, is := range a.busy {
		is.anew = true
	}
	waiting := a.waiting
	a.waiting = nil
	for _, e := range waiting {
		a.send(a.gate(e))
	}
}

// perform has the hands run the attempt, or attaches to it where it runs.
func (a *callActor) perform(e lifecycle.Effect) {
	a.busy[e] = &errand{stop: func() {}}
	call, o, parent, n := a.owe.turn.Calls[a.key.Offset], a.owe, a.parent, a.n
	tool, known := n.cfg.Registry.Lookup(call.Tool)
	switch {
	case !known: // it was there when the call was let through
		a.send(missing(call, events.UnknownTool, "this node does not have the tool "+call.Tool+" any more"))
		return
	case o.asked.Args.Hash != call.Started.Hash:
		a.send(missing(call, events.InternalError, "its arguments are not the ones that it was let through with"))
		return
	}
	key := attemptKey{a.key, e.Attempt}
	owner := o.turn.Owner
	n.hands.perform(key, a.over, job{
		tool: tool, call: call, asked: o.agreedTo(call), in: n.invocation(o, call, a.key), max: o.turn.Submitted.Limits.CallBytes,
		note: func(p events.Progress) { n.root.Send(parent, act{lifecycle.Tell{Call: a.key.Offset, Progress: p}}) },
		late: func(s lifecycle.Settle) { n.late(a.key, owner, s) },
		end: func(c events.Class) {
			n.breaks.report(call, holder(a.key, owner.Boot), lifecycle.Evidence(o.turn, call, c))
		},
	}, func(s lifecycle.Settle) { n.root.Send(parent, act{s}) })
}

// missing is the answer of an attempt for which this node lacks something.
func missing(call *lifecycle.Call, code events.Code, what string) lifecycle.Settle {
	return lifecycle.Settle{
		Call: call.Offset, Attempt: call.Attempt, Class: events.ClassUnavailable, Effects: events.EffectsNone, Confirmed: true,
		Result: events.Result{Status: events.Failure, Error: &events.Error{
			Code: code, Message: what + ": it was not run",
		}},
	}
}

// invocation is the attempt as its tool sees it.
func (n *Node) invocation(o owe, call *lifecycle.Call, key events.CallKey) tools.Invocation {
	return tools.Invocation{
		Call: key, Attempt: call.Attempt, Tool: call.Tool, Args: o.asked.Args.JSON, Key: call.Started.Key,
		Workspace: n.workspace(o.turn.Submitted), Mode: o.turn.Submitted.Mode, Network: n.cfg.Network,
		Deadline: call.Started.Deadline, Expect: call.Started.Expect, Locks: call.Started.Locks,
		Fence: n.fence(key, call.Started.Locks), May: n.gates.May(o.agreedTo(call)), Closed: n.cfg.Closed, Context: o.turn.Planned.Context, Progress: func(events.Progress) {},
		Traceparent: n.traceparent(o.turn, call),
	}
}

// traceparent is what an attempt hands on: its own span, which whoever reads the log can
// tell, too, or what the caller gave where nobody exports spans.
func (n *Node) traceparent(t lifecycle.Turn, call *lifecycle.Call) string {
	if !n.cfg.Traced {
		c, _ := events.ParseTraceparent(t.Submitted.Traceparent)
		return c.String()
	}
	ids := events.SpansOf(t.Key, t.SubmittedAt, t.Submitted.Traceparent)
	return ids.Context(ids.Attempt(call.Offset, call.Attempt, call.Started.Owner)).String()
}

func (n *Node) workspace(s *events.TurnSubmitted) string {
	if s.Workspace != "" {
		return s.Workspace
	}
	return n.cfg.Workspace
}

// probePause is how long a probe waits that is made again.
const probePause = time.Second

// probe asks the tool what became of an attempt whose owner was lost. Where nobody can be
// asked it is tried again for a while: a worker that went with the node comes back with it,
// a moment later, and what is unknown now stays so.
func (a *callActor) probe(ctx context.Context, o owe) found {
	for began := a.n.cfg.Steady(); ; {
		cmd := a.probeOnce(ctx, o)
		if !cmd.Failed || o.asked.Fault != nil || a.n.cfg.Steady().Sub(began) >= a.n.cfg.Probing || !a.n.pause(ctx, probePause) {
			return found{cmd: cmd}
		}
	}
}

func (a *callActor) probeOnce(ctx context.Context, o owe) lifecycle.Probed {
	call := o.turn.Calls[a.key.Offset]
	cmd := lifecycle.Probed{Call: a.key.Offset, Attempt: call.Attempt, Failed: true}
	tool, known := a.n.cfg.Registry.Lookup(call.Tool)
	switch {
	case !known:
		cmd.Why = "the node that took it over has no such tool, so that nobody could ask it whether the effect happened"
		return cmd
	case tool.Probe == nil:
		cmd.Why = "the tool as it is now cannot say whether the effect happened"
		return cmd
	case o.asked.Fault != nil:
		cmd.Why = "its arguments are not in the store any more, so that nobody could ask the tool whether the effect happened"
		return cmd
	}
	j := job{tool: tool, call: call, asked: o.asked, in: a.n.invocation(o, call, a.key), max: o.turn.Submitted.Limits.CallBytes}
	f, ok := a.n.hands.ask(ctx, a.key, j)
	switch {
	case !ok:
		cmd.Why = "the tool was asked whether the effect happened, and could not say"
	case f.Found:
		cmd.Failed, cmd.Found, cmd.Result = false, true, f.Result
	default:
		cmd.Failed = false
	}
	return cmd
}

// stop ends what only this actor waits for. What the hands run goes on.
func (a *callActor) stop() {
	for _, e := range orderedBy(a.busy, compareEffects) {
		a.drop(e)
	}
	if a.retry != nil {
		a.retry()
	}
}

func holder(key events.CallKey, boot string) string { return key.String() + " " + boot }

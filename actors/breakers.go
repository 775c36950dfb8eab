package actors

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// breakers are all circuit breakers: one actor a tool, which changes the cluster's cells
// of its circuits, and a view of all cells that a watch keeps fresh.
type breakers struct {
	n    *Node
	mu   sync.RWMutex
	view map[lifecycle.Circuit]seenBreaker
	live bool // the watch has told all that there was
	pids map[string]*actor.PID

	// telling are the probes whose report is under way: what they hold is given back by
	// that report, and by nothing else, or their evidence would be lost.
	telling map[string]bool
}

func newBreakers(n *Node) *breakers {
	return &breakers{n: n, view: make(map[lifecycle.Circuit]seenBreaker), pids: make(map[string]*actor.PID), telling: make(map[string]bool)}
}

// peek is the finding of the gate that changes nothing.
func (b *breakers) peek(c lifecycle.Circuit) lifecycle.Finding {
	f := lifecycle.Finding{Gate: lifecycle.GatePeek}
	now := b.n.cfg.Steady()
	if own := b.get(c.Own()); c.Of != "" && own.Blocks(b.n.cfg.Breaker, now) {
		open(&f, c.Own(), own)
	} else if v := b.get(c); !v.Peek(b.n.cfg.Breaker, now) {
		open(&f, c, v)
	}
	return f
}

// open denies a call, with a sentence for the model.
func open(f *lifecycle.Finding, c lifecycle.Circuit, is lifecycle.Breaker) {
	f.Ruling, f.Code, f.Circuit = lifecycle.Deny, events.CircuitOpen, c.Of
	what, then := "the tool "+c.Tool, "use something else, or try again later"
	if c.Of != "" {
		what, then = c.Of, "use something else, or try again later; "+c.Tool+" still reaches others"
	}
	if is.By == "" {
		f.Reason = what + " has failed several times in a row and is not tried for a while: " + then
		return
	}
	f.Reason = what + " was switched off by an operator for a while: " + then
	if is.Reason != "" {
		f.Reason += "; they say: " + is.Reason
	}
}

// admit is the last gate: in half_open it makes the call the cluster's one probe.
// Where the cell cannot be changed nobody knows who that is: the call must wait.
func (b *breakers) admit(ctx context.Context, c lifecycle.Circuit, who string) (lifecycle.Finding, events.BreakerView) {
	f := lifecycle.Finding{Gate: lifecycle.GateAdmit}
	view := events.BreakerView{State: string(lifecycle.BreakerClosed), Circuit: c.Of}
	if b.closed(c) {
		return f, view
	}
	if c.Of != "" {
		own, kept := b.change(ctx, c.Own(), func(v lifecycle.Breaker, now time.Time) lifecycle.Breaker { return v.Lapse(b.n.cfg.Breaker, now) })
		switch {
		case !kept:
			f.Ruling = lifecycle.Wait
			return f, view
		case own.is.Blocks(b.n.cfg.Breaker, b.n.cfg.Steady()):
			open(&f, c.Own(), own.is)
			return f, view
		}
	}
	now, kept := b.change(ctx, c, func(v lifecycle.Breaker, now time.Time) lifecycle.Breaker {
		next, _ := v.Admit(b.n.cfg.Breaker, now, who)
		return next
	})
	switch {
	case !kept:
		f.Ruling = lifecycle.Wait
	case now.is.OpenedAt.IsZero():
	case now.is.Probe == who && now.is.State(b.n.cfg.Breaker, b.n.cfg.Steady()) == lifecycle.BreakerHalfOpen:
		view.State, view.Revision, view.Probe = string(lifecycle.BreakerHalfOpen), now.rev, true
	default:
		open(&f, c, now.is)
	}
	return f, view
}

// admitted is the circuit that an attempt was let through by.
func admitted(call *lifecycle.Call) lifecycle.Circuit {
	return lifecycle.Circuit{Tool: call.Tool, Of: call.Started.Breaker.Circuit}
}

// report tells the breaker how an attempt has ended.
func (b *breakers) report(call *lifecycle.Call, who string, class events.Class) {
	c, probe := admitted(call), call.Started.Breaker.Probe
	v := b.get(c)
	if !probe && v.Report(b.n.cfg.Breaker, b.n.cfg.Steady(), who, class) == v {
		return // most of the time: closed, and well
	}
	b.mark(who, probe)
	b.n.do(func() {
		b.tell(c, who, class, probe)
		b.mark(who, false)
	})
}

// mark says whether a probe's report is under way.
func (b *breakers) mark(who string, telling bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if telling {
		b.telling[who] = true
	} else {
		delete(b.telling, who)
	}
}

// tell changes the cell by a report. A probe's is tried again where the cell cannot
// be had: it would hold the slot until its lease ends. Others' are one of many.
func (b *breakers) tell(c lifecycle.Circuit, who string, class events.Class, probe bool) {
	for try := range probeTries {
		_, kept := b.change(b.n.ctx, c, func(v lifecycle.Breaker, now time.Time) lifecycle.Breaker {
			if try > 0 && v.Probe != who {
				return v // an earlier try was kept, and its answer lost: one failure counts once
			}
			return v.Report(b.n.cfg.Breaker, now, who, class)
		})
		if kept || !probe || !b.n.pause(b.n.ctx, backOff/4) {
			return
		}
	}
}

// probeTries bounds how often a probe's report is tried.
const probeTries = 8

// spare frees the probe of a call that ended without evidence. Where evidence is on its
// way it does nothing: the call's end, which asks for this, is quicker than the cell.
func (b *breakers) spare(c lifecycle.Circuit, who string) {
	b.mu.RLock()
	telling := b.telling[who]
	b.mu.RUnlock()
	if !telling {
		b.tell(c, who, events.ClassCancelled, true)
	}
}

// alter is what a breaker's actor is asked: change the cell, and say what it is then.
type alter struct {
	ctx  context.Context
	of   lifecycle.Circuit
	how  func(lifecycle.Breaker, time.Time) lifecycle.Breaker
	done *promise[altered]
}

type altered struct {
	rev  uint64
	is   lifecycle.Breaker
	kept bool // the cell says so: false where it could not be read or written
}

// change has the tool's actor change a circuit's cell, and returns what it is then. kept
// is false where the cluster could not be asked.
func (b *breakers) change(ctx context.Context, c lifecycle.Circuit, how func(lifecycle.Breaker, time.Time) lifecycle.Breaker) (is altered, kept bool) {
	m := alter{ctx: ctx, of: c, how: how, done: newPromise[altered]()}
	b.n.root.Send(b.actor(c.Tool), m)
	if b.n.cfg.Scheduler.Wait(0, m.done.done, ctx.Done()) != 0 {
		return altered{}, false
	}
	return m.done.is, m.done.is.kept
}

func (b *breakers) actor(tool string) *actor.PID {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pid := b.pids[tool]; pid != nil {
		return pid
	}
	b.n.shared.add()
	pid := b.n.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &breakerActor{b: b} }, actor.WithDispatcher(dispatcher{b.n.cfg.Scheduler})))
	b.pids[tool] = pid
	return pid
}

// stop ends the actors. Node.shared says when they have ended.
func (b *breakers) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tool := range ordered(b.pids) {
		b.n.root.Stop(b.pids[tool])
	}
}

// breakerActor changes the cells of one tool's circuits, one change at a time on this
// node: an actor for each would be as many as there are names.
type breakerActor struct{ b *breakers }

// Receive is proto.actor's.
func (a *breakerActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Stopped:
		a.b.n.shared.done()
	case alter:
		m.done.keep(a.alter(m))
	}
}

func (a *breakerActor) alter(m alter) altered {
	n, key := a.b.n, BreakerCell(m.of)
	for m.ctx.Err() == nil {
		cell, err := n.cfg.Bus.Cells().Get(m.ctx, bus.BucketBreaker, key)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			break
		}
		var was lifecycle.Breaker
		if len(cell.Value) > 0 && json.Unmarshal(cell.Value, &was) != nil {
			was = lifecycle.Breaker{}
		}
		seen, now := a.b.see(m.of, cell.Revision, was), n.cfg.Steady().UTC()
		next := m.how(seen.Local(), now)
		if next == seen.Local() || cell.Revision == 0 && a.b.full(m.of) {
			return altered{seen.rev, seen.Local(), true}
		}
		shared := seen.Shared(next, n.cfg.Now().UTC())
		value, err := json.Marshal(shared)
		if err != nil {
			break
		}
		rev, err := n.cfg.Bus.Cells().Put(m.ctx, bus.BucketBreaker, key, value, cell.Revision, m.of.Keeps(next, n.cfg.Breaker, now))
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		if err != nil {
			break
		}
		return altered{rev, a.b.see(m.of, rev, shared).Local(), true}
	}
	n.log.Warn("the breaker's cell could not be changed", "tool", m.of.Tool, "circuit", m.of.Of)
	return altered{}
}

// OpenTools are the tools whose own breaker is open now, as the cells say. They
// belong in no tool list; a tool of which only endpoints have failed does.
func OpenTools(ctx context.Context, cells bus.Cells, cfg lifecycle.BreakerConfig, now time.Time, tools []string) (map[string]bool, error) {
	out := make(map[string]bool)
	for _, tool := range tools {
		cell, err := cells.Get(ctx, bus.BucketBreaker, BreakerCell(lifecycle.Circuit{Tool: tool}))
		if errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var v lifecycle.Breaker
		if json.Unmarshal(cell.Value, &v) == nil && v.State(cfg, now) == lifecycle.BreakerOpen {
			out[tool] = true
		}
	}
	return out, nil
}

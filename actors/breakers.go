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

// breakers are the circuit breakers of all tools: one actor a tool, which
// changes the cluster's cell, and a view of all cells that a watch keeps fresh.
type breakers struct {
	n    *Node
	mu   sync.RWMutex
	view map[string]seenBreaker
	live bool // the watch has told all that there was
	pids map[string]*actor.PID

	// telling are the probes whose report is under way: what they hold is given back by
	// that report, and by nothing else, or their evidence would be lost.
	telling map[string]bool
}

func newBreakers(n *Node) *breakers {
	return &breakers{n: n, view: make(map[string]seenBreaker), pids: make(map[string]*actor.PID), telling: make(map[string]bool)}
}

// BreakerCell is the name of a tool's cell in bus.BucketBreaker; its value is a
// lifecycle.Breaker as JSON.
func BreakerCell(tool string) string { return bus.Token(tool) }

func (b *breakers) start() { b.n.do(b.watch) }

// watch keeps the view fresh. Before it has seen the cells, breakers count as closed.
func (b *breakers) watch() {
	for b.n.ctx.Err() == nil {
		b.listed(false) // what comes first has happened before
		err := b.n.cfg.Bus.Cells().Watch(b.n.ctx, bus.BucketBreaker, "", func(c bus.Cell) error {
			if c.Key == "" {
				b.listed(true)
				return nil
			}
			tool, err := bus.ParseToken(c.Key)
			if err != nil {
				return nil // not one of ours
			}
			var v lifecycle.Breaker
			if len(c.Value) > 0 && json.Unmarshal(c.Value, &v) != nil {
				return nil
			}
			b.see(tool, c.Revision, v)
			return nil
		})
		if b.n.ctx.Err() == nil {
			b.n.log.Warn("the breakers cannot be watched: trying again", "err", err)
			b.n.pause(b.n.ctx, backOff)
		}
	}
}

// see takes a newer view of a cell; an older one, which a watch may bring late,
// changes nothing.
func (b *breakers) see(tool string, rev uint64, is lifecycle.Breaker) seenBreaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.view[tool]
	if rev < was.rev {
		return was
	}
	now := seenBreaker{rev, is.Sight(b.n.cfg.Breaker, b.n.cfg.Steady().UTC(), b.n.cfg.Now().UTC(), was.BreakerSight, b.live)}
	b.view[tool] = now
	return now
}

// listed says whether the watch has told all cells, so that what it tells is new.
func (b *breakers) listed(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = all
}

// seenBreaker is a breaker as this node sees it, at a revision of its cell.
type seenBreaker struct {
	rev uint64
	lifecycle.BreakerSight
}

func (b *breakers) get(tool string) lifecycle.Breaker {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.view[tool].Local()
}

// closed says that calls of the tool may start without asking the cluster: a node
// whose watch has not told all cells yet does not know.
func (b *breakers) closed(tool string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.live && b.view[tool].Local().State(b.n.cfg.Breaker, b.n.cfg.Steady()) == lifecycle.BreakerClosed
}

// peek is the finding of the gate that changes nothing.
func (b *breakers) peek(tool string) lifecycle.Finding {
	f := lifecycle.Finding{Gate: lifecycle.GatePeek}
	if v := b.get(tool); !v.Peek(b.n.cfg.Breaker, b.n.cfg.Steady()) {
		open(&f, tool, v)
	}
	return f
}

func open(f *lifecycle.Finding, tool string, is lifecycle.Breaker) {
	f.Ruling, f.Code = lifecycle.Deny, events.CircuitOpen
	f.Reason = "the tool " + tool + " has failed several times in a row and is not tried for a while: use something else, or try again later"
	if is.By == "" {
		return
	}
	f.Reason = "the tool " + tool + " was switched off by an operator for a while: use something else, or try again later"
	if is.Reason != "" {
		f.Reason += "; they say: " + is.Reason
	}
}

// admit is the last gate: in half_open it makes the call the cluster's one probe.
// Where the cell cannot be changed nobody knows who that is: the call must wait.
func (b *breakers) admit(ctx context.Context, tool, who string) (lifecycle.Finding, events.BreakerView) {
	f := lifecycle.Finding{Gate: lifecycle.GateAdmit}
	view := events.BreakerView{State: string(lifecycle.BreakerClosed)}
	if b.closed(tool) {
		return f, view
	}
	now, kept := b.change(ctx, tool, func(v lifecycle.Breaker, now time.Time) lifecycle.Breaker {
		next, _ := v.Admit(b.n.cfg.Breaker, now, who)
		return next
	})
	switch {
	case !kept:
		f.Ruling = lifecycle.Wait
	case now.is.OpenedAt.IsZero():
	case now.is.Probe == who && now.is.State(b.n.cfg.Breaker, b.n.cfg.Steady()) == lifecycle.BreakerHalfOpen:
		view = events.BreakerView{State: string(lifecycle.BreakerHalfOpen), Revision: now.rev, Probe: true}
	default:
		open(&f, tool, now.is)
	}
	return f, view
}

// report tells the breaker how an attempt has ended.
func (b *breakers) report(call *lifecycle.Call, who string, class events.Class) {
	v := b.get(call.Tool)
	probe := call.Started != nil && call.Started.Breaker.Probe
	if !probe && v.Report(b.n.cfg.Breaker, b.n.cfg.Steady(), who, class) == v {
		return // most of the time: closed, and well
	}
	b.mark(who, probe)
	b.n.do(func() {
		b.tell(call.Tool, who, class, probe)
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
func (b *breakers) tell(tool, who string, class events.Class, probe bool) {
	for range probeTries {
		_, kept := b.change(b.n.ctx, tool, func(v lifecycle.Breaker, now time.Time) lifecycle.Breaker {
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
func (b *breakers) spare(tool, who string) {
	b.mu.RLock()
	telling := b.telling[who]
	b.mu.RUnlock()
	if !telling {
		b.tell(tool, who, events.ClassCancelled, true)
	}
}

// alter is what a breaker's actor is asked: change the cell, and say what it is then.
type alter struct {
	ctx  context.Context
	how  func(lifecycle.Breaker, time.Time) lifecycle.Breaker
	done *promise[altered]
}

type altered struct {
	rev  uint64
	is   lifecycle.Breaker
	kept bool // the cell says so: false where it could not be read or written
}

// change has the tool's actor change the cell, and returns what it is then. kept
// is false where the cluster could not be asked.
func (b *breakers) change(ctx context.Context, tool string, how func(lifecycle.Breaker, time.Time) lifecycle.Breaker) (is altered, kept bool) {
	m := alter{ctx: ctx, how: how, done: newPromise[altered]()}
	b.n.root.Send(b.actor(tool), m)
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
	pid := b.n.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &breakerActor{b: b, tool: tool} }, actor.WithDispatcher(dispatcher{b.n.cfg.Scheduler})))
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

// breakerActor changes one tool's cell, one change at a time on this node.
type breakerActor struct {
	b    *breakers
	tool string
}

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
	n := a.b.n
	for m.ctx.Err() == nil {
		cell, err := n.cfg.Bus.Cells().Get(m.ctx, bus.BucketBreaker, BreakerCell(a.tool))
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			break
		}
		var was lifecycle.Breaker
		if len(cell.Value) > 0 && json.Unmarshal(cell.Value, &was) != nil {
			was = lifecycle.Breaker{}
		}
		seen := a.b.see(a.tool, cell.Revision, was)
		next := m.how(seen.Local(), n.cfg.Steady().UTC())
		if next == seen.Local() {
			return altered{seen.rev, next, true}
		}
		shared := seen.Shared(next, n.cfg.Now().UTC())
		value, err := json.Marshal(shared)
		if err != nil {
			break
		}
		rev, err := n.cfg.Bus.Cells().Put(m.ctx, bus.BucketBreaker, BreakerCell(a.tool), value, cell.Revision, 0)
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		if err != nil {
			break
		}
		return altered{rev, a.b.see(a.tool, rev, shared).Local(), true}
	}
	n.log.Warn("the breaker's cell could not be changed", "tool", a.tool)
	return altered{}
}

// OpenTools are the tools whose breaker is open now, as the cells say. They
// belong in no tool list.
func OpenTools(ctx context.Context, cells bus.Cells, cfg lifecycle.BreakerConfig, now time.Time, tools []string) (map[string]bool, error) {
	out := make(map[string]bool)
	for _, tool := range tools {
		cell, err := cells.Get(ctx, bus.BucketBreaker, BreakerCell(tool))
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

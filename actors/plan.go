package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools/fs"
)

// plan looks up what planning needs. true means that it is under way, and that the
// claim may wait for it to share its commit.
func (a *turnActor) plan(c actor.Context) bool {
	if a.planing {
		return !a.failing
	}
	doPlan := lifecycle.Effect{Do: lifecycle.DoPlan, Call: events.TurnEvent}
	if !slices.Contains(a.specDue(), doPlan) || a.drain {
		return false
	}
	sub := a.spec.Submitted
	if !needsLookup(a.n, sub) {
		p, _ := a.n.prepare(a.n.ctx, a.key, sub, false)
		a.asked = p.asked
		a.command(p.plan)
		return false
	}
	a.planing = true
	n, inc, key, self := a.n, a.inc, a.key, a.self
	n.do(func() {
		m := planned{inc: inc}
		m.broke = guarded(func() { m.prepared, m.err = n.prepare(n.ctx, key, sub, true) })
		n.root.Send(self, m)
	})
	return true
}

// needsLookup says whether planning must read: arguments by reference, or what
// the trace leaves to calls that may write or ask.
func needsLookup(n *Node, s *events.TurnSubmitted) bool {
	return slices.ContainsFunc(s.Calls, func(raw events.RawCall) bool {
		t, known := n.cfg.Registry.Lookup(raw.Tool)
		return raw.Args.Ref != nil || known && (t.Tier != events.Readonly || t.TierOf != nil || len(t.Writes) > 0)
	})
}

type prepared struct {
	plan  lifecycle.Plan
	asked []*Asked
}

// prepare reads and parses what planning needs.
func (n *Node) prepare(ctx context.Context, key events.TurnKey, s *events.TurnSubmitted, inherit bool) (prepared, error) {
	p := prepared{plan: lifecycle.Plan{Policy: n.cfg.Authorizer.Version()}}
	for i := range s.Calls {
		asked, err := n.read(ctx, key, s, i, s.Calls[i].Args)
		if err != nil {
			return p, err
		}
		p.asked = append(p.asked, asked)
		p.plan.Facts = append(p.plan.Facts, n.gates.facts(asked))
	}
	if !inherit {
		return p, nil
	}
	paths, approvals := n.concerns(p.asked)
	var err error
	p.plan.Inherited, p.plan.Context, err = n.inherited(ctx, key, s, paths, approvals)
	return p, err
}

// concerns are the files that calls would write, and the approvals that would
// let them through.
func (n *Node) concerns(all []*Asked) (paths, approvals []string) {
	for _, a := range all {
		approvals = append(approvals, lifecycle.SessionApproval(a.Tool, a.Args.Hash))
		tool, _ := n.cfg.Registry.Lookup(a.Tool)
		for _, ptr := range tool.Writes {
			if name, err := fs.Resolve(n.workspace(a.Turn), stringAt(a.Args.JSON, ptr)); err == nil {
				paths = append(paths, name)
			}
		}
	}
	return paths, approvals
}

// read is a call as the gates see it. Arguments that are not in the store any more
// are a fault of the call's; an error says that the store could not be asked.
func (n *Node) read(ctx context.Context, key events.TurnKey, s *events.TurnSubmitted, i int, args events.Body) (*Asked, error) {
	a := &Asked{Tool: s.Calls[i].Tool, Raw: &s.Calls[i], Turn: s, Key: key}
	text := args.Text
	if args.Ref != nil {
		data, err := n.cfg.Bus.Blobs().Get(ctx, *args.Ref)
		switch {
		case errors.Is(err, bus.ErrNotFound):
			a.Fault = fmt.Errorf("the arguments (%s) are not in the store any more", args.Ref.Digest)
			return a, nil
		case err != nil:
			return nil, fmt.Errorf("the arguments of call %d: %w", i, err)
		}
		text = string(data)
	}
	a.Args, a.Fault = lifecycle.Parse(text)
	if tool, known := n.cfg.Registry.Lookup(a.Tool); known {
		n.gates.learn(tool, a) // BEFORE others see it: they only read
	}
	return a, nil
}

// planned takes what was looked up. While it cannot be had the claim is committed
// and the turn can be cancelled.
func (a *turnActor) planned(c actor.Context, m planned) {
	switch {
	case m.inc != a.inc:
		return
	case m.broke != nil:
		panic(m.broke)
	case m.err != nil:
		a.n.log.Warn("the turn cannot be planned now: trying again", "turn", a.key.String(), "err", m.err)
		a.failing = true
		a.soon(lifecycle.Effect{Do: lifecycle.DoPlan, Call: events.TurnEvent})
		a.pump(c)
		return
	}
	a.planing, a.asked = false, m.asked
	a.command(m.plan)
	a.pump(c)
}

// soon has an effect of the turn's own come up again after a while.
func (a *turnActor) soon(e lifecycle.Effect) {
	n, inc, self := a.n, a.inc, a.self
	n.after(backOff, func() { n.root.Send(self, due{inc: inc, effect: e}) })
}

// haveArgs says whether the arguments of every open call are at hand, also those
// that a person has changed, and sees to it that they will be. Without them nothing
// is told to the calls: it would be about other arguments than were agreed to.
func (a *turnActor) haveArgs() bool {
	if a.spec.Planned == nil {
		return true // no call owes anything yet
	}
	if a.asked == nil {
		a.asked = make([]*Asked, len(a.spec.Calls))
	}
	missing := make(map[int]events.Body)
	for i, call := range a.spec.Calls {
		have := a.asked[i]
		switch {
		case !call.Open() || call.Phase == lifecycle.PhaseNone:
		case have != nil && (have.Args.Hash == call.Hash || have.hash == call.Hash):
		case call.Args.Ref != nil:
			missing[i] = call.Args
		default:
			a.asked[i], _ = a.n.read(a.n.ctx, a.key, a.spec.Submitted, i, call.Args)
			a.asked[i].hash = call.Hash
		}
	}
	if len(missing) > 0 && !a.reading {
		a.fetch(missing)
	}
	return len(missing) == 0
}

// fetch reads arguments until they are there.
func (a *turnActor) fetch(missing map[int]events.Body) {
	a.reading = true
	n, inc, self, key, s := a.n, a.inc, a.self, a.key, a.spec.Submitted
	hashes := make(map[int]string)
	for i := range missing {
		hashes[i] = a.spec.Calls[i].Hash
	}
	n.do(func() {
		got := make(map[int]*Asked)
		for _, i := range ordered(missing) {
			for wait := 50 * time.Millisecond; got[i] == nil; wait = min(2*wait, 5*time.Second) {
				asked, err := n.read(n.ctx, key, s, i, missing[i])
				if err == nil {
					asked.hash = hashes[i]
					got[i] = asked
				} else if !n.pause(n.ctx, wait) {
					return
				}
			}
		}
		n.root.Send(self, fetched{inc, got})
	})
}

// fetched takes arguments that were read.
func (a *turnActor) fetched(c actor.Context, m fetched) {
	if m.inc != a.inc {
		return
	}
	a.reading = false
	for i, asked := range m.asked {
		a.asked[i] = asked
	}
	a.pump(c)
}

package actors

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// maxPanics is how often a turn's actor may panic before the turn is declared
// stuck, in the log.
const maxPanics = 5

// guarded runs a step and returns what it panicked with, and where. It is the
// actors' only recover: a goroutine that breaks takes the whole process with it,
// so what an actor waits for is guarded too, and the actor breaks in its stead.
func guarded(step func()) (broke any) {
	defer func() {
		if p := recover(); p != nil {
			broke = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	step()
	return nil
}

// boundary handles an actor's panic, which is a bug: it is logged with its stack
// and counted, and the actor begins a new incarnation from the log after a
// growing pause. One that keeps panicking abandons its turn, so that every call
// has an answer and the next node does not meet the same fate.
func (a *turnActor) boundary(c actor.Context, p any) {
	a.panics++
	a.n.cfg.Seen.Count("actor_panics", 1)
	a.n.log.Error("a turn's actor panicked", "turn", a.key.String(), "panic", p, "times", a.panics)
	if _, stopping := c.Message().(*actor.Stopped); stopping {
		a.n.unseat(a.key, a.heard, a.state.Ended != nil)
		return
	}
	a.inc = incarnations.Add(1)
	a.undecide()
	a.answers, a.behind = nil, nil
	a.open, a.ask, a.waits, a.flight, a.parking, a.ending = 0, false, false, false, false, false
	a.planing, a.failing, a.reading = false, false, false
	if a.timer != nil { // it would speak to the last incarnation
		a.timer()
		a.timer = nil
	}
	if a.patient != nil {
		a.patient()
		a.patient = nil
	}
	clear(a.keys)
	clear(a.owed)
	if a.panics > maxPanics {
		a.stuck(c)
		return
	}
	inc, self := a.inc, c.Self()
	a.n.after(100*time.Millisecond<<a.panics, func() { a.n.root.Send(self, reopen{inc}) })
}

// undecide drops what was decided on top of the log, with the state that it had led to:
// an answer that comes before the log was read must not be numbered behind it. What was
// taken for a start is given back, unless the log may have that start.
func (a *turnActor) undecide() {
	a.spec, a.specOld, a.stateOld = a.state, true, true
	for _, b := range begins(a.cmds) {
		a.unstarted(b, nil)
	}
	for _, b := range begins(a.flown) { // nobody knows yet whether the log has it
		a.doubt = append(a.doubt, b)
	}
	a.pend, a.cmds, a.flown = nil, nil, nil
}

// begins are the starts among commands: what was taken for them has to be given back
// where they do not come about.
func begins(cmds []lifecycle.Command) []lifecycle.Begin {
	var out []lifecycle.Begin
	for _, cmd := range cmds {
		if b, ok := cmd.(lifecycle.Begin); ok {
			out = append(out, b)
		}
	}
	return out
}

// terminated hears that a call's actor has gone. One that nobody has stopped has
// panicked: it owes answers that nobody else will give.
func (a *turnActor) terminated(m *actor.Terminated) {
	for i, pid := range a.calls {
		if pid.Equal(m.Who) {
			delete(a.calls, i)
			panic(fmt.Sprintf("the actor of call %d has panicked", i))
		}
	}
}

// stuck abandons the turn without this actor's help.
func (a *turnActor) stuck(c actor.Context) {
	a.lost = true
	n, key, d := a.n, a.key, a.n.delivery(a.key)
	owner, seen := cmp.Or(a.owner, a.was), a.state.Owner
	a.orphan(owner)
	n.do(func() {
		_, err := n.appendDecided(n.ctx, key, func(t lifecycle.Turn, now time.Time) ([]events.Record, events.Owner, error) {
			return n.abandoning(t, now, owner, seen, d)
		})
		if err != nil {
			n.log.Error("a stuck turn could not be abandoned", "turn", key.String(), "err", err)
			return
		}
		if err := n.cfg.Bus.Barrier().Wait(n.ctx); err == nil && d != nil {
			n.ack(d)
		}
	})
	c.Stop(c.Self())
}

// abandoning decides the end of a stuck turn: as its owner, or, where the actor has
// failed before its claim was in the log, with that claim. seen is the owner whose
// turn it was then.
func (n *Node) abandoning(t lifecycle.Turn, now time.Time, owner, seen events.Owner, d bus.Delivery) (recs []events.Record, by events.Owner, err error) {
	by = owner
	if t.Owner != owner && t.Owner == seen && d != nil {
		by = events.Owner{Boot: n.cfg.Boot, Epoch: t.Owner.Epoch + 1}
		recs, err = lifecycle.Decide(t, lifecycle.Env{Now: now}, lifecycle.Claim{Boot: n.cfg.Boot, Node: n.cfg.Name, Reply: d.Reply()})
		if err != nil {
			return nil, by, err
		}
		for _, r := range recs {
			t = lifecycle.Evolve(t, lifecycle.Meta{At: now, By: by}, r)
		}
	}
	if t.Ended != nil {
		return recs, by, nil
	}
	more, err := lifecycle.Decide(t, lifecycle.Env{Now: now, Owner: by}, lifecycle.Abandon{Reason: "the node's actor failed each time it ran this turn"})
	return append(recs, more...), by, err
}

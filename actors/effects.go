package actors

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// deliberate says whether an effect only finds out what to decide next: it may
// run on what is decided and not yet in the log. Everything else waits for the log.
func deliberate(e lifecycle.Effect) bool {
	return e.Do == lifecycle.DoPlan || e.Do == lifecycle.DoJudge || e.Do == lifecycle.DoStart
}

// specDue and stateDue are what is due on top of what was decided, and on what
// is in the log. They are worked out once for each change. A turn's debts are its
// owner's: none of another owner's is paid, and none before the claim is in the log.
func (a *turnActor) specDue() []lifecycle.Effect {
	if a.owner.Boot == "" || a.spec.Owner != a.owner {
		return nil
	}
	if a.specOld {
		a.dueOfSpec, a.specOld = lifecycle.Due(a.spec), false
	}
	return a.dueOfSpec
}

func (a *turnActor) stateDue() []lifecycle.Effect {
	if a.owner.Boot == "" || a.state.Owner != a.owner {
		return nil
	}
	if a.stateOld {
		a.dueOfState, a.stateOld = lifecycle.Due(a.state), false
	}
	return a.dueOfState
}

// tellCalls gives every call's actor what is due for its call, where that has
// changed. It does so until nothing new follows at once.
func (a *turnActor) tellCalls(c actor.Context) {
	if a.drain && a.giveUp || !a.haveArgs() {
		return
	}
	list := make(map[int][]lifecycle.Effect)
	for _, e := range a.specDue() {
		if e.Call != events.TurnEvent && deliberate(e) && !a.drain && !a.waitsForLog(e) && !a.premature(e) {
			list[e.Call] = append(list[e.Call], e)
		}
	}
	keyed := false // a call with a key is being judged
	for _, e := range a.stateDue() {
		if e.Call == events.TurnEvent || deliberate(e) && (a.drain || !a.waitsForLog(e)) {
			continue
		}
		if deliberate(e) && !slices.Contains(a.specDue(), e) {
			continue // decided already, and on its way into the log
		}
		if a.waitsForLog(e) { // keys are taken in request order: a call must not wait for one that stands behind it
			if keyed {
				continue
			}
			keyed = true
		}
		list[e.Call] = append(list[e.Call], e)
	}
	for i := range a.spec.Calls {
		if slices.Equal(a.owed[i], list[i]) {
			continue
		}
		a.owed[i] = list[i]
		a.n.root.Send(a.call(c, i), owe{inc: a.inc, turn: a.spec, at: a.at, effects: list[i], offset: i, asked: a.asked[i].within(a.spec), heard: a.heard})
		a.open++
	}
}

// waitsForLog says whether the call's judgement must wait until its request is
// in the log: a key's entry may only point to a call that has events.
func (a *turnActor) waitsForLog(e lifecycle.Effect) bool {
	return e.Do == lifecycle.DoJudge && a.n.keyed(a.asked[e.Call])
}

// premature says whether a start must wait until the claim is in the log: what its
// gates take is the call's, and whoever is not its owner after all would give it
// back under the hands of the one who is.
func (a *turnActor) premature(e lifecycle.Effect) bool {
	if e.Do != lifecycle.DoStart || a.state.Owner == a.owner {
		return false
	}
	call := a.spec.Calls[e.Call]
	tool, known := a.n.cfg.Registry.Lookup(call.Tool)
	return known && a.n.looks(a.spec, a.asked[e.Call], call, tool)
}

// call is the actor of a call, made when it is first needed.
func (a *turnActor) call(c actor.Context, i int) *actor.PID {
	if pid := a.calls[i]; pid != nil {
		return pid
	}
	n, key, parent, over := a.n, a.key.Call(i), a.self, a.over
	pid := c.Spawn(actor.PropsFromProducer(func() actor.Actor { return newCallActor(n, key, parent, over) }, actor.WithSupervisor(once), actor.WithDispatcher(dispatcher{n.cfg.Scheduler})))
	a.calls[i] = pid
	return pid
}

// answered takes what a call actor could decide at once.
func (a *turnActor) answered(c actor.Context, m answer) {
	if m.inc != a.inc {
		return
	}
	a.open = max(0, a.open-1)
	if len(m.cmds) > 0 {
		a.answers = append(a.answers, m)
	}
	if a.open > 0 {
		return // the others will answer at once, too: they are decided in the calls' order
	}
	answers := a.answers
	a.answers = nil
	slices.SortStableFunc(answers, func(x, y answer) int { return cmp.Compare(x.call, y.call) })
	for _, m := range answers {
		for _, cmd := range m.cmds {
			a.command(cmd)
		}
	}
	a.pump(c)
}

// release gives back what an ended call held, and lets its actor go.
func (a *turnActor) release(c actor.Context, call *lifecycle.Call) {
	n := a.n
	if pid := a.calls[call.Offset]; pid != nil {
		c.Stop(pid)
		delete(a.calls, call.Offset)
		delete(a.owed, call.Offset)
	}
	if s := call.Started; s != nil && (len(s.Locks)+len(s.Limits) > 0 || s.Breaker.Probe) || call.Verdict != nil && len(call.Verdict.Resources) > 0 {
		key, workspace := a.key.Call(call.Offset), n.workspace(a.state.Submitted)
		n.do(func() { n.unheld(key, call, workspace) })
	}
	if key := a.scoped(call); key != "" && call.Last != events.KindDeduplicated {
		who := a.key.Call(call.Offset)
		n.do(func() { n.wakeWaiting(key, who) })
	}
}

// scoped is the call's idempotency key, "" if it has none: also of a call that took it and
// was denied before it had a verdict.
func (a *turnActor) scoped(call *lifecycle.Call) string {
	if call.Verdict != nil {
		return call.Verdict.Key
	}
	if call.Offset >= len(a.asked) || a.asked[call.Offset] == nil || !a.n.keyed(a.asked[call.Offset]) {
		return ""
	}
	asked := a.asked[call.Offset]
	tool, _ := a.n.cfg.Registry.Lookup(asked.Tool)
	return scopedKey(asked, tool.Name, a.n.gates.keyOf(tool, asked))
}

// unstarted gives back what was taken for a start that did not come about.
func (a *turnActor) unstarted(b lifecycle.Begin, recs []events.Record) {
	if slices.ContainsFunc(recs, func(r events.Record) bool { return r.Call == b.Call && r.Event.Kind() == events.KindStarted }) {
		return
	}
	call := a.spec.Calls[b.Call]
	running := call.Phase == lifecycle.PhaseStarted
	h := heldBy(a.key.Call(b.Call), a.n.cfg.Boot, call.Tool, b)
	if running { // it may be this very start that runs: kept by an append whose answer was lost
		started := startLocks(call.Started)
		h.locks = slices.DeleteFunc(slices.Clone(h.locks), func(l events.Lock) bool { return slices.Contains(started, l) })
	}
	if h.any() {
		a.n.do(func() { a.n.giveBack(h, running) })
	}
}

// turnEffects pays the debts that are the turn's own.
func (a *turnActor) turnEffects() {
	var deadline time.Time
	for _, e := range a.stateDue() {
		switch e.Do {
		case lifecycle.DoDeadline:
			if !e.At.IsZero() {
				deadline = e.At
			} else if !a.flight && len(a.pend) == 0 { // others' events have consequences
				a.command(lifecycle.Advance{})
			}
		case lifecycle.DoPark:
			a.park(e)
		}
	}
	if a.timer == nil && !deadline.IsZero() {
		n, inc, self := a.n, a.inc, a.self
		a.timer = n.after(deadline.Sub(n.cfg.Now()), func() {
			n.root.Send(self, due{inc: inc, effect: lifecycle.Effect{Do: lifecycle.DoDeadline, Call: events.TurnEvent, At: deadline}})
		})
	}
}

// park writes the timer that will wake the turn, and then parks it.
func (a *turnActor) park(e lifecycle.Effect) {
	if a.parking || a.flight || len(a.pend) > 0 || a.open > 0 {
		return
	}
	a.parkWith(lifecycle.Park{}, e.At)
}

// parkWith writes the timer for at, if any, and then has the turn parked.
func (a *turnActor) parkWith(cmd lifecycle.Park, at time.Time) {
	a.parking = true
	n, inc, self, key, heard := a.n, a.inc, a.self, a.key, a.heard
	it := n.timerItem(a.key, a.state.Submitted.Placement)
	n.do(func() {
		var err error
		if !at.IsZero() {
			err = n.cfg.Bus.Set(n.ctx, bus.Token(key.String()), at, it)
		}
		if err != nil {
			n.log.Warn("a timer could not be written: the turn stays in memory until it can", "turn", key.String(), "err", err)
			if !n.pause(n.ctx, backOff) {
				return
			}
		}
		n.root.Send(self, due{inc, lifecycle.Effect{Do: lifecycle.DoPark, Call: events.TurnEvent, At: at}, cmd, heard, err})
	})
}

func (a *turnActor) due(c actor.Context, m due) {
	switch m.effect.Do {
	case lifecycle.DoDeadline:
		if a.n.cfg.Now().Before(m.effect.At) { // the clock was set back meanwhile
			a.timer = nil
			break
		}
		a.command(lifecycle.Advance{})
	case lifecycle.DoPark:
		a.parked(m)
	case lifecycle.DoPlan:
		a.planing, a.failing = false, false
	}
	a.pump(c)
}

// errWoken says that a turn was not parked since it was woken meanwhile.
var errWoken = errors.New("woken while it was about to be parked")

// parked parks the turn now that its timer is written, unless it was woken meanwhile.
// A key that it waits for may be free then: its gate says. Or the timer has come by
// the log's clock before the time has by this node's: parked now, it would have none.
func (a *turnActor) parked(m due) {
	a.parking = false
	until, parks := a.parksUntil(m.park)
	switch {
	case m.err != nil:
	case parks && !until.Equal(m.effect.At): // something has happened while the timer was written: it needs another one
		if len(m.park.Keys) > 0 {
			a.parkOnKeys()
		}
	case m.heard == a.heard:
		a.command(m.park)
	case len(m.park.Keys) == 0:
		a.parking = true
		n, inc, self := a.n, a.inc, a.self
		n.after(backOff/4, func() { n.root.Send(self, due{inc: inc, effect: m.effect, err: errWoken}) })
	}
}

// parksUntil is when a turn that is parked now has to be woken, zero for never. ok is false
// where it is not parked, since something else is due.
func (a *turnActor) parksUntil(cmd lifecycle.Park) (until time.Time, ok bool) {
	recs, err := lifecycle.Decide(a.spec, lifecycle.Env{Now: a.now(), Owner: a.owner}, cmd)
	if err != nil || len(recs) != 1 {
		return time.Time{}, false
	}
	p, ok := recs[0].Event.(*events.TurnParked)
	if !ok {
		return time.Time{}, false
	}
	return p.Due, true
}

// end waits for the barrier behind the turn's last commit. What calls held is given up
// before that, also where the actor broke as it had folded their ends.
func (a *turnActor) end(c actor.Context) {
	a.ending = true
	for _, call := range a.state.Calls {
		a.settled(c, call)
	}
	n, inc, self := a.n, a.inc, a.self
	n.do(func() {
		if err := n.cfg.Bus.Barrier().Wait(n.ctx); err != nil {
			n.barrierFailed(n.ctx, err)
			n.root.Send(self, giveUp{}) // not acked: nobody knows whether it is durable
			return
		}
		n.root.Send(self, settledDown{inc})
	})
}

// finish lets the turn go: it has ended or is parked, durably.
func (a *turnActor) finish(c actor.Context) {
	if d := a.n.delivery(a.key); d != nil && (a.state.Ended != nil || a.n.held(a.key)) {
		a.n.ack(d)
	}
	if a.state.Ended != nil || a.state.Parked.Due.IsZero() {
		a.n.untimed(a.key, a.log)
	}
	if a.state.Ended != nil {
		tools := a.n.toolNames(a.state)
		a.n.sealedTurn(a.state)
		for _, s := range a.untold {
			a.n.live.tell(s, tools, true)
		}
		a.n.hub.tell(Finished{Key: a.key, Turn: a.state, Commits: a.log, Tools: tools}) // last: whom it wakes last a processor runs first
	}
	c.Stop(c.Self())
}

// handBack gives a drained turn to another node once no attempt of it is open,
// or once the grace time is over.
func (a *turnActor) handBack(c actor.Context) {
	if a.ending || a.lost {
		return
	}
	if !a.giveUp && slices.ContainsFunc(a.state.Calls, func(c *lifecycle.Call) bool { return c.Phase == lifecycle.PhaseStarted }) {
		return
	}
	a.lost = true
	a.orphan(a.owner)
	a.back = true
	c.Stop(c.Self())
}

// stopped takes the turn out of memory, and only then gives its message back:
// it may come to this very node in less than a millisecond.
func (a *turnActor) stopped() {
	if a.timer != nil {
		a.timer()
	}
	if a.patient != nil {
		a.patient()
	}
	a.n.steps.add() // BEFORE unseat: Stop waits for the last turn, and then for this
	defer a.n.steps.done()
	d := a.n.delivery(a.key)
	heard := a.heard
	if a.lost || !a.claimed {
		heard = 0 // it acted on nothing: whoever has the turn, or will, was told nothing
	}
	a.n.unseat(a.key, heard, a.state.Ended != nil)
	if a.back && d != nil {
		a.n.nak(d, 0)
	}
}

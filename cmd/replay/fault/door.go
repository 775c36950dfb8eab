package fault

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// again is how long a client or a person waits who was not answered.
const again = 500 * time.Millisecond

// submit is what the client does until it is told that its turn is kept: append,
// queue, wait for the barrier. The same again attaches.
func (c *cell) submit() {
	t, at := c.load()
	now := c.stamp()
	records, err := lifecycle.Decide(t, lifecycle.Env{Now: now}, lifecycle.Submit{Turn: c.s.sub})
	if err != nil {
		c.fail(lawEngine, events.TurnEvent, "it cannot be submitted: %v", err)
		return
	}
	if len(records) > 0 {
		s, err := c.door.Append(background, events.Commit{ID: "submit", Turn: c.s.Key, At: now, Records: records}, at)
		if err != nil {
			c.later(c.submit)
			return
		}
		at = s.Seq
	}
	it := bus.Item{ID: c.id("new."), Turn: c.s.Key, Placement: c.s.sub.Placement, Seq: at}
	if err := c.door.view.Push(background, it); err != nil {
		c.later(c.submit)
		return
	}
	if err := c.door.view.Barrier().Wait(background); err != nil {
		c.fail(lawEngine, events.TurnEvent, "the client cannot be answered: %v", err)
	}
	c.told = true
}

// later has something done again after a while.
func (c *cell) later(do func()) {
	c.waiting++
	c.w.At(c.w.Now().Add(again), func() {
		c.waiting--
		do()
	})
}

// stamp is the time as it is stored.
func (c *cell) stamp() time.Time { return c.w.Now().Truncate(time.Microsecond) }

// load is the turn as a door reads it.
func (c *cell) load() (t lifecycle.Turn, at uint64) {
	t = lifecycle.Fold(c.s.Key, plain(c.commits)...)
	if n := len(c.commits); n > 0 {
		at = c.commits[n-1].Seq
	}
	return t, at
}

// follow does what people and callers did once what they answer to has happened.
func (c *cell) follow() {
	for i := slices.IndexFunc(c.acts, c.isDue); i >= 0; i = slices.IndexFunc(c.acts, c.isDue) {
		a := c.acts[i]
		c.acts = slices.Delete(c.acts, i, i+1)
		if a.wait == 0 {
			c.do(a)
			continue
		}
		c.waiting++
		c.w.At(c.w.Now().Add(a.wait), func() {
			c.waiting--
			c.do(a)
		})
	}
}

// isDue says whether what came before an act has happened: its anchor, or the end of the
// call that would have had it, and the ends of the calls that had ended by then.
func (c *cell) isDue(a act) bool {
	if c.count(a.of, a.after) < a.nth && (a.do == doOpen || !c.ended(a.of)) || c.silent(a) {
		return false
	}
	return !slices.ContainsFunc(a.ended, func(call int) bool { return !c.ended(call) })
}

// do does what somebody did.
func (c *cell) do(a act) {
	switch a.do {
	case doOpen:
		c.breaker(a.call, lifecycle.Breaker{Failures: lifecycle.BreakerFailures, OpenedAt: c.stamp()})
	case doClose:
		c.breaker(a.call, lifecycle.Breaker{})
	default:
		c.say(a.cmd)
	}
}

// breaker writes the state of the breaker of a call's circuit.
func (c *cell) breaker(call int, b lifecycle.Breaker) {
	k := c.s.calls[call]
	cells, name := c.door.view.Cells(), actors.BreakerCell(lifecycle.Circuit{Tool: k.tool, Of: k.circuit})
	rev := uint64(0)
	if was, err := cells.Get(background, bus.BucketBreaker, name); err == nil {
		rev = was.Revision
	}
	if _, err := cells.Put(background, bus.BucketBreaker, name, mustJSON(b), rev, 0); err != nil {
		c.fail(lawEngine, call, "the breaker cannot be changed: %v", err)
	}
}

// patience is how long people take who approve or reject: longer than what else the turn
// does, so that it is parked meanwhile. In a turn with a deadline, or whose end somebody
// asks for, they are quick, as they must have been.
const (
	patience = time.Second
	quick    = 2 * time.Millisecond
)

// silent says that a person does not answer in this cell.
func (c *cell) silent(a act) bool {
	return (a.do == doApprove || a.do == doReject) && slices.ContainsFunc(c.strikes, func(x *strike) bool {
		return x.row.Kind == Expiry && x.pair.Call == a.call
	})
}

// count is how many events of a kind a call has, or the turn.
func (c *cell) count(call int, kind events.Kind) int {
	n := 0
	for _, s := range c.commits {
		if r := s.Commit.Records[0]; r.Call == call && r.Event.Kind() == kind {
			n++
		}
	}
	return n
}

// say decides a command of somebody outside, appends what follows, and wakes the owner.
// Whoever is not answered says it again; whoever is refused has come too late.
func (c *cell) say(cmd lifecycle.Command) {
	t, at := c.load()
	now := c.stamp()
	records, err := lifecycle.Decide(t, lifecycle.Env{Now: now}, cmd)
	if err != nil {
		c.tell("%T: refused: %v", cmd, err)
		return
	}
	seq := at
	if len(records) > 0 {
		s, err := c.door.Append(background, events.Commit{ID: c.id("door"), Turn: c.s.Key, At: now, Records: records}, at)
		if err != nil {
			if !errors.Is(err, bus.ErrConflict) {
				c.tell("%T: %v", cmd, err)
			}
			c.later(func() { c.say(cmd) })
			return
		}
		seq = s.Seq
	}
	if err := c.door.view.Wake(background, bus.Item{ID: c.id("wake."), Turn: c.s.Key, Seq: seq}); err != nil {
		c.fail(lawEngine, events.TurnEvent, "nobody can be woken: %v", err)
	}
}

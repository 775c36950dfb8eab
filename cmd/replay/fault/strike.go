package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// strike is one fault at one place of a cell.
type strike struct {
	c       *cell
	row     KindRow
	pair    Pair
	ready   bool // the earlier stage has happened
	struck  bool
	attempt int   // that runs between the stages; 0: none, or not begun
	tries   int   // appends of the later stage
	zombie  *node // stands still
	snap    snapshot
}

// snapshot is what was the case right behind the fault.
type snapshot struct {
	commits []bus.Stored // as the cell has seen them
	read    []bus.Stored // as the log says
	err     error        // of reading it
	durable int
	runs    []run // of the tools, until then
}

// restart is how long it takes until another process is there.
const restart = 200 * time.Millisecond

// reaches is whether the fault strikes as the later stage is appended, and not once
// the earlier one has been.
func (x *strike) reaches() bool {
	switch x.row.Kind {
	case CrashLost, CrashKept, Uncertain:
		return true
	case Zombie, PowerLoss:
		return x.pair.To != StageEnd
	case Cancel:
		return x.pair.To != StageEnd && !x.pair.runs()
	}
	return false
}

// before says whether the fault stands before this append.
func (x *strike) before(c events.Commit) bool {
	r := c.Records[0]
	return !x.struck && x.reaches() && r.Call == x.pair.Call && r.Seq == x.pair.Event+1 && (x.ready || x.pair.Event == 0)
}

// hit is the append before which the fault stands.
func (x *strike) hit(l *line, ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	victim := l.n
	if victim == nil {
		victim = x.c.owner()
	}
	kind := c.Records[0].Event.Kind()
	switch x.row.Kind {
	case CrashLost:
		x.lose(victim)
		x.strike("the append of %s is lost, and with it the process", kind)
		return bus.Stored{}, fmt.Errorf("append: %w", bus.ErrUncertain)
	case CrashKept:
		x.struck = true
		_, err := l.kept(ctx, c, at)
		x.lose(victim)
		x.strike("the append of %s is kept, and the process is lost", kind)
		if err == nil {
			err = bus.ErrUncertain
		}
		return bus.Stored{}, fmt.Errorf("append: %w", err)
	case Uncertain:
		return x.doubt(l, ctx, c, at)
	case Zombie:
		x.freeze(victim)
		x.strike("the owner stands still before it appends %s", kind)
		if l.n != nil {
			l.n.m.Wait(time.Millisecond) // until it goes on
		}
	case Cancel:
		x.struck = true
		x.cancel()
		x.strike("somebody asks for the end before %s is appended", kind)
	case PowerLoss:
		x.powerFails(l.n != nil)
		return bus.Stored{}, fmt.Errorf("append: %w", bus.ErrUncertain)
	}
	return l.kept(ctx, c, at)
}

// doubt loses the append the first time, and keeps it the second, without an answer.
func (x *strike) doubt(l *line, ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	kind := c.Records[0].Event.Kind()
	behind, _ := ctx.Value(rest{}).(bool)
	if x.tries++; x.tries == 1 && !behind {
		x.strike("the append of %s is lost, and not answered", kind)
		x.struck = false // once more
		return bus.Stored{}, fmt.Errorf("append: %w", bus.ErrUncertain)
	}
	x.struck = true
	s, err := l.kept(ctx, c, at)
	if err != nil {
		return bus.Stored{}, err
	}
	x.strike("the append of %s is kept, and not answered", kind)
	return s, fmt.Errorf("append: %w", errUnheard)
}

// after takes up an event that has happened.
func (x *strike) after(l *line, s bus.Stored) {
	r := s.Commit.Records[0]
	if e, ok := r.Event.(*events.TurnClaimed); ok && x.zombie != nil && e.Owner.Boot != x.zombie.m.Name() {
		x.thaw(10 * time.Millisecond)
	}
	if x.ready || x.pair.Event == 0 && len(x.c.commits) != x.begins() || x.pair.Event > 0 && (r.Call != x.pair.Call || r.Seq != x.pair.Event) {
		return
	}
	x.ready = true
	if e, ok := r.Event.(*events.Started); ok && x.pair.runs() {
		x.attempt = e.Attempt
	}
	if x.struck || x.reaches() || x.row.tool || x.pair.runs() && x.midway() {
		return
	}
	x.now(l.n)
}

// begins is how many events the turn has when the fault strikes before the first one of
// the call, or of the turn: as many as then. A breaker opens before anybody has claimed
// the turn: what a node has claimed it has judged already.
func (x *strike) begins() int {
	if x.row.Kind == BreakerOpen {
		return 1
	}
	return x.pair.at
}

// midway says whether the fault strikes in the middle of an attempt, where one runs.
func (x *strike) midway() bool {
	return x.row.Kind == NodeDeath || x.row.Kind == Redelivery || x.row.Kind == Cancel
}

// during takes up that a tool has begun to run.
func (x *strike) during(r *run, p part) {
	if x.struck || !x.ready || !x.midway() || !x.pair.runs() || r.call != x.pair.Call || r.attempt != x.attempt {
		return
	}
	in := min(p.takes, 10*time.Second) * 3 / 4
	if p.waits {
		in = midway / 2 // before the end is asked for that was recorded
	}
	x.c.w.At(x.c.w.Now().Add(in), func() {
		if !x.struck {
			x.now(r.n)
		}
	})
}

// now strikes between the stages. n is the node that has just appended the earlier one,
// nil: a door.
func (x *strike) now(n *node) {
	victim := n
	if victim == nil {
		victim = x.c.owner()
	}
	switch x.row.Kind {
	case NodeDeath:
		x.lose(victim)
		x.strike("the node dies")
	case Zombie:
		x.freeze(victim)
		x.strike("the owner stands still")
		if n != nil {
			n.m.Wait(time.Millisecond)
		}
	case Redelivery:
		x.strike("the turn's message is delivered once more: %d messages", x.c.log.Redeliver(""))
		x.c.boot()
	case Cancel:
		x.struck = true
		x.cancel()
		x.strike("somebody asks for the end")
	case BreakerOpen:
		x.c.breaker(x.pair.Call, lifecycle.Breaker{Failures: lifecycle.BreakerFailures, OpenedAt: x.c.stamp()})
		x.strike("the breaker of the tool opens")
		if n != nil {
			n.m.Wait(time.Millisecond) // its watch hears of it
		}
	case PowerLoss:
		x.powerFails(true)
	case Expiry:
		x.strike("nobody answers")
	}
}

// strike notes that the fault has struck, and what was the case then.
func (x *strike) strike(format string, args ...any) {
	x.struck = true
	x.c.tell("FAULT: "+format, args...)
	if x.snap.runs != nil {
		return
	}
	x.snap.commits, x.snap.durable = x.c.commits[:len(x.c.commits):len(x.c.commits)], x.c.durable
	x.snap.runs = make([]run, 0, 1)
	for _, r := range x.c.ledger.runs {
		x.snap.runs = append(x.snap.runs, *r)
	}
	x.snap.read, x.snap.err = x.c.log.View("observer").Load(background, x.c.s.Key, 0)
}

// lose ends a node, and has another one come.
func (x *strike) lose(n *node) {
	x.c.kill(n)
	x.c.bootSoon()
}

func (c *cell) bootSoon() {
	c.waiting++
	c.w.At(c.w.Now().Add(restart), func() {
		c.waiting--
		c.boot()
	})
}

// freeze has a node stand still, and another one come.
func (x *strike) freeze(n *node) {
	if n == nil || n.m.Dead() {
		return
	}
	x.zombie = n
	n.m.Pause()
	x.c.bootSoon()
	x.c.w.At(x.c.w.Now().Add(time.Minute), func() { x.thaw(0) })
}

// thaw lets the zombie go on.
func (x *strike) thaw(in time.Duration) {
	n := x.zombie
	x.c.w.At(x.c.w.Now().Add(in), func() {
		if n.m.Paused() {
			x.c.tell("node %s goes on", n.m.Name())
			n.m.Resume()
		}
	})
}

// pending says that the fault has begun and not come to its end.
func (x *strike) pending() bool { return x.zombie != nil && x.zombie.m.Paused() }

// cancelBy is who asks for an end.
var cancelBy = events.Principal{ID: "replay", Kind: "person"}

// cancel asks for the end of the call, or of the turn.
func (x *strike) cancel() {
	var cmd lifecycle.Command = lifecycle.CancelCall{Call: x.pair.Call, By: cancelBy, Reason: "a fault put in by replay"}
	if x.pair.Call == events.TurnEvent {
		cmd = lifecycle.CancelTurn{By: cancelBy, Reason: "a fault put in by replay"}
	}
	x.c.say(cmd)
}

// powerFails ends every node, and takes what is not past the barrier.
func (x *strike) powerFails(resubmit bool) {
	c := x.c
	for _, n := range c.nodes {
		c.kill(n)
	}
	lost := c.log.LoseTail(-1)
	c.commits = c.commits[:c.durable:c.durable]
	t, _ := c.load()
	c.ledger.forget(t) // BEFORE it is noted what the tools know
	x.strike("the power fails: %d events are lost", lost)
	c.acts = append(c.acts[:0:0], c.s.acts...)
	c.follow() // people do again what is not in the log any more
	c.bootSoon()
	if resubmit && !c.told {
		c.later(c.submit)
	}
}

// steal gives the leases of a run to another call, as happens where its node could not
// renew them.
func (x *strike) steal(r *run) {
	for _, l := range r.locks {
		cells, name := x.c.door.view.Cells(), lifecycle.Digest([]byte(l.Resource))[len("sha256:"):]
		was, err := cells.Get(background, bus.BucketLock, name)
		if err == nil {
			other := lifecycle.LockState{Holds: []lifecycle.Hold{{Call: "other/turn/0", Boot: "other", Exclusive: true, Until: x.c.w.Now().Add(time.Hour)}}}
			_, err = cells.Put(background, bus.BucketLock, name, mustJSON(other), was.Revision, 0)
		}
		if err != nil {
			x.c.fail(lawEngine, r.call, "its lease cannot be taken away: %v", err)
		}
	}
}

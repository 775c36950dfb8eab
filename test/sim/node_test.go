package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/actors/det"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Every node is made of these.
const (
	room     = 3 // turns that a node takes
	presence = 6 * time.Second
	lockTTL  = 12 * time.Second
	approval = time.Minute
)

// node is one start of one process.
type node struct {
	*actors.Node
	s        *sim
	m        *det.Machine
	b        *det.Bus
	standing int           // tasks of a node that has nothing to do
	far      bool          // it serves that placement, too
	draining bool          // it gives its turns back, and leaves
	doomed   bool          // a tool of its own kills it
	off      time.Duration // of its own clock
	unwell   time.Time     // it stood still or was cut off, last
	idle     time.Time     // when it did nothing but stand by, last
}

// boot starts a node.
func (s *sim) boot() {
	s.boots++
	m := s.w.Machine(fmt.Sprint("n", s.boots))
	n := &node{s: s, m: m, b: m.Connect(s.log)}
	n.b.Listened = func() bool { return s.seed%8 == 0 }
	if s.unlucky(0.2) {
		s.setOff(n)
	}
	if n.far = s.calm || s.chance(0.5); n.far {
		s.note("%s serves what is far, too", m.Name())
	}
	var err error
	n.Node, err = actors.New(actors.Config{
		Bus: n.b, Registry: registry, Authorizer: authorizer{}, Boot: m.Name(), Workspace: "/w", Placements: n.serves(), Sweep: n.sweeps(),
		Room: room, Drain: 5 * time.Second, Approval: approval, Breaker: breakers, Presence: presence, LockTTL: lockTTL, Limits: func() lifecycle.Limits { return limits },
		Execute: n.execute, System: s.system, Scheduler: m, Now: m.Now, Steady: n.steady, Rand: s.rng.Float64, ID: func() string { return s.id("c") },
		Seen: n, Log: slog.New(words{n}),
	})
	if err != nil {
		s.fail("no node: %v", err)
		return
	}
	s.nodes = append(s.nodes, n)
	s.note("%s boots", m.Name())
	m.Go(func() {
		if err := n.Start(context.Background()); err != nil {
			s.note("%s does not start: %v", m.Name(), err)
			n.doomed = true
			return
		}
		n.standing, n.idle, n.unwell = m.Tasks()-1, s.w.Now(), s.w.Now()
	})
}

// far is a placement that only some nodes serve.
const far = "far"

func (n *node) sweeps() time.Duration {
	if n.s.swept {
		return 10 * time.Second
	}
	return -1
}

func (n *node) serves() []string {
	if n.far {
		return []string{events.DefaultPlacement, far}
	}
	return nil
}

// words are what a node says: they are counted, and in the trace.
type words struct{ n *node }

// Enabled is slog.Handler's.
func (words) Enabled(context.Context, slog.Level) bool { return true }

// Handle is slog.Handler's.
func (w words) Handle(_ context.Context, r slog.Record) error {
	w.n.s.counts.mark("says: %s", r.Message)
	if w.n.s.tracing {
		said := r.Message
		r.Attrs(func(a slog.Attr) bool {
			value, _, _ := strings.Cut(a.Value.String(), "\n") // the rest is a stack
			said += " " + a.Key + "=" + value
			return true
		})
		w.n.s.note("%s says: %s", w.n.m.Name(), said)
	}
	return nil
}

// WithAttrs is slog.Handler's.
func (w words) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup is slog.Handler's.
func (w words) WithGroup(string) slog.Handler { return w }

// Committed is actors.Observer's. It breaks now and then: the turn's actor begins anew.
func (n *node) Committed(bus.Stored, map[int]string) {
	if n.s.unlucky(0.005) {
		n.s.counts.mark("an actor breaks")
		n.s.broken++
		panic("the observer breaks")
	}
}

// Count is actors.Observer's.
func (n *node) Count(name string, by int) {
	n.s.counts.more("node: "+name, by)
	if name == "actor_panics" {
		if n.s.broken--; n.s.broken < 0 {
			n.s.fail("an actor of %s panicked", n.m.Name())
		}
	}
}

// any is a node, or nil.
func (s *sim) any() *node {
	if len(s.nodes) == 0 {
		return nil
	}
	return s.nodes[s.rng.IntN(len(s.nodes))]
}

// crash ends a node without a word.
func (s *sim) crash() {
	n := s.any()
	if n == nil {
		return
	}
	s.counts.mark("crash")
	s.kill(n)
	if s.chance(0.7) {
		s.boot()
	}
}

// kill ends a node. What it has on the wire may still arrive.
func (s *sim) kill(n *node) {
	s.note("%s dies", n.m.Name())
	n.m.Kill()
	_ = n.b.Close()
	s.nodes = slices.DeleteFunc(s.nodes, func(o *node) bool { return o == n })
	for _, a := range slices.Clone(s.attempts) {
		if a.n == n {
			a.running, a.disturbed = false, true
			if s.chance(0.5) {
				a.forgo()
			}
		}
	}
	s.tidy()
}

// bury ends the nodes that have killed themselves.
func (s *sim) bury() {
	for _, n := range slices.Clone(s.nodes) {
		if n.doomed {
			s.kill(n)
			if !s.closing && (len(s.nodes) == 0 || s.calm) {
				s.serveAll()
			}
		}
	}
}

// pauseOrResume stops a node where it stands, or lets one go on.
func (s *sim) pauseOrResume() {
	n := s.any()
	switch {
	case n == nil:
	case n.m.Paused():
		s.note("%s goes on", n.m.Name())
		n.m.Resume()
		s.disturb(n)
	default:
		s.note("%s stands still", n.m.Name())
		s.counts.mark("pause")
		n.m.Pause()
		s.disturb(n)
		s.w.At(s.w.Now().Add(time.Duration(s.rng.IntN(60))*time.Second), func() {
			if n.m.Paused() {
				s.note("%s goes on", n.m.Name())
				n.m.Resume()
				s.disturb(n)
			}
		})
	}
}

// disturb notes that what runs on a node can lose its leases.
func (s *sim) disturb(n *node) {
	n.unwell = s.w.Now()
	for _, a := range s.attempts {
		if a.n == n {
			a.disturbed = true
		}
	}
}

// cut takes a node off the network, or brings one back: meanwhile it goes on.
func (s *sim) cut() {
	n := s.any()
	switch {
	case n == nil:
	case n.b.IsCut():
		s.note("%s is back", n.m.Name())
		n.b.Mend()
		s.disturb(n)
	default:
		s.note("%s is cut off", n.m.Name())
		s.counts.mark("cut off")
		n.b.Cut()
		s.disturb(n)
	}
}

// setOff has a node's own clock be wrong, as long as it lives. What it has put right by
// the log's clock is nearly right.
func (s *sim) setOff(n *node) {
	n.off = time.Duration(s.rng.IntN(7200)-3600) * time.Second
	s.counts.mark("clock set off")
	s.note("the clock of %s is off by %s", n.m.Name(), n.off)
	n.m.Skew(time.Duration(s.rng.IntN(1000)-500) * time.Millisecond)
}

// steady is the node's own clock.
func (n *node) steady() time.Time { return n.s.w.Now().Add(n.off) }

// drain lets a node give its turns back, and leave.
func (s *sim) drain() {
	n := s.any()
	if n == nil || n.draining || n.standing == 0 {
		return
	}
	s.note("%s drains", n.m.Name())
	s.counts.mark("drain")
	s.leave(n)
	if !slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.draining }) {
		s.boot()
	}
}

// leave has a node stop in order. Nothing of it may be left.
func (s *sim) leave(n *node) {
	n.draining = true
	n.m.Go(func() {
		err := n.Stop(context.Background())
		s.note("%s has stopped: %v", n.m.Name(), err)
		// A timer that only tells an actor something, in a moment or just now, finds it gone.
		if left, timers := n.m.Tasks()-1, n.m.Timers(5*time.Second); left > s.deaf(n) || timers > 0 {
			s.fail("stop: %s has stopped, and %d tasks and %d timers of it are left:\n%s", n.m.Name(), left, timers, s.w)
		}
		n.doomed = true
	})
}

// deaf is how many tools run on a node that have not stopped when they were told to.
func (s *sim) deaf(n *node) int {
	tasks := 0
	for _, a := range s.attempts {
		if a.n == n && a.running {
			tasks++
		}
	}
	return tasks
}

// powerFailure ends every node, and takes what was not past the barrier.
func (s *sim) powerFailure() {
	for _, n := range slices.Clone(s.nodes) {
		s.kill(n)
	}
	lost := s.log.LoseTail(s.rng.IntN(6))
	s.spent = spending{} // what is read again now was counted
	clear(s.circuits)
	s.checkCircuits()
	for of, c := range s.circuits { // nobody probes any more
		c.since = time.Time{}
		s.circuits[of] = c
	}
	s.note("power failure: %d commits are lost", lost)
	if lost > 0 {
		s.counts.mark("lost tail")
	}
	for _, c := range s.clients {
		delete(s.seen, c.key)
		s.take(c.key)
	}
	s.refill()
	s.checkStarts()
	s.boot()
}

// rest is how long nothing must have happened before what still waits has to take up
// nothing.
const rest = 10 * time.Second

// quiet is called where no node can go on before time passes. In calm weather, what
// waits only for people and for time takes up nothing: no seat, no timer, no task.
func (s *sim) quiet() {
	resting := s.calm && s.w.Now().Sub(s.moved) >= rest
	for _, c := range s.clients {
		t := s.seen[c.key].turn
		resting = resting && t.Submitted != nil && (t.Parked != nil || t.Ended != nil)
	}
	for _, n := range s.nodes {
		switch {
		case !resting:
			n.idle = s.w.Now()
		case n.standing > 0 && !n.draining:
			s.counts.mark("at rest")
			s.atRest(n)
		}
	}
}

// atRest checks that a node holds nothing.
func (s *sim) atRest(n *node) {
	tasks := n.standing + s.deaf(n)
	turns, attempts := n.Running()
	if turns == 0 && attempts == 0 && n.m.Timers(0) == 0 && n.m.Tasks() <= tasks {
		n.idle = s.w.Now()
	}
	if s.w.Now().Sub(n.idle) > rest {
		s.fail("rest: nothing happens, and %s has %d turns, %d attempts, %d timers and %d tasks, of which %d stand:\n%s",
			n.m.Name(), turns, attempts, n.m.Timers(0), n.m.Tasks(), tasks, s.w)
	}
}

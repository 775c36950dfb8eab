package deciders

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Bounds of one run.
const (
	wildSteps = 220  // with faults
	calmSteps = 6000 // without, within which everything must end
	ackWait   = 15 * time.Second
)

// ctx never ends: nothing here waits.
var ctx = context.Background()

// sim is one run.
type sim struct {
	seed    uint64
	rng     *rand.Rand
	now     time.Time
	log     *memlog.Log
	door    *memlog.View // of clients and persons; never cut off
	nodes   []*node
	clients []*client
	runs    []*run // attempts in progress, whoever began them
	ledger  ledger
	seen    map[events.TurnKey]seen
	drained map[string]bool // boots that gave their turns back
	probes  map[string]probe
	calm    bool
	day     int  // what the run is mostly about
	looking bool // a door reads: its mirror does not lag, so that looking changes nothing
	single  bool // every event is a commit of its own
	boots   int
	ids     int
	steps   int
	err     error
	counts  counts
	tracing bool
	trace   []string
}

// client has submitted a turn, and asks for its answers.
type client struct {
	key   events.TurnKey
	sub   events.TurnSubmitted
	acked bool
	told  []string // the answers, once they were given; nil before
}

func newSim(seed uint64) *sim {
	s := &sim{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0x51c1)), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		seen: map[events.TurnKey]seen{}, drained: map[string]bool{}, probes: map[string]probe{},
	}
	s.log = memlog.New(memlog.Config{Now: func() time.Time { return s.now }, AckWait: ackWait, Fault: s.faults()})
	s.door = s.log.View("door")
	s.single = s.chance(0.25)
	s.day = s.rng.IntN(otherDays)
	for range 1 + s.rng.IntN(3) {
		s.boot()
	}
	return s
}

func (s *sim) chance(p float64) bool { return s.rng.Float64() < p }

// unlucky is chance while there are faults.
func (s *sim) unlucky(p float64) bool { return !s.calm && s.chance(p) }

func (s *sim) id(what string) string {
	s.ids++
	return fmt.Sprint(what, s.ids)
}

func (s *sim) note(format string, args ...any) {
	if s.tracing {
		s.trace = append(s.trace, fmt.Sprintf("%4d %9s  ", s.steps, s.now.Format("04:05.000"))+fmt.Sprintf(format, args...))
	}
}

// fail keeps the first thing that went wrong.
func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
		s.note("FAILED: %v", s.err)
	}
}

// faults are those of the log.
func (s *sim) faults() *memlog.Faults {
	cut := func(p float64, what string) (bool, error) {
		switch {
		case s.unlucky(p):
			kept := s.chance(0.5)
			s.counts.mark("%s uncertain, kept %t", what, kept)
			return kept, bus.ErrUncertain
		case s.unlucky(p / 2):
			return false, bus.ErrUnavailable
		}
		return true, nil
	}
	return &memlog.Faults{
		Append:  func(events.Commit) (bool, error) { return cut(0.04, "append") },
		Push:    func(bus.Item) (bool, error) { return cut(0.03, "push") },
		Put:     func(string, string) (bool, error) { return cut(0.02, "put") },
		AckLost: func(bus.Item) bool { return s.unlucky(0.03) },
		Mirror: func(_ events.TurnKey, last uint64) uint64 {
			if !s.looking && s.unlucky(0.2) {
				return last - min(last, s.rng.Uint64N(5))
			}
			return last
		},
	}
}

// run is the whole of it: wild, then calm, then the checks.
func (s *sim) run() error {
	for range 1 + s.rng.IntN(3) {
		s.newClient()
	}
	for range wildSteps {
		s.step(s.wildly)
	}
	s.calm = true
	for _, n := range s.nodes {
		n.view.Connect()
		n.cut = false
	}
	for i := 0; !s.over() && s.err == nil; i++ {
		if i == calmSteps {
			s.fail("no end after %d calm steps: %s", calmSteps, s.open())
		}
		s.step(s.calmly)
	}
	s.finalChecks()
	return s.err
}

func (s *sim) step(do func()) {
	if s.err != nil {
		return
	}
	s.steps++
	do()
	if s.tracing {
		s.checkLaws()
	}
}

// wildly is a step while there are faults.
func (s *sim) wildly() {
	switch x := s.rng.IntN(1000); {
	case x < 620:
		s.work()
	case x < 760:
		s.pass(s.soon())
	case x < 860:
		s.person()
	case x < 900:
		s.ask()
	case x < 920:
		s.sweep()
	case x < 935:
		s.crash()
	case x < 950:
		s.cut()
	case x < 965:
		s.counts.mark("redelivery")
		s.note("redelivered: %d messages", s.log.Redeliver(""))
	case x < 972:
		s.note("duplicated: %d messages", s.log.Duplicate(""))
	case x < 982:
		s.restart()
	case x < 985:
		s.drain()
	case x < 988:
		s.powerFailure()
	case x < 994 && len(s.clients) < 5 || s.day == busyDay && len(s.clients) < 8:
		s.newClient()
	case len(s.nodes) < 3:
		s.boot()
	default:
		s.pass(time.Duration(s.rng.IntN(40)) * time.Second)
	}
}

// calmly is a step once nothing goes wrong any more.
func (s *sim) calmly() {
	if len(s.nodes) == 0 {
		s.boot()
	}
	switch x := s.rng.IntN(100); {
	case x < 70 && s.work():
	case x < 80:
		s.ask()
	case x < 88:
		s.sweep()
	default:
		s.pass(s.soon())
	}
}

// work lets a node do something, and says whether one did.
func (s *sim) work() bool {
	if len(s.nodes) == 0 {
		return false
	}
	return s.nodes[s.rng.IntN(len(s.nodes))].step()
}

// soon is the time until the next thing that happens by itself, or a moment.
func (s *sim) soon() time.Duration {
	if s.chance(0.4) {
		return time.Duration(s.rng.IntN(300)) * time.Millisecond
	}
	next := s.now.Add(30 * time.Second)
	if s.calm {
		next = s.now.Add(2 * lifecycle.DefaultApproval)
	}
	earlier := func(at time.Time) {
		if at.After(s.now) && at.Before(next) {
			next = at
		}
	}
	if at, ok := s.log.NextDue(); ok {
		earlier(at)
	}
	for _, r := range s.runs {
		earlier(r.effectAt)
		earlier(r.endsAt)
		earlier(r.deadline)
	}
	for _, n := range s.nodes {
		for _, sh := range n.shells {
			for _, e := range lifecycle.Due(sh.state) {
				earlier(e.At)
			}
		}
	}
	return next.Sub(s.now)
}

// pass lets time pass, by pieces short enough for heartbeats where nodes are well.
func (s *sim) pass(d time.Duration) {
	for d > 0 {
		step := d
		if len(s.runs) > 0 || slices.ContainsFunc(s.nodes, func(n *node) bool { return len(n.shells) > 0 }) {
			step = min(d, ackWait/3)
		}
		d -= step
		s.now = s.now.Add(step).Truncate(time.Microsecond)
		s.log.Tick()
		for _, r := range s.runs {
			s.happen(r)
		}
		for _, n := range s.nodes {
			n.beat()
		}
	}
}

// seen is a turn as a door has read it, when the log had come to head.
type seen struct {
	head events.Position
	turn lifecycle.Turn
	log  []bus.Stored
}

// load is a turn as a door sees it.
func (s *sim) load(key events.TurnKey) (t lifecycle.Turn, at uint64, log []bus.Stored) {
	head, err := s.door.Head(ctx)
	if err != nil {
		s.fail("the log has no head: %v", err)
	}
	known := s.seen[key]
	if known.head != head {
		s.looking = true
		log, err = s.door.Load(ctx, key, head.Seq-1)
		s.looking = false
		if err != nil {
			s.fail("a door cannot read: %v", err)
		}
		known = seen{head, lifecycle.Fold(key, commits(log)...), log}
		s.seen[key] = known
	}
	if n := len(known.log); n > 0 {
		at = known.log[n-1].Seq
	}
	return known.turn, at, known.log
}

func commits(log []bus.Stored) []events.Commit {
	out := make([]events.Commit, len(log))
	for i, c := range log {
		out[i] = c.Commit
	}
	return out
}

// say decides a command that anyone may send, appends what follows, and queues a
// wake-up. It gives up where something is in the way, as a caller does who is told
// to try again.
func (s *sim) say(key events.TurnKey, by events.Owner, cmd lifecycle.Command) {
	t, at, _ := s.load(key)
	records, err := lifecycle.Decide(t, lifecycle.Env{Now: s.now}, cmd)
	if err != nil || len(records) == 0 {
		s.note("%s: %T: nothing: %v", key, cmd, err)
		return
	}
	c := events.Commit{ID: s.id("door"), Turn: key, At: s.now, By: by, Records: records}
	stored, err := s.door.Append(ctx, c, at)
	if errors.Is(err, bus.ErrUncertain) {
		stored, err = s.door.Append(ctx, c, at)
	}
	s.note("%s: %T: %s %v", key, cmd, kinds(records), err)
	if err != nil {
		return
	}
	s.counts.events(records)
	if s.unlucky(0.05) {
		return // the door is gone before it could wake anyone: a sweep finds it
	}
	err = s.door.Wake(ctx, bus.Item{ID: "wake." + c.ID, Turn: key, Seq: stored.Seq})
	s.note("%s: woken: %v", key, err)
}

func kinds(records []events.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Event.Kind())
		if r.Call != events.TurnEvent {
			out[i] = fmt.Sprint(r.Call, " ", out[i])
		}
	}
	return out
}

// crash ends a node without a word.
func (s *sim) crash() {
	if len(s.nodes) == 0 {
		return
	}
	i := s.rng.IntN(len(s.nodes))
	s.note("%s dies", s.nodes[i].boot)
	s.counts.mark("crash")
	s.kill(s.nodes[i])
	s.nodes = slices.Delete(s.nodes, i, i+1)
	if s.chance(0.7) {
		s.boot()
	}
}

// kill orphans what a node was running: what is on the wire may still arrive.
func (s *sim) kill(n *node) {
	n.dead = true
	_ = n.view.Close()
	for _, r := range s.runs {
		if r.n == n {
			r.n = nil
			if r.effectAt.After(s.now) && s.chance(0.5) {
				r.effectAt = time.Time{}
			}
		}
	}
}

func (s *sim) boot() {
	s.boots++
	boot := fmt.Sprint("n", s.boots)
	s.nodes = append(s.nodes, &node{s: s, boot: boot, view: s.log.View(boot)})
	s.note("%s boots", boot)
}

// cut takes a node off the network, or brings one back: meanwhile it goes on.
func (s *sim) cut() {
	if len(s.nodes) == 0 {
		return
	}
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if n.cut = !n.cut; n.cut {
		n.view.Disconnect()
		s.counts.mark("zombie")
	} else {
		n.view.Connect()
	}
	s.note("%s is cut off: %t", n.boot, n.cut)
}

// restart lets a turn's actor break and fold again what is in the log.
func (s *sim) restart() {
	for _, n := range s.nodes {
		if len(n.shells) > 0 && !n.cut {
			sh := n.shells[s.rng.IntN(len(n.shells))]
			s.note("%s: the actor on %s starts again", sh.key, n.boot)
			s.counts.mark("actor restart")
			sh.pending = nil
			if sh.reload(0); sh.owner.Boot == "" {
				n.drop(sh) // it had not claimed: its message comes back
			}
			return
		}
	}
}

// drain lets a node give its turns back, and leave.
func (s *sim) drain() {
	if len(s.nodes) == 0 {
		return
	}
	i := s.rng.IntN(len(s.nodes))
	n := s.nodes[i]
	if n.cut || slices.ContainsFunc(s.runs, func(r *run) bool { return r.n == n }) {
		return
	}
	s.note("%s drains", n.boot)
	s.drained[n.boot] = true
	for _, sh := range n.shells {
		if sh.delivery != nil {
			_ = sh.delivery.Nak(0) // lost: AckWait brings it back
		}
	}
	s.kill(n)
	s.nodes = slices.Delete(s.nodes, i, i+1)
	if len(s.nodes) == 0 {
		s.boot()
	}
}

// powerFailure ends every node, and takes what was not past the barrier.
func (s *sim) powerFailure() {
	s.checkLaws()
	for _, n := range s.nodes {
		s.kill(n)
	}
	s.nodes = nil
	clear(s.probes) // admissions may be lost, and nobody probes any more
	lost := s.log.LoseTail(s.rng.IntN(6))
	s.note("power failure: %d commits are lost", lost)
	if lost > 0 {
		s.counts.mark("lost tail")
	}
	s.checkLaws()
	s.checkStarts()
	s.boot()
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/actors/det"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Bounds of one run.
const (
	wildSteps = 1500  // with faults
	calmSteps = 60000 // without, within which everything must end
	ackWait   = 15 * time.Second
)

// ctx never ends: whoever stands outside the nodes does not wait.
var ctx = context.Background()

// sim is one run.
type sim struct {
	seed     uint64
	rng      *rand.Rand
	w        *det.World
	log      *memlog.Log
	system   *actors.System
	door     *memlog.View // of clients and persons; never cut off
	nodes    []*node
	clients  []*client
	attempts []*attempt // whoever began them; those that nothing more can come of are dropped
	ledger   ledger
	seen     map[events.TurnKey]seen
	touched  []events.TurnKey // somebody has tried to append to these since the last look
	circuits map[lifecycle.Circuit]circuit
	evidence map[lifecycle.Circuit]int // attempts that have said that it is down
	spent    spending
	admitted map[uint64]string // who probed, by the revision of the breakers' bucket
	circuit  bool              // somebody has tried to write to one since the last look
	moved    time.Time         // of the last commit
	hasty    float64           // how often a call on the bus takes no time at all
	day      int               // what the run is mostly about
	swept    bool              // nodes sweep. Otherwise every door lives to queue what it has appended
	calm     bool
	closing  bool // the nodes leave, and none comes
	looking  bool // a door reads: its mirror does not lag, so that looking changes nothing
	boots    int
	broken   int // actors that were made to break, and have not said so yet
	ids      int
	steps    int
	err      error
	counts   counts
	tracing  bool
	trace    []string
}

// client has submitted a turn, and asks for its answers.
type client struct {
	key   events.TurnKey
	sub   events.TurnSubmitted
	acked bool
	told  []string               // the answers, once they were given; nil before
	waits <-chan actors.Finished // at a node; nil: at none
}

func newSim(seed uint64) *sim {
	s := &sim{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x51c1)), seen: map[events.TurnKey]seen{}, circuits: map[lifecycle.Circuit]circuit{}, evidence: map[lifecycle.Circuit]int{}, admitted: map[uint64]string{}}
	s.w = det.New(det.Config{
		Pick: s.rng.IntN, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Changes: func() uint64 { return s.log.Changes() }, Delay: s.delay,
	})
	s.log = memlog.New(memlog.Config{Now: s.w.Now, AckWait: ackWait, Fault: s.faults()})
	s.door = s.log.View("door")
	s.system = actors.NewSystem(slog.New(slog.DiscardHandler))
	s.hasty = s.rng.Float64()
	s.day = s.rng.IntN(otherDays)
	s.swept = s.chance(0.5)
	s.refill()
	return s
}

// now is the time as it is stored.
func (s *sim) now() time.Time { return s.w.Now().Truncate(time.Microsecond) }

func (s *sim) chance(p float64) bool { return s.rng.Float64() < p }

// unlucky is chance while there are faults.
func (s *sim) unlucky(p float64) bool { return !s.calm && s.chance(p) }

func (s *sim) id(what string) string {
	s.ids++
	return fmt.Sprint(what, s.ids)
}

func (s *sim) note(format string, args ...any) {
	if s.tracing {
		s.trace = append(s.trace, fmt.Sprintf("%5d %9s  ", s.steps, s.w.Now().Format("04:05.000"))+fmt.Sprintf(format, args...))
	}
}

// fail keeps the first thing that went wrong.
func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
		s.note("FAILED: %v", s.err)
	}
}

// delay is how long a node's call on the bus takes, one way.
func (s *sim) delay(_ *det.Machine, _ string, back bool) time.Duration {
	switch {
	case s.chance(s.hasty):
		return 0
	case s.unlucky(0.01):
		return time.Duration(s.rng.IntN(4000)) * time.Millisecond
	}
	return time.Duration(s.rng.IntN(2000)) * time.Microsecond
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
		Append: func(c events.Commit) (bool, error) {
			if !slices.Contains(s.touched, c.Turn) {
				s.touched = append(s.touched, c.Turn)
			}
			return cut(0.04, "append")
		},
		Push: func(it bus.Item) (bool, error) {
			kept, err := cut(0.03, "push")
			s.note("%s: queued: %s, kept %t, %v", it.Turn, it.ID, kept, err)
			return kept, err
		},
		Put: func(bucket, key string) (bool, error) {
			s.circuit = s.circuit || bucket == bus.BucketBreaker
			kept, err := cut(0.02, "put")
			if bucket != bus.BucketPresence {
				s.note("a cell is written: %s/%.8s, kept %t, %v", bucket, key, kept, err)
			}
			return kept, err
		},
		AckLost: func(it bus.Item) bool {
			s.note("%s: acked: %s", it.Turn, it.ID)
			return s.unlucky(0.03)
		},
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
	going := true
	defer func() {
		if going { // it panics: the number would be lost
			fmt.Fprintf(os.Stderr, "seed %d broke\n", s.seed)
		}
	}()
	defer s.w.Close()
	for range 1 + s.rng.IntN(3) {
		s.boot()
	}
	for range 1 + s.rng.IntN(3) {
		s.newClient()
	}
	for i := 0; i < wildSteps && s.err == nil; i++ {
		s.step(s.wildly)
	}
	s.becalm()
	for i := 0; !s.over() && s.err == nil; i++ {
		if i == calmSteps {
			s.fail("no end after %d calm steps: %s", calmSteps, s.open())
		}
		s.step(s.calmly)
	}
	s.finalChecks()
	going = false
	return s.err
}

// becalm ends all faults.
func (s *sim) becalm() {
	s.note("from here on nothing goes wrong")
	s.calm, s.moved = true, s.w.Now()
	for _, n := range s.nodes {
		n.b.Mend()
		n.m.Resume()
		s.disturb(n)
	}
	s.serveAll()
}

// serveAll sees to it that every placement has a node.
func (s *sim) serveAll() {
	if !slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.draining && (n.far || !s.calm) }) {
		s.boot()
	}
}

func (s *sim) step(do func()) {
	s.steps++
	do()
	s.look()
	s.hear()
}

// wildly is a step while there are faults.
func (s *sim) wildly() {
	if x := s.rng.IntN(1000); x < 930 {
		s.work()
		return
	}
	switch x := s.rng.IntN(1000); {
	case x < 240:
		s.wait(time.Duration(s.rng.IntN(20_000)) * time.Millisecond)
	case x < 250:
		s.note("everything stands still")
		s.pass(time.Duration(s.rng.IntN(20_000)) * time.Millisecond)
	case x < 500:
		s.person()
	case x < 620:
		s.ask()
	case x < 680:
		s.pauseOrResume()
	case x < 730:
		s.cut()
	case x < 780:
		s.crash()
	case x < 820:
		s.counts.mark("redelivery")
		s.note("redelivered: %d messages", s.log.Redeliver(""))
	case x < 845:
		s.twice()
	case x < 865:
		s.drain()
	case x < 875:
		s.powerFailure()
	case x < 925 && len(s.clients) < 5 || s.day == busyDay && len(s.clients) < 8:
		s.newClient()
	case x < 950 && len(s.nodes) < 3:
		s.boot()
	default:
		s.wait(time.Duration(s.rng.IntN(60)) * time.Second)
	}
}

// wait lets the nodes work for a while, within bounds.
func (s *sim) wait(d time.Duration) {
	until := s.w.Now().Add(d)
	for i := 0; i < 200 && s.w.Now().Before(until) && s.err == nil; i++ {
		s.step(s.work)
	}
}

// twice has a message delivered once more than it was sent.
func (s *sim) twice() {
	if all := s.log.Queued(); len(all) > 0 {
		id := all[s.rng.IntN(len(all))].ID
		s.counts.mark("duplicate")
		s.note("duplicated: %s, %d messages", id, s.log.Duplicate(id))
	}
}

// calmly is a step once nothing goes wrong any more.
func (s *sim) calmly() {
	if s.rng.IntN(100) < 2 {
		s.ask()
		return
	}
	s.work()
}

// work lets one task of one node go on, or time pass where none can.
func (s *sim) work() {
	if s.w.Step() {
		s.bury()
		return
	}
	s.quiet()
	s.pass(s.soon())
}

// soon is the time until the next thing that happens by itself.
func (s *sim) soon() time.Duration {
	next := s.w.Now().Add(30 * time.Second)
	if at, ok := s.w.Next(); ok && at.Before(next) {
		next = at
	}
	if at, ok := s.log.NextDue(); ok && at.Before(next) {
		next = at
	}
	return max(next.Sub(s.w.Now()), 0)
}

// pass lets time pass.
func (s *sim) pass(d time.Duration) {
	s.w.Advance(s.w.Now().Add(d))
	s.log.Tick()
}

// seen is a turn as a door has read it.
type seen struct {
	turn lifecycle.Turn
	log  []bus.Stored
}

// load is a turn as a door sees it.
func (s *sim) load(key events.TurnKey) (t lifecycle.Turn, at uint64, log []bus.Stored) {
	s.look()
	known := s.seen[key]
	if known.log == nil {
		known.turn.Key = key
	}
	if n := len(known.log); n > 0 {
		at = known.log[n-1].Seq
	}
	return known.turn, at, known.log
}

// read is a turn's log as it is.
func (s *sim) read(key events.TurnKey) []bus.Stored {
	head, err := s.door.Head(ctx)
	if err != nil {
		s.fail("the log has no head: %v", err)
	}
	s.looking = true
	defer func() { s.looking = false }()
	log, err := s.door.Load(ctx, key, head.Seq-1)
	if err != nil {
		s.fail("a door cannot read: %v", err)
	}
	return log
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
func (s *sim) say(key events.TurnKey, cmd lifecycle.Command) {
	t, at, _ := s.load(key)
	now := s.now()
	records, err := lifecycle.Decide(t, lifecycle.Env{Now: now}, cmd)
	if err != nil || len(records) == 0 {
		s.note("%s: %T: nothing: %v", key, cmd, err)
		return
	}
	if c, ok := cmd.(lifecycle.CancelCall); ok {
		s.counts.mark("cancel while %s", t.Calls[c.Call].Phase)
	}
	c := events.Commit{ID: s.id("door"), Turn: key, At: now, Records: records}
	stored, err := s.door.Append(ctx, c, at)
	if errors.Is(err, bus.ErrUncertain) {
		stored, err = s.door.Append(ctx, c, at)
	}
	s.note("%s: %T: %v", key, cmd, err)
	if err != nil {
		return
	}
	if s.swept && s.unlucky(0.05) {
		s.counts.mark("door died before its wake-up")
		return // a sweep finds it
	}
	wake := bus.Item{ID: "wake." + c.ID, Turn: key, Seq: stored.Seq}
	for err = s.door.Wake(ctx, wake); err != nil && !s.swept; { // somebody has to know
		err = s.door.Wake(ctx, wake)
	}
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

package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/actors/det"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Bounds of one cell: in steps, for the turn and for each of its calls, in time on its
// own clock, and in what is said of one that goes wrong.
const (
	mostSteps     = 10_000
	mostCallSteps = 2_000
	mostTime      = 48 * time.Hour
	mostErrs      = 16
)

// began is where every cell's clock begins. It is finer than what is stored, so that
// whoever decides by what is not stored is found out.
var began = time.Date(2026, 1, 2, 3, 4, 5, 678_912_345, time.UTC)

// background never ends: what stands outside the nodes does not wait.
var background = context.Background()

// cell is one playing of a script.
type cell struct {
	s       *Script
	strikes []*strike
	system  *actors.System
	names   func() string // boot ids, unlike any other that lives in the system
	rng     *rand.Rand    // nil: no chance, and the oldest task goes first

	w        *det.World
	log      *memlog.Log
	door     *line
	nodes    []*node
	bench    *bench
	commits  []bus.Stored // of the turn, as they are in the log
	durable  int          // so many of them are past the barrier
	acts     []act        // that are still to be done
	waiting  int          // acts that have begun and not come through
	told     bool         // the client was told that its turn is kept
	ledger   ledger
	approval time.Duration
	ids      int
	errs     []Failure
	story    []string
	telling  bool
}

func newCell(s *Script, system *actors.System, names func() string, strikes ...*strike) *cell {
	c := &cell{s: s, strikes: strikes, system: system, names: names, bench: &bench{s: s, asked: make(map[*callScript]int)}}
	c.ledger.c = c
	c.bench.tried = func(call int) int { return c.count(call, events.KindRetrying) }
	c.acts = slices.Clone(s.acts)
	c.approval = lifecycle.DefaultApproval
	for _, k := range s.calls {
		if k.asked != nil && !k.answered || k.inputs > k.heard || slices.ContainsFunc(strikes, func(x *strike) bool { return x.row.Kind == Expiry }) {
			c.approval = expiry
		}
	}
	return c
}

// expiry is how long a person has to answer who does not: as long as it takes a node
// to park the turn, and no longer, since nothing but the clock goes on meanwhile.
const expiry = time.Minute

// pick is the world's only choice.
func (c *cell) pick(n int) int {
	if c.rng == nil {
		return 0
	}
	return c.rng.IntN(n)
}

// prepare makes the world, and puts into its log what came before the turn.
func (c *cell) prepare() {
	c.w = det.New(det.Config{
		Pick: c.pick, Start: began, Changes: func() uint64 { return c.log.Changes() },
		Delay: func(*det.Machine, string, bool) time.Duration { return -1 },
	})
	c.log = memlog.New(memlog.Config{Now: c.w.Now, Fault: &memlog.Faults{Barrier: c.barrier}})
	c.door = &line{c: c, view: c.log.View("door")}
	last := make(map[events.TurnKey]uint64)
	put := func(all []events.Commit) {
		for _, x := range all {
			s, err := c.door.view.Append(background, x, last[x.Turn])
			if err != nil {
				c.fail(lawEngine, events.TurnEvent, "the trace's history cannot be put into the log: %v", err)
				return
			}
			last[x.Turn] = s.Seq
		}
	}
	put(c.s.legacy)
	for _, h := range c.s.holders {
		if len(h.commits) > 0 && last[h.commits[0].Turn] == 0 {
			put(h.commits)
		}
		c.hold(h, last[h.commits[0].Turn])
	}
	for _, k := range c.s.calls {
		if k.idle {
			c.occupy(k, began.Add(mostIdle))
		}
	}
	if err := c.door.view.Barrier().Wait(background); err != nil { // it was durable long ago
		c.fail(lawEngine, events.TurnEvent, "the trace's history is not durable: %v", err)
	}
}

// mostIdle is how long a call is kept from starting that had not been started when it was
// recorded, and renewIdle how often that is said.
const (
	mostIdle  = 10 * time.Minute
	renewIdle = 10 * time.Second
)

// occupy holds what a call waits for, until the call has ended or the time is over.
func (c *cell) occupy(k *callScript, until time.Time) {
	if !c.w.Now().Before(until) || c.ended(k.offset) {
		return
	}
	cells, name := c.door.view.Cells(), lifecycle.Digest([]byte(k.waitsFor()))[len("sha256:"):]
	state, rev := lifecycle.LockState{}, uint64(0)
	if was, err := cells.Get(background, bus.BucketLock, name); err == nil {
		rev = was.Revision
		_ = json.Unmarshal(was.Value, &state) // what waits stays
	}
	state.Holds = []lifecycle.Hold{{Call: "other/turn/0", Boot: "other", Exclusive: true, Until: c.w.Now().Add(time.Minute)}}
	if _, err := cells.Put(background, bus.BucketLock, name, mustJSON(state), rev, 0); err != nil {
		c.fail(lawEngine, k.offset, "what it waits for cannot be held: %v", err)
	}
	c.w.At(c.w.Now().Add(renewIdle), func() { c.occupy(k, until) })
}

// ended says whether a call has its terminal.
func (c *cell) ended(call int) bool {
	for _, s := range c.commits {
		if r := s.Commit.Records[0]; r.Call == call && events.IsTerminal(r.Event.Kind()) {
			return true
		}
	}
	return false
}

// hold writes the entry of a key that a call outside the turn holds.
func (c *cell) hold(h holder, seq uint64) {
	value := mustJSON(lifecycle.KeyEntry{Holder: h.of, Hash: h.hash, Seq: seq})
	cell := lifecycle.Digest([]byte(h.key))[len("sha256:"):]
	if _, err := c.door.view.Cells().Put(background, bus.BucketKeys, cell, value, 0, 0); err != nil && !errors.Is(err, bus.ErrConflict) {
		c.fail(lawEngine, events.TurnEvent, "the key's entry cannot be written: %v", err)
	}
}

// barrier notes what is durable now.
func (c *cell) barrier() error {
	c.durable = len(c.commits)
	return nil
}

// play plays the script to its end.
func (c *cell) play() {
	c.prepare()
	defer c.close()
	c.boot()
	c.submit()
	until := began.Add(mostTime)
	for steps := 0; ; steps++ {
		if steps == mostSteps+mostCallSteps*len(c.s.calls) || c.w.Now().After(until) {
			c.fail(lawEnd, events.TurnEvent, "it does not come to an end: %s", c.standing())
			return
		}
		if len(c.errs) == mostErrs {
			return
		}
		if c.w.Step() {
			continue
		}
		if c.over() {
			return
		}
		c.pass()
	}
}

// close gives everything back.
func (c *cell) close() {
	for _, n := range c.nodes {
		n.m.Kill()
	}
	c.w.Close()
}

// pass lets time pass until something happens by itself.
func (c *cell) pass() {
	next := c.w.Now().Add(time.Minute)
	if at, ok := c.w.Next(); ok && at.Before(next) {
		next = at
	}
	if at, ok := c.log.NextDue(); ok && at.Before(next) {
		next = at
	}
	c.w.Advance(next)
	c.log.Tick()
}

// over says whether nothing more comes: the turn has ended, its messages are acked,
// nothing of it is in memory, and every fault has struck that could.
func (c *cell) over() bool {
	if !c.hasEnded() || c.waiting > 0 || slices.ContainsFunc(c.strikes, (*strike).pending) {
		return false
	}
	for _, n := range c.nodes {
		if turns, attempts := n.Running(); !n.m.Dead() && (turns > 0 || attempts > 0 || n.m.Paused()) {
			return false
		}
	}
	return !c.ledger.running() && len(c.log.Queued()) == 0
}

func (c *cell) hasEnded() bool {
	for i := len(c.commits) - 1; i >= 0; i-- {
		if r := c.commits[i].Commit.Records[0]; r.Call == events.TurnEvent && events.EndsTurn(r.Event.Kind()) {
			return true
		}
	}
	return false
}

// standing is where the turn stands, for whoever looks for what is missing.
func (c *cell) standing() string {
	t := lifecycle.Fold(c.s.Key, plain(c.commits)...)
	out := fmt.Sprintf("the turn has %d events", len(c.commits))
	for i, call := range t.Calls {
		out += fmt.Sprintf(", call %d is %s", i, call.Phase)
	}
	return out
}

func plain(stored []bus.Stored) []events.Commit {
	out := make([]events.Commit, len(stored))
	for i, s := range stored {
		out[i] = s.Commit
	}
	return out
}

// id is one that no other in the cell is.
func (c *cell) id(what string) string {
	c.ids++
	return fmt.Sprint(what, c.ids)
}

// tell adds to the story of the cell.
func (c *cell) tell(format string, args ...any) {
	if c.telling {
		c.story = append(c.story, fmt.Sprintf("%11.3fs  ", c.w.Now().Sub(began).Seconds())+fmt.Sprintf(format, args...))
	}
}

func (c *cell) fail(law string, call int, format string, args ...any) {
	f := Failure{Law: law, Call: call, Why: fmt.Sprintf(format, args...)}
	if len(c.errs) < mostErrs && !slices.Contains(c.errs, f) {
		c.errs = append(c.errs, f)
		c.tell("FAILED: %s", f)
	}
}

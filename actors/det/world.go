// Package det runs whole nodes one step at a time, on a clock that only its driver
// moves: a scheduler for package actors, and a bus over the memory log that waits
// through it. Every task of every machine is a coroutine; exactly one runs at any
// moment, and gives way where it waits. Which one goes on is asked of one function:
// with the same answers the same things happen, to the last step.
//
// It is ordinary code and needs no test. A World and all that belongs to it are used
// by one goroutine, the driver's; none of it is safe for several.
package det

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// Config is what a world is made of. Pick and Start are required.
type Config struct {
	// Pick returns a number from 0 to n-1. It is all the chance that there is.
	Pick func(n int) int
	// Start is where the clock begins.
	Start time.Time
	// Changes grows when a call that waits on the log may have got what it waits for:
	// memlog's Log.Changes. nil means that every step may have done so.
	Changes func() uint64
	// Delay is how long a machine's call on the bus takes, before it has reached the
	// bus or, back, before its answer has come; 0 means that others may run in
	// between, and less that they may not. nil means 0.
	Delay func(m *Machine, op string, back bool) time.Duration
}

// World is one run: its clock, its machines and their tasks.
type World struct {
	cfg     Config
	now     time.Time
	tasks   []*task // all that have not ended, oldest first
	current *task
	agenda  agenda
	idle    []*worker
	workers []*worker
	made    uint64 // tasks and timers, which are numbered
	desks   map[string]*desk
	ready   []*task // scratch
}

// New makes a world without machines.
func New(c Config) *World {
	if c.Changes == nil {
		n := uint64(0)
		c.Changes = func() uint64 { n++; return n }
	}
	if c.Delay == nil {
		c.Delay = func(*Machine, string, bool) time.Duration { return 0 }
	}
	return &World{cfg: c, now: c.Start, desks: make(map[string]*desk)}
}

// Now is the world's clock.
func (w *World) Now() time.Time { return w.now }

// Step lets one task that can go on do so, until it waits again or ends. false means
// that there is none: time has to pass.
func (w *World) Step() bool {
	if w.current != nil {
		panic("det: Step was called by a task: only the driver may")
	}
	changes := w.cfg.Changes()
	w.ready = w.ready[:0]
	for _, t := range w.tasks {
		if !t.m.paused && t.mayGoOn(w.now, changes) {
			w.ready = append(w.ready, t)
		}
	}
	for len(w.ready) > 0 {
		i := w.cfg.Pick(len(w.ready))
		t := w.ready[i]
		if t.goesOn(changes) {
			w.resume(t)
			return true
		}
		w.ready = slices.Delete(w.ready, i, i+1)
	}
	return false
}

// Next is when something happens by itself: the earliest of all timers and of
// the times that tasks wait for. ok is false if there is none. What a machine that is
// paused waits for counts.
func (w *World) Next() (at time.Time, ok bool) {
	earlier := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if len(w.agenda) > 0 {
		earlier(w.agenda[0].at)
	}
	for _, t := range w.tasks {
		if !t.at.IsZero() && t.at.After(w.now) {
			earlier(t.at)
		}
	}
	return at, ok
}

// Advance moves the clock, and starts what has fallen due, in order. A time that has
// passed moves nothing.
func (w *World) Advance(to time.Time) {
	for len(w.agenda) > 0 && !w.agenda[0].at.After(to) {
		x := heap.Pop(&w.agenda).(*timer)
		if x.at.After(w.now) {
			w.now = x.at
		}
		x.fired = true
		switch {
		case x.m == nil:
			x.fn()
		case !x.m.dead:
			w.spawn(x.m, x.fn).due = true
		}
	}
	if to.After(w.now) {
		w.now = to
	}
}

// At runs fn, in the driver, when the clock has come to at. It belongs to no machine
// and must not wait. stop keeps it from running.
func (w *World) At(at time.Time, fn func()) (stop func()) { return w.at(nil, at, fn) }

func (w *World) at(m *Machine, at time.Time, fn func()) (stop func()) {
	w.made++
	x := &timer{m: m, at: at, rank: w.made, fn: fn}
	heap.Push(&w.agenda, x)
	return func() {
		if !x.fired {
			x.fired = true
			heap.Remove(&w.agenda, x.place)
		}
	}
}

// Close ends every task of every machine where it stands, and gives everything back.
func (w *World) Close() {
	for len(w.tasks) > 0 {
		w.tasks[0].m.Kill()
	}
	for _, k := range w.workers {
		k.stop()
	}
	w.workers, w.idle, w.agenda = nil, nil, nil
}

// String says what every task waits for, for whoever looks for one that should not.
func (w *World) String() string {
	out := fmt.Sprintf("%s, %d timers", w.now.Format(time.RFC3339Nano), len(w.agenda))
	for _, t := range w.tasks {
		out += "\n" + t.String()
	}
	return out
}

// timer is something that happens at a time.
type timer struct {
	m     *Machine // nil: the driver's
	at    time.Time
	rank  uint64 // ties are settled in the order they were made
	fn    func()
	fired bool // or stopped
	place int
}

// agenda is a heap of timers, earliest first.
type agenda []*timer

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].rank, a[j].rank)) < 0
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

// Push is heap's.
func (a *agenda) Push(x any) {
	t := x.(*timer)
	t.place = len(*a)
	*a = append(*a, t)
}

// Pop is heap's.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

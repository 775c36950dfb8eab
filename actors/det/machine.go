package det

import (
	"context"
	"sync/atomic"
	"time"
)

// Machine is one process of the world: it is what actors.Config calls a Scheduler.
type Machine struct {
	w      *World
	name   string
	skew   time.Duration
	dead   bool
	paused bool
	timers map[*func()]time.Time // that run, by what stops them: when they have run out; zero: not made by After
}

// Machine starts a process. The name is for traces, and what others ask it by.
func (w *World) Machine(name string) *Machine {
	return &Machine{w: w, name: name, timers: make(map[*func()]time.Time)}
}

// Name is the machine's.
func (m *Machine) Name() string { return m.name }

// Now is the machine's own clock.
func (m *Machine) Now() time.Time { return m.w.now.Add(m.skew) }

// Skew sets the machine's clock off by d. Its timers run by durations and do not notice.
func (m *Machine) Skew(d time.Duration) { m.skew = d }

// Dead says whether the machine was killed.
func (m *Machine) Dead() bool { return m.dead }

// Paused says whether the machine stands still.
func (m *Machine) Paused() bool { return m.paused }

// Pause stops the machine as SIGSTOP does: the world goes on, and its timers run out,
// but none of its tasks goes on until Resume.
func (m *Machine) Pause() { m.paused = true }

// Resume ends a Pause.
func (m *Machine) Resume() { m.paused = false }

// Kill ends the machine as SIGKILL does: nothing of it goes on, ever. Called by a task
// of the machine itself, that task ends where it waits next.
func (m *Machine) Kill() {
	m.dead = true
	for stop := range m.timers {
		(*stop)()
	}
	clear(m.timers)
	var mine []*task
	for _, t := range m.w.tasks {
		if t.m == m && t != m.w.current {
			mine = append(mine, t)
		}
	}
	for _, t := range mine {
		m.w.drop(t)
		m.w.release(t)
	}
}

// Tasks is how many tasks of the machine have not ended. The function of a timer that
// has run out is one of them once it has begun: until then it is a timer, of no time.
func (m *Machine) Tasks() int {
	n := 0
	for _, t := range m.w.tasks {
		if t.m == m && (!t.due || t.fn == nil) {
			n++
		}
	}
	return n
}

// Timers is how many timers of the machine run for longer than d from now. What tasks
// wait for is not counted.
func (m *Machine) Timers(d time.Duration) int {
	n := 0
	for _, at := range m.timers {
		if at.After(m.w.now.Add(d)) {
			n++
		}
	}
	return n
}

// Go is actors.Scheduler's.
func (m *Machine) Go(fn func()) {
	if !m.dead {
		m.w.spawn(m, fn)
	}
}

// After is actors.Scheduler's.
func (m *Machine) After(d time.Duration, fn func()) (stop func()) {
	return m.timer(d, m.w.now.Add(d), fn)
}

// timer runs fn after d. counts is when it has run out, for Timers; zero: it is not
// counted.
func (m *Machine) timer(d time.Duration, counts time.Time, fn func()) (stop func()) {
	if m.dead {
		return func() {}
	}
	var halt func()
	halt = m.w.at(m, m.w.now.Add(max(d, 0)), func() {
		delete(m.timers, &halt)
		fn()
	})
	m.timers[&halt] = counts
	return func() {
		delete(m.timers, &halt)
		halt()
	}
}

// Wait is actors.Scheduler's. Only a task of this machine may call it.
func (m *Machine) Wait(d time.Duration, until ...<-chan struct{}) int {
	t := m.task("waiting")
	copy(t.until[:], until)
	if d > 0 {
		t.at = m.w.now.Add(d)
	}
	m.w.park(t)
	return t.got
}

// task is the one that runs.
func (m *Machine) task(what string) *task {
	t := m.w.current
	if t == nil || t.m != m {
		panic("det: " + m.name + " waits outside of its tasks")
	}
	t.what = what
	return t
}

// give lets others run for a while; at least for a moment, unless d is negative. It
// returns ctx's error where that ends first.
func (m *Machine) give(ctx context.Context, what string, d time.Duration) error {
	if d < 0 {
		return ctx.Err()
	}
	t := m.task(what)
	t.until[0], t.at = ctx.Done(), m.w.now.Add(d)
	m.w.park(t)
	if t.got == 0 {
		return ctx.Err()
	}
	return nil
}

// Timeout is actors.Scheduler's.
func (m *Machine) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(ctx)
	t := &timed{Context: inner}
	stop := m.timer(d, time.Time{}, func() {
		t.passed.Store(inner.Err() == nil)
		cancel()
	})
	return t, func() {
		stop()
		cancel()
	}
}

// timed is a context whose time may have passed.
type timed struct {
	context.Context
	passed atomic.Bool
}

// Err is context.Context's.
func (t *timed) Err() error {
	if err := t.Context.Err(); err == nil || !t.passed.Load() {
		return err
	}
	return context.DeadlineExceeded
}

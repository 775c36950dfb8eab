package det

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"
)

// task is a coroutine of a machine, and what it waits for. One that waits for
// nothing can go on.
type task struct {
	m    *Machine
	rank uint64
	what string
	k    *worker
	fn   func() // what it begins with; nil once it has begun
	due  bool   // it is the function of a timer that has run out

	waits bool
	until [4]<-chan struct{}
	at    time.Time // zero: no time
	try   func() (done bool, err error)
	tried uint64 // changes at the last try

	got int // index of what came, -1: the time
	err error
}

// mayGoOn says whether the task can go on, as far as can be told without a try.
func (t *task) mayGoOn(now time.Time, changes uint64) bool {
	if !t.waits {
		return true
	}
	for i, c := range t.until {
		if c == nil {
			continue
		}
		select {
		case <-c:
			t.came(i)
			return true
		default:
		}
	}
	if !t.at.IsZero() && !t.at.After(now) {
		t.came(-1)
		return true
	}
	return t.try != nil && t.tried != changes
}

// goesOn says whether the task goes on now that it was picked.
func (t *task) goesOn(changes uint64) bool {
	if t.waits && t.try != nil {
		t.tried = changes
		if done, err := t.try(); done || err != nil {
			t.came(0)
			t.err = err
		}
	}
	return !t.waits
}

func (t *task) came(i int) { t.waits, t.got = false, i }

func (t *task) String() string {
	s := fmt.Sprintf("%s: %s", t.m.name, t.what)
	switch {
	case !t.waits:
		return s + " can go on"
	case !t.at.IsZero():
		return s + " waits until " + t.at.Format(time.RFC3339Nano)
	}
	return s + " waits"
}

// spawn makes a task that has not begun.
func (w *World) spawn(m *Machine, fn func()) *task {
	w.made++
	t := &task{m: m, rank: w.made, fn: fn}
	w.tasks = append(w.tasks, t)
	return t
}

// resume runs the task until it waits or ends.
func (w *World) resume(t *task) {
	if t.fn != nil {
		t.k = w.worker()
		t.k.fn, t.fn = t.fn, nil
	}
	w.current = t
	t.k.next()
	w.current = nil
	switch {
	case t.k.fn == nil: // it has ended
		w.drop(t)
		w.idle = append(w.idle, t.k)
	case t.m.dead:
		w.drop(t)
		w.release(t)
	}
}

func (w *World) drop(t *task) {
	if i := slices.Index(w.tasks, t); i >= 0 {
		w.tasks = slices.Delete(w.tasks, i, i+1)
	}
}

// park has the running task wait for what its fields say.
func (w *World) park(t *task) {
	t.waits = true
	if !t.k.yield(struct{}{}) {
		runtime.Goexit() // it is being released: nothing of it goes on
	}
	t.until, t.at, t.try = [4]<-chan struct{}{}, time.Time{}, nil
}

// worker is a coroutine that runs one task after another.
type worker struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	fn    func() // nil: it has nothing to do
}

func (w *World) worker() *worker {
	if n := len(w.idle); n > 0 {
		k := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return k
	}
	k := &worker{}
	k.next, k.stop = iter.Pull(func(yield func(struct{}) bool) {
		k.yield = yield
		for {
			k.fn()
			k.fn = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	w.workers = append(w.workers, k)
	return k
}

// release ends the coroutine of a dead machine's task where it stands. What it had
// deferred runs, and finds that nothing can be done any more: its machine schedules
// nothing and its bus answers nothing. The end of a coroutine goes on into whoever
// asks for it, so that a goroutine is spent on it.
func (w *World) release(t *task) {
	if t.k == nil {
		return // it had not begun
	}
	was := w.current
	w.current = t
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.k.stop()
	}()
	<-done
	w.current = was
	if i := slices.Index(w.workers, t.k); i >= 0 {
		w.workers = slices.Delete(w.workers, i, i+1)
	}
}

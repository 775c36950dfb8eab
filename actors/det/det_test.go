package det

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testWorld is a world over a log, by a seed.
func testWorld(t *testing.T, seed uint64) (*World, *memlog.Log) {
	var w *World
	log := memlog.New(memlog.Config{Now: func() time.Time { return w.Now() }})
	w = New(Config{Pick: rand.New(rand.NewPCG(seed, 1)).IntN, Start: start, Changes: log.Changes})
	t.Cleanup(w.Close)
	return w, log
}

// rest lets everything happen that can before a time.
func rest(w *World, log *memlog.Log, until time.Time) {
	for {
		for w.Step() {
		}
		next, ok := w.Next()
		if at, due := log.NextDue(); due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
		if !ok || next.After(until) {
			w.Advance(until)
			return
		}
		w.Advance(next)
		log.Tick()
	}
}

func item(id string) bus.Item { return bus.Item{ID: id, Turn: events.TurnKey{Trace: "t", Turn: "u"}} }

// TestSeedDecides who goes first, and nothing else does.
func TestSeedDecides(t *testing.T) {
	play := func(seed uint64) string {
		w, log := testWorld(t, seed)
		var out []string
		for i := range 4 {
			m := w.Machine(fmt.Sprint("m", i))
			m.Go(func() {
				for j := range 3 {
					out = append(out, fmt.Sprint(m.Name(), j))
					m.Wait(time.Duration(j) * time.Millisecond)
					m.After(time.Millisecond, func() { out = append(out, m.Name()+"!") })
				}
			})
		}
		rest(w, log, start.Add(time.Second))
		return strings.Join(out, " ")
	}
	all := make(map[string]bool)
	for seed := range uint64(10) {
		one, two := play(seed), play(seed)
		if one != two {
			t.Errorf("seed %d:\n%s\n%s", seed, one, two)
		}
		all[one] = true
	}
	if len(all) < 5 {
		t.Errorf("10 seeds gave %d orders", len(all))
	}
}

// TestKill ends tasks where they stand: what they had deferred finds that nothing can
// be done any more.
func TestKill(t *testing.T) {
	w, log := testWorld(t, 1)
	m := w.Machine("m")
	b := m.Connect(log)
	var went, deferred bool
	var pushed error
	m.Go(func() {
		defer func() {
			deferred = true
			m.Go(func() { went = true })
			m.After(0, func() { went = true })
			pushed = b.Push(t.Context(), item("late"))
		}()
		m.Wait(0)
		went = true
	})
	m.After(time.Second, func() { went = true })
	rest(w, log, start.Add(time.Millisecond))
	m.Kill()
	rest(w, log, start.Add(time.Hour))
	if went || !deferred || !errors.Is(pushed, bus.ErrUnavailable) || m.Tasks() != 0 || m.Timers(0) != 0 || len(log.Queued()) != 0 {
		t.Errorf("went on %t, deferred %t, push: %v, %d tasks, %d timers, queued %v", went, deferred, pushed, m.Tasks(), m.Timers(0), log.Queued())
	}
}

// TestAMachineKillsItself: the task that does it ends where it waits next.
func TestAMachineKillsItself(t *testing.T) {
	w, log := testWorld(t, 1)
	m := w.Machine("m")
	var before, after bool
	m.Go(func() {
		m.Kill()
		before = true
		m.Wait(0)
		after = true
	})
	rest(w, log, start.Add(time.Hour))
	if !before || after || !m.Dead() || m.Tasks() != 0 {
		t.Errorf("before %t, after %t, dead %t, %d tasks", before, after, m.Dead(), m.Tasks())
	}
}

// TestPause: time passes for a machine that stands still, and it finds out afterwards.
func TestPause(t *testing.T) {
	w, log := testWorld(t, 1)
	m, other := w.Machine("m"), w.Machine("other")
	b, o := m.Connect(log), other.Connect(log)
	ctx := t.Context()
	var rang time.Time
	var asked error
	m.After(time.Second, func() { rang = w.Now() })
	m.Go(func() { _ = b.Serve(ctx, "m", func(q []byte) []byte { return q }) })
	rest(w, log, start.Add(time.Millisecond))
	m.Pause()
	other.Go(func() {
		ctx, stop := other.Timeout(ctx, time.Minute)
		defer stop()
		_, asked = o.Ask(ctx, "m", nil)
	})
	rest(w, log, start.Add(time.Hour))
	if !rang.IsZero() || !errors.Is(asked, context.DeadlineExceeded) {
		t.Errorf("rang at %s, asked: %v", rang, asked)
	}
	m.Resume()
	rest(w, log, start.Add(time.Hour))
	if !rang.Equal(start.Add(time.Hour)) {
		t.Errorf("rang at %s", rang)
	}
}

// TestATimerThatHasRunOutIsNoTask until it begins: whoever stopped in that moment has left
// nothing that runs.
func TestATimerThatHasRunOutIsNoTask(t *testing.T) {
	w, _ := testWorld(t, 1)
	m := w.Machine("m")
	begun, counted := false, -1
	m.After(time.Second, func() { begun, counted = true, m.Tasks() })
	w.Advance(start.Add(time.Second))
	if begun || m.Tasks() != 0 || m.Timers(0) != 0 {
		t.Errorf("begun %t, %d tasks, %d timers", begun, m.Tasks(), m.Timers(0))
	}
	for w.Step() {
	}
	if !begun || counted != 1 || m.Tasks() != 0 {
		t.Errorf("begun %t, %d tasks in it, %d after it", begun, counted, m.Tasks())
	}
}

// TestDeathInBetween: a machine dies when its call has reached the log and its answer
// has not come back, or before that.
func TestDeathInBetween(t *testing.T) {
	for back, kept := range map[bool]int{false: 0, true: 1} {
		w, log := testWorld(t, 1)
		m := w.Machine("m")
		b := m.Connect(log)
		w.cfg.Delay = func(_ *Machine, op string, b bool) time.Duration {
			if op == "push" && b == back {
				return time.Minute
			}
			return 0
		}
		answered := false
		m.Go(func() {
			_ = b.Push(t.Context(), item("a"))
			answered = true
		})
		rest(w, log, start.Add(time.Second))
		m.Kill()
		rest(w, log, start.Add(time.Hour))
		if answered || len(log.Queued()) != kept {
			t.Errorf("killed on the way back %t: answered %t, queued %v", back, answered, log.Queued())
		}
	}
}

// TestPullWaits for what another machine pushes, and fails where it is cut off.
func TestPullWaits(t *testing.T) {
	w, log := testWorld(t, 3)
	m, other := w.Machine("m"), w.Machine("other")
	b, o := m.Connect(log), other.Connect(log)
	var got []string
	var failed error
	m.Go(func() {
		for {
			var d bus.Delivery
			if d, failed = b.Pull(t.Context(), []string{events.DefaultPlacement}); failed != nil {
				return
			}
			got = append(got, d.Item().ID)
			_ = d.Ack()
		}
	})
	rest(w, log, start.Add(time.Second))
	other.Go(func() { _ = o.Push(t.Context(), item("a")) })
	rest(w, log, start.Add(2*time.Second))
	b.Cut()
	other.Go(func() { _ = o.Push(t.Context(), item("b")) })
	rest(w, log, start.Add(3*time.Second))
	if fmt.Sprint(got) != "[a]" || len(log.Queued()) != 1 || !errors.Is(failed, bus.ErrUnavailable) {
		t.Errorf("got %v, then %v, queued %v", got, failed, log.Queued())
	}
}

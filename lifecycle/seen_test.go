package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// observer is a node whose clock is off, at a lock's cell.
type observer struct {
	boot string
	off  time.Duration
	seen []lifecycle.Sighting
}

// act reads the cell and changes it, as a node does.
func (o *observer) act(cell *lifecycle.LockState, at time.Time, how func(lifecycle.LockState, time.Time) (lifecycle.LockState, bool)) bool {
	now := at.Add(o.off)
	o.seen = cell.Sight(o.boot, now, o.seen)
	next, ok := how(cell.Local(o.seen, lifecycle.LockTTL), now)
	*cell = next.Shared(o.seen, lifecycle.LockTTL)
	return ok
}

func (o *observer) hold(call string, exclusive bool, now time.Time) lifecycle.Hold {
	return lifecycle.Hold{Call: call, Boot: o.boot, Exclusive: exclusive, Until: now.Add(lifecycle.LockTTL)}
}

func (o *observer) take(cell *lifecycle.LockState, at time.Time, call string, exclusive bool) bool {
	return o.act(cell, at, func(l lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		return l.Take(now, o.hold(call, exclusive, now))
	})
}

func (o *observer) renew(cell *lifecycle.LockState, at time.Time, call string, exclusive bool) bool {
	return o.act(cell, at, func(l lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		return l.Renew(now, o.hold(call, exclusive, now))
	})
}

// TestLeasesWhereClocksDiffer: whatever clocks say, a lease that its holder may still
// believe in is nobody else's.
func TestLeasesWhereClocksDiffer(t *testing.T) {
	hunt(t, func(t *rapid.T) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var cell lifecycle.LockState
		nodes := make([]*observer, 3)
		for i := range nodes {
			nodes[i] = &observer{boot: fmt.Sprint("n", i), off: time.Duration(rapid.IntRange(-3600, 3600).Draw(t, "off")) * time.Second}
		}
		type held struct {
			exclusive bool
			until     time.Time // true time until which its holder believes in it
		}
		holders := map[string]held{} // by boot: every node takes for one call
		for range 40 {
			n := nodes[pick(t, len(nodes), "node")]
			h, has := holders[n.boot]
			has = has && at.Before(h.until)
			switch pick(t, 3, "what") {
			case 0:
				at = at.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
				continue
			case 1:
				if has && !n.renew(&cell, at, n.boot, h.exclusive) {
					t.Fatalf("%s lost a lease that it had: %+v", n.boot, cell)
				}
				if has {
					holders[n.boot] = held{h.exclusive, at.Add(lifecycle.LockTTL)}
				}
			case 2:
				exclusive := rapid.Bool().Draw(t, "exclusive")
				if !has && n.take(&cell, at, n.boot, exclusive) {
					holders[n.boot] = held{exclusive, at.Add(lifecycle.LockTTL)}
				}
			}
			believe, writers := 0, 0
			for _, h := range holders {
				if at.Before(h.until) {
					believe++
					if h.exclusive {
						writers++
					}
				}
			}
			if writers > 1 || writers == 1 && believe > 1 {
				t.Fatalf("%d holders, %d of them exclusive: %+v", believe, writers, holders)
			}
		}
	})
}

// TestALeaseEndsWhereClocksDiffer: a holder that is gone keeps a lock from others for
// one lease after they have first seen it, also if its clock was ahead.
func TestALeaseEndsWhereClocksDiffer(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var cell lifecycle.LockState
		dead, other := &observer{boot: "dead", off: off}, &observer{boot: "other"}
		if !dead.take(&cell, at, "c", true) {
			t.Fatal("a free lock cannot be had")
		}
		for i := range 30 {
			if other.take(&cell, at.Add(time.Duration(i)*time.Second), "d", true) {
				t.Fatalf("clock %v off: the lease of another node ended after %d s", off, i)
			}
		}
		if !other.take(&cell, at.Add(lifecycle.LockTTL), "d", true) {
			t.Errorf("clock %v off: the lease has not ended", off)
		}
		if got := cell.Holds; len(got) != 1 || got[0].Boot != "other" {
			t.Errorf("%+v", got)
		}
	}
}

// TestBreakersWhereClocksDiffer: a window and a probe's lease last as long for those
// whose clocks are elsewhere.
func TestBreakersWhereClocksDiffer(t *testing.T) {
	cfg := lifecycle.BreakerConfig{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		there := at.Add(off) // the other node's clock
		cell := lifecycle.Breaker{}
		for range 3 {
			cell = cell.Report(cfg, there, "x", events.ClassUnavailable)
		}
		seen := cell.Sight(cfg, at, at, lifecycle.BreakerSight{}, true)
		if s := seen.Local().State(cfg, at.Add(299*time.Second)); s != lifecycle.BreakerOpen {
			t.Errorf("%v: %s before the window is over", off, s)
		}
		if s := seen.Local().State(cfg, at.Add(300*time.Second)); s != lifecycle.BreakerHalfOpen {
			t.Errorf("%v: %s after it", off, s)
		}
		if back := seen.Shared(seen.Local(), at); back != cell {
			t.Errorf("%v: %+v became %+v", off, cell, back)
		}
		probed, ok := cell.Admit(cfg, there.Add(300*time.Second), "probe")
		if !ok {
			t.Fatal("no probe")
		}
		now := at.Add(301 * time.Second)
		seen = probed.Sight(cfg, now, now, seen, true)
		if _, ok := seen.Local().Admit(cfg, now.Add(59*time.Second), "second"); ok {
			t.Errorf("%v: two probes", off)
		}
		next, ok := seen.Local().Admit(cfg, now.Add(60*time.Second), "second")
		if !ok || next.Probe != "second" {
			t.Errorf("%v: the probe's lease does not end", off)
		}
		if got := seen.Shared(next, now); !got.OpenedAt.Equal(cell.OpenedAt) || got.Probe != "second" {
			t.Errorf("%v: %+v is written", off, got)
		}
	}
}

// TestABreakerThatWasThereBefore: who comes later believes what the cell says, but
// nothing of the future.
func TestABreakerThatWasThereBefore(t *testing.T) {
	cfg := lifecycle.BreakerConfig{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		opened, want time.Duration
	}{{-2 * time.Minute, -2 * time.Minute}, {time.Hour, 0}} {
		for _, off := range []time.Duration{-time.Hour, 0, time.Hour} { // of the observer's own clock
			own := at.Add(off)
			s := lifecycle.Breaker{Failures: 3, OpenedAt: at.Add(c.opened)}.Sight(cfg, own, at, lifecycle.BreakerSight{}, false)
			if !s.Opened.Equal(own.Add(c.want)) {
				t.Errorf("opened %v ago, it counts from %v", -c.opened, s.Opened.Sub(own))
			}
		}
	}
}

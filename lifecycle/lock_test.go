package lifecycle_test

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/lifecycle"
)

// What one boot holds for several calls is renewed one after the other, also where all
// of it has run out; but not where another has had the lock meanwhile.
func TestLockRenewedLate(t *testing.T) {
	hold := func(call string, exclusive bool, at time.Time) lifecycle.Hold {
		return lifecycle.Hold{Call: call, Boot: "n1", Exclusive: exclusive, Until: at.Add(lifecycle.LockTTL)}
	}
	later := start.Add(2 * lifecycle.LockTTL)
	one, two := "t/1/0", "t/1/1"
	l, _ := lifecycle.LockState{}.Take(start, hold(one, false, start))
	l, _ = l.Take(start, hold(two, false, start))
	next, first := l.Renew(later, hold(one, false, later))
	next, second := next.Renew(later, hold(two, false, later))
	if !first || !second || !next.Held(later, one, "n1") || !next.Held(later, two, "n1") {
		t.Errorf("both ran out, and nobody came: renewed %v and %v, got %v", first, second, next)
	}
	writer := lifecycle.Hold{Call: "t/2/0", Boot: "n2", Exclusive: true, Until: later.Add(lifecycle.LockTTL)}
	l, ok := l.Take(later, writer)
	if l = l.Free(later, writer.Call); !ok || !l.Empty(later) {
		t.Fatalf("a writer takes what has run out, and gives it back: got %v", l)
	}
	if next, ok := l.Renew(later, hold(one, false, later)); ok {
		t.Errorf("a writer has come and gone: renewed, got %v", next)
	}
}

// Writers who wait get the lock in the order in which they were first refused, however
// often they and others ask; whoever has it enters again past them.
func TestLockWritersInOrder(t *testing.T) {
	hold := func(call string, exclusive bool) lifecycle.Hold {
		return lifecycle.Hold{Call: call, Boot: "boot of " + call, Exclusive: exclusive, Until: start.Add(lifecycle.LockTTL)}
	}
	var l lifecycle.LockState
	ask := func(call string, exclusive, want bool) {
		t.Helper()
		next, ok := l.Take(start, hold(call, exclusive))
		if l = next; ok != want {
			t.Errorf("%s is given the lock: %v, want %v; it is now %v", call, ok, want, l)
		}
	}
	ask("t/0/0", true, true)
	for range 3 { // each comes again, the last one most often
		ask("t/1/0", true, false)
		ask("t/2/0", true, false)
		ask("t/2/0", true, false)
	}
	ask("t/3/0", false, false)
	ask("t/0/0", true, true)
	l = l.Free(start, "t/0/0")
	ask("t/3/0", false, false)
	ask("t/2/0", true, false)
	ask("t/1/0", true, true)
	l = l.Free(start, "t/1/0")
	ask("t/3/0", false, false)
	ask("t/4/0", true, false)
	l = l.Free(start, "t/2/0") // it has given up waiting
	ask("t/3/0", false, false)
	ask("t/4/0", true, true)
	if l = l.Free(start, "t/4/0"); !l.Empty(start) {
		t.Errorf("something is left: %v", l)
	}
	ask("t/3/0", false, true)
	ask("t/5/0", true, false)
	ask("t/3/0", true, true) // nobody else reads: it becomes a writer
}

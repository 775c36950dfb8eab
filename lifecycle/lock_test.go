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

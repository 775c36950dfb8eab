package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// What a history cannot show of locks: in which order those who wait get them.

func lockFleet(t *testing.T, p place) *fleet {
	return newFleet(t, p, 0, bus.BucketLock, nil, testTool("echo", events.Readonly, echo))
}

// leaseFor takes one resource for a call of a turn's name; the answer comes on the channel.
func leaseFor(t *testing.T, wg *sync.WaitGroup, m *machine, turn, resource string, exclusive bool) <-chan events.Lock {
	got := make(chan events.Lock, 1)
	key := events.CallKey{Trace: "order", Turn: turn}
	wg.Go(func() {
		uses := []events.ResourceUse{{Name: resource, Exclusive: exclusive}}
		have, err := m.locks.takeAll(m.ctx, key, uses, "")
		for errors.Is(err, bus.ErrUnavailable) && pause(m.ctx, backOff) {
			have, err = m.locks.takeAll(m.ctx, key, uses, "")
		}
		if err != nil {
			t.Errorf("%s: %v", turn, err)
			have = []events.Lock{{}}
		}
		got <- have[0]
	})
	return got
}

// queued is how many takes of a resource are under way on a node.
func queued(m *machine, resource string) int {
	m.locks.mu.Lock()
	defer m.locks.mu.Unlock()
	if s := m.locks.pids[resource]; s != nil {
		return s.takes
	}
	return 0
}

// On one node leases are given in the order in which they were asked for.
func TestLocksFirstComeFirstServed(t *testing.T) {
	onePlace(t, func(t *testing.T, p place, rnd *rand.Rand) {
		m := lockFleet(t, p).node(0)
		var wg sync.WaitGroup
		first := <-leaseFor(t, &wg, m, "first", "r", true)
		var waiting []<-chan events.Lock
		for i := range 12 {
			waiting = append(waiting, leaseFor(t, &wg, m, fmt.Sprint("w", i), "r", rnd.IntN(3) > 0))
			comes(t, "a place in the queue", func() bool { return queued(m, "r") == i+1 })
		}
		m.locks.undo(first, events.CallKey{Trace: "order", Turn: "first"})
		last := first.Revision
		for i, got := range waiting {
			l := <-got
			if l.Revision <= last {
				t.Errorf("number %d has its lease at %d, the one before at %d", i, l.Revision, last)
			}
			last = l.Revision
			m.locks.undo(l, events.CallKey{Trace: "order", Turn: fmt.Sprint("w", i)})
		}
		wg.Wait()
	})
}

// Readers of two nodes always have the lock, one handing over to the next, until a
// writer of a third asks: from then on no new reader passes it.
func TestLocksWritersDoNotStarve(t *testing.T) {
	bothPlaces(t, func(t *testing.T, p place, _ *rand.Rand) {
		f := lockFleet(t, p)
		var wg sync.WaitGroup
		for round := range 3 {
			resource := fmt.Sprint("r", round)
			name := func(i int) string { return fmt.Sprintf("reader-%d-%d", round, i) }
			key := func(turn string) events.CallKey { return events.CallKey{Trace: "order", Turn: turn} }
			held := <-leaseFor(t, &wg, f.node(0), name(0), resource, false)
			at := 0
			for i := 1; i < 6; i++ { // one leaves when the next has come
				next := <-leaseFor(t, &wg, f.node(i%2), name(i), resource, false)
				f.node(at%2).locks.undo(held, key(name(at)))
				held, at = next, i
			}
			writer := leaseFor(t, &wg, f.node(2), fmt.Sprint("writer-", round), resource, true)
			comes(t, "a writer that waits", func() bool { return writerWaits(f, resource) })
			late := []<-chan events.Lock{
				leaseFor(t, &wg, f.node(0), name(100), resource, false), leaseFor(t, &wg, f.node(1), name(101), resource, false),
			}
			comes(t, "readers that wait, too", func() bool { return queued(f.node(0), resource)+queued(f.node(1), resource) == 2 })
			f.node(at%2).locks.undo(held, key(name(at)))
			w := <-writer
			f.node(2).locks.undo(w, key(fmt.Sprint("writer-", round)))
			for i, got := range late {
				l := <-got
				if l.Revision <= w.Revision {
					t.Errorf("round %d: a reader who asked later has its lease at %d, the writer at %d", round, l.Revision, w.Revision)
				}
				f.node(i).locks.undo(l, key(name(100+i)))
			}
		}
		wg.Wait()
	})
}

func writerWaits(f *fleet, resource string) bool {
	c, err := f.node(2).cfg.Bus.Cells().Get(f.t.Context(), bus.BucketLock, lockCell(resource))
	var s lifecycle.LockState
	return err == nil && json.Unmarshal(c.Value, &s) == nil && slices.ContainsFunc(s.Waiting, func(h lifecycle.Hold) bool { return h.Exclusive })
}

// Calls that need several resources, declared in any order and some of them twice,
// with both kinds of lease, all get them.
func TestLocksNoDeadlock(t *testing.T) {
	onePlace(t, func(t *testing.T, p place, rnd *rand.Rand) {
		f := lockFleet(t, p)
		var wg sync.WaitGroup
		for i := range 18 {
			var uses []events.ResourceUse
			for _, r := range rnd.Perm(4)[:2+rnd.IntN(2)] {
				uses = append(uses, events.ResourceUse{Name: fmt.Sprint("r", r), Exclusive: rnd.IntN(2) == 0})
			}
			again := uses[rnd.IntN(len(uses))]
			again.Exclusive = !again.Exclusive
			uses = append(uses, again)
			m, key := f.node(i), events.CallKey{Trace: "order", Turn: fmt.Sprint("d", i)}
			wg.Go(func() { takeAndLeave(t, m, key, uses) })
		}
		wg.Wait()
	})
}

// takeAndLeave takes all, and gives it back.
func takeAndLeave(t *testing.T, m *machine, key events.CallKey, uses []events.ResourceUse) {
	ctx, stop := context.WithTimeout(m.ctx, 2*time.Minute) // their nodes renew what they have: a deadlock would last
	defer stop()
	have, err := m.locks.takeAll(ctx, key, uses, "")
	for errors.Is(err, bus.ErrUnavailable) && pause(ctx, backOff) {
		have, err = m.locks.takeAll(ctx, key, uses, "")
	}
	if err != nil {
		t.Errorf("%v of %s: %v", uses, key, err)
		return
	}
	for _, u := range uses {
		if u.Exclusive && !slices.ContainsFunc(have, func(l events.Lock) bool { return l.Resource == u.Name && l.Exclusive }) {
			t.Errorf("%s asked for %s alone, and has %v", key, u.Name, have)
		}
	}
	for _, l := range have {
		m.locks.undo(l, key)
	}
}

// A node whose calls always want the lock hands it over to another node's that asked
// before them.
func TestLocksOfABusyNode(t *testing.T) {
	bothPlaces(t, func(t *testing.T, p place, _ *rand.Rand) {
		f := lockFleet(t, p)
		var wg sync.WaitGroup
		first := <-leaseFor(t, &wg, f.node(0), "first", "r", true)
		other := leaseFor(t, &wg, f.node(1), "other", "r", true)
		comes(t, "a writer that waits", func() bool { return writerWaits(f, "r") })
		var busy []<-chan events.Lock
		for i := range 8 {
			busy = append(busy, leaseFor(t, &wg, f.node(0), fmt.Sprint("busy-", i), "r", true))
			comes(t, "a place in the queue", func() bool { return queued(f.node(0), "r") == i+1 })
		}
		f.node(0).locks.undo(first, events.CallKey{Trace: "order", Turn: "first"})
		got := <-other
		f.node(1).locks.undo(got, events.CallKey{Trace: "order", Turn: "other"})
		for i, c := range busy {
			l := <-c
			if l.Revision < got.Revision {
				t.Errorf("the busy node's number %d has the lock at %d, the other node's call, which was first, at %d", i, l.Revision, got.Revision)
			}
			f.node(0).locks.undo(l, events.CallKey{Trace: "order", Turn: fmt.Sprint("busy-", i)})
		}
		wg.Wait()
	})
}

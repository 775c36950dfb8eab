package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

const (
	linearTTL     = time.Second // of a lease: the shortest that a cell can keep
	lockResources = 3
)

// Many clients of three nodes, whose clocks are hours apart, take leases on a few
// resources while servers come and go, clients die with what they hold and a node is
// killed: nobody has a lease beside one that excludes it, and all get theirs in the end.
func TestLinearLocks(t *testing.T) {
	bothPlaces(t, func(t *testing.T, p place, rnd *rand.Rand) {
		r := newLockRun(t, p)
		r.run(rnd, 16, r.client)
		ops := r.history()
		t.Log(tally(ops, func(op porcupine.Operation) string { return string(op.Input.(lockOp).do) }))
		checkLinear(t, lockModel(), ops, func(part []porcupine.Operation, from, to int64) string {
			return r.tap.between(lockCell(part[0].Input.(lockOp).resource), from, to)
		})
		r.checkWrites()
		r.everybodyAgain()
	})
}

// lockRun is one run of many clients.
type lockRun struct {
	*fleet
	got []*granted // under mu
}

// granted is a lease that a client was given.
type granted struct {
	client    int
	call      string
	lock      events.Lock
	freed     int64 // when it began to give it back; 0: it never did
	how       lockVerb
	asked, at int64 // when it asked, and had it
	tries     int   // in vain, before
}

func newLockRun(t *testing.T, p place) *lockRun {
	f := newFleet(t, p, time.Hour, bus.BucketLock, func(c *Config) { c.LockTTL = linearTTL }, testTool("echo", events.Readonly, echo))
	return &lockRun{fleet: f}
}

// client takes leases and gives them back, or dies with them, or has its next owner
// enter them on another node.
func (r *lockRun) client(id int, rnd *rand.Rand, round int) {
	key := events.CallKey{Trace: "linear", Turn: fmt.Sprintf("c%d-%d", id, round)}
	var uses []events.ResourceUse
	for _, i := range rnd.Perm(lockResources)[:1+rnd.IntN(2)] {
		uses = append(uses, events.ResourceUse{Name: fmt.Sprint("r", i), Exclusive: rnd.IntN(2) == 0})
	}
	patience := 3 * time.Minute
	if rnd.IntN(8) == 0 {
		patience = time.Duration(1+rnd.IntN(60)) * time.Millisecond
	}
	m, fate := r.node(id), rnd.IntN(40)
	have := r.take(id, m, key, uses, patience)
	switch {
	case len(have) == 0:
		return
	case fate == 0: // its turn is not this node's any more, and nobody else takes it
		m.locks.drop(key.TurnKey())
		return
	case fate == 1: // longer than a lease lasts
		pause(m.ctx, linearTTL*3/2)
	case fate == 2: // and its node is held up meanwhile
		m.gate.shut(m.ctx, linearTTL*3/2+time.Duration(rnd.IntN(2000))*time.Millisecond)
	case fate < 8:
		if m, have = r.move(id, m, key, uses, have, fate < 5); m == nil {
			return
		}
	default:
		pause(m.ctx, time.Duration(rnd.IntN(3000))*time.Microsecond)
	}
	if m.ctx.Err() == nil { // a dead node gives nothing back
		r.giveBack(m, key, have, rnd.IntN(2) == 0)
	}
}

// move has the call's next owner enter what it has on another node. Its earlier one
// has let go before, or, as one that was paused would, only afterwards.
func (r *lockRun) move(id int, m *machine, key events.CallKey, uses []events.ResourceUse, have []*granted, late bool) (*machine, []*granted) {
	next, patience, began := r.node(id+1), 3*time.Minute, r.clock.now()
	if late {
		patience = 2 * time.Second
	} else {
		m.locks.drop(key.TurnKey())
	}
	entered := r.take(id, next, key, uses, patience)
	m.locks.drop(key.TurnKey())
	if len(entered) != 1 || entered[0].tries > 0 { // what was entered at first may have been given back meanwhile
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, g := range have {
			g.freed, g.how = began, lockUndo
		}
	}
	if len(entered) == 0 {
		return nil, nil
	}
	return next, entered
}

// take asks until it has all, as a call does that waits at its gate.
func (r *lockRun) take(id int, m *machine, key events.CallKey, uses []events.ResourceUse, patience time.Duration) []*granted {
	ctx, stop := context.WithTimeout(m.ctx, patience)
	defer stop()
	for tries := 0; ; tries++ {
		began := r.clock.now()
		locks, err := m.locks.takeAll(ctx, key, uses, "")
		if err == nil {
			var have []*granted
			for _, l := range locks {
				have = append(have, &granted{client: id, call: key.String(), lock: l, asked: began, at: r.clock.now(), tries: tries})
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got = append(r.got, have...)
			return have
		}
		if !pause(ctx, 20*time.Millisecond) {
			if patience > time.Minute && m.ctx.Err() == nil {
				r.t.Errorf("call %s did not get its leases in %v: %v", key, patience, err)
			}
			return nil
		}
	}
}

func (r *lockRun) giveBack(m *machine, key events.CallKey, have []*granted, all bool) {
	for _, g := range have {
		r.mu.Lock()
		g.freed, g.how = r.clock.now(), lockFree
		if !all {
			g.how = lockUndo
		}
		r.mu.Unlock()
		if all {
			m.locks.free(g.lock.Resource, key)
		} else {
			m.locks.undo(g.lock, key)
		}
	}
}

// history is what the clients were told, with the moments at which leases lapse: not
// before their time is over by the clock of the node that wrote it.
func (r *lockRun) history() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, g := range r.got {
		op := lockOp{do: lockTake, resource: g.lock.Resource, call: g.call, boot: g.lock.Boot, exclusive: g.lock.Exclusive, token: g.lock.Revision}
		add := func(do lockVerb, call, end int64) {
			o := op
			o.do = do
			ops = append(ops, porcupine.Operation{ClientId: g.client, Input: o, Call: call, Return: max(call, end)})
		}
		wrote := r.tap.kept(lockCell(g.lock.Resource))
		i := slices.IndexFunc(wrote, func(w written) bool { return w.got == g.lock.Revision })
		if i < 0 {
			r.t.Errorf("%v: no write has its token", op)
			continue
		}
		until, ok := r.until(wrote[i], g)
		if !ok || wrote[i].call < g.asked || wrote[i].end > g.at {
			r.t.Errorf("%v: the write with its token is not its own", op)
			continue
		}
		add(lockTake, wrote[i].call, min(wrote[i].end, until))
		for _, w := range wrote[i+1:] {
			later, ok := r.until(w, g)
			if !ok || later <= max(until, w.call) || g.freed > 0 && w.call > g.freed {
				continue
			}
			if w.call > until {
				add(lockLapse, until+1, until+1)
				add(lockRenew, w.call, min(w.end, later))
			}
			until = later
		}
		if g.freed == 0 || until < g.freed {
			add(lockLapse, until+1, until+1)
		}
		if g.freed > 0 {
			add(g.how, g.freed, g.freed)
		}
	}
	return ops
}

// until is when a lease ends that a write contains, on the history's clock.
func (r *lockRun) until(w written, g *granted) (int64, bool) {
	for _, h := range stateOf(r.t, w).Holds {
		if h.Call == g.call && h.Boot == g.lock.Boot && h.Exclusive == g.lock.Exclusive {
			return r.clock.of(h.Until.Add(-r.skew[h.Boot])), true
		}
	}
	return 0, false
}

func stateOf(t *testing.T, w written) (s lifecycle.LockState) {
	if err := json.Unmarshal(w.value, &s); err != nil {
		t.Errorf("the cell %s at %d: %v", w.key, w.got, err)
	}
	return s
}

// checkWrites holds every write to what no client can see: no two are kept behind one
// revision; each carries a time to live, and takes no lease away that still runs,
// unless its call has given it back, or has entered it on another node.
func (r *lockRun) checkWrites() {
	given := map[string]bool{} // by call and boot: whether it has it still
	for _, g := range r.got {
		given[g.call+" "+g.lock.Boot] = true
	}
	for _, g := range r.got {
		if g.freed > 0 {
			for boot := range r.skew {
				delete(given, g.call+" "+boot)
			}
		}
	}
	for i := range lockResources {
		cell := lockCell(fmt.Sprint("r", i))
		var was lifecycle.LockState
		var last uint64
		behind := map[uint64]uint64{}
		for _, w := range r.tap.kept(cell) {
			now := stateOf(r.t, w)
			if other := behind[w.behind]; other != 0 && w.behind != 0 {
				r.t.Errorf("writes %d and %d were both kept behind %d", other, w.got, w.behind)
			}
			behind[w.behind] = w.got
			if w.ttl < linearTTL {
				r.t.Errorf("write %d has a time to live of %v: its cell would stay after its holders", w.got, w.ttl)
			}
			if w.behind == last {
				r.checkKept(w, was, now, given)
			}
			was, last = now, w.got
		}
	}
}

// checkKept compares two states that follow each other.
func (r *lockRun) checkKept(w written, was, now lifecycle.LockState, given map[string]bool) {
	for _, h := range was.Holds {
		stays := slices.ContainsFunc(now.Holds, func(x lifecycle.Hold) bool { return x.Call == h.Call })
		until := r.clock.of(h.Until.Add(-r.skew[h.Boot]))
		if !stays && until > w.call && given[h.Call+" "+h.Boot] {
			r.t.Errorf("write %d takes the lease of %s on %s away, which runs until %v", w.got, h.Call, h.Boot, time.Duration(until))
		}
	}
}

// everybodyAgain takes each resource alone from each node: whatever died with a
// lease has let it go.
func (r *lockRun) everybodyAgain() {
	for n := range fleetNodes {
		m := r.node(n)
		for i := range lockResources {
			key := events.CallKey{Trace: "linear", Turn: fmt.Sprintf("last-%d-%d", n, i)}
			ctx, stop := context.WithTimeout(m.ctx, time.Minute)
			locks, err := m.locks.takeAll(ctx, key, []events.ResourceUse{{Name: fmt.Sprint("r", i), Exclusive: true}}, "")
			for err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				locks, err = m.locks.takeAll(ctx, key, []events.ResourceUse{{Name: fmt.Sprint("r", i), Exclusive: true}}, "")
			}
			stop()
			if err != nil {
				r.t.Errorf("node %d cannot have r%d any more: %v", n, i, err)
				continue
			}
			m.locks.undo(locks[0], key)
		}
	}
}

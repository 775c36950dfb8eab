package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// locks are the leases on resources: one actor a resource, first come first
// served on this node, and a cell that the cluster shares.
type locks struct {
	n    *Node
	mu   sync.Mutex
	pids map[string]*lockSeat
	seen sights
}

// lockSeat is a lock's actor, kept while anybody on this node needs it.
type lockSeat struct {
	pid   *actor.PID
	takes int                  // under way
	told  int                  // messages that its actor has not done with: what it gives back it gives back BEFORE another takes
	held  map[string][]uint64  // by call: the takes that it has, by their revisions
	until map[string]time.Time // by call: when its lease ends
}

func newLocks(n *Node) *locks { return &locks{n: n, pids: make(map[string]*lockSeat)} }

// scopedResource names a resource in the cluster. Files are a workspace's own, and the
// slots of limits nobody's.
func scopedResource(name, workspace string) string {
	switch {
	case strings.HasPrefix(name, "file:"):
		return workspace + " " + name
	case strings.HasPrefix(name, lifecycle.LimitResource):
		return "tool " + name
	}
	return name
}

// lockCell is the name of a resource's cell.
func lockCell(resource string) string {
	if strings.HasPrefix(resource, lifecycle.LimitResource) {
		return slotCell(resource)
	}
	return lifecycle.Digest([]byte(resource))[len("sha256:"):]
}

// takeAll takes the leases, in one order for everybody, or none.
func (l *locks) takeAll(ctx context.Context, call events.CallKey, uses []events.ResourceUse, workspace string) ([]events.Lock, error) {
	var out []events.Lock
	for _, u := range sortedUses(uses) {
		name := scopedResource(u.Name, workspace)
		got, err := l.take(ctx, call, name, u.Exclusive)
		if err != nil {
			for _, have := range out {
				l.undo(have, call)
			}
			return nil, fmt.Errorf("lease on %s: %w", u.Name, err)
		}
		out = append(out, got)
	}
	return out, nil
}

func (l *locks) take(ctx context.Context, call events.CallKey, resource string, exclusive bool) (events.Lock, error) {
	return l.await(resource, takeLock{ctx: ctx, call: call.String(), exclusive: exclusive, done: newPromise[tookLock]()})
}

// await has a resource's actor serve a take, and notes what it has got.
func (l *locks) await(resource string, m takeLock) (events.Lock, error) {
	l.at(resource, true, func(s *lockSeat) {
		s.takes++
		l.tell(s, m)
	})
	var r tookLock
	if l.n.cfg.Scheduler.Wait(0, m.done.done, m.ctx.Done()) == 0 {
		r = m.done.is
	} else {
		r.err = m.ctx.Err()
	}
	l.at(resource, true, func(s *lockSeat) {
		s.takes--
		if r.err == nil {
			s.held[m.call], s.until[m.call] = append(s.held[m.call], r.rev), r.until
			return
		}
		l.tell(s, leaveLock{m}) // whatever it got meanwhile is given back
	})
	return events.Lock{Resource: resource, Exclusive: m.exclusive, Boot: l.n.cfg.Boot, Revision: r.rev}, r.err
}

// undo gives one take back. Others of the same call stay: an attempt that runs
// keeps its lease although a second start that was prepared for it was not wanted.
func (l *locks) undo(have events.Lock, call events.CallKey) {
	key := call.String()
	l.at(have.Resource, false, func(s *lockSeat) {
		i := slices.Index(s.held[key], have.Revision)
		if i < 0 {
			return // given back already
		}
		if s.held[key] = slices.Delete(s.held[key], i, i+1); len(s.held[key]) == 0 {
			delete(s.held, key)
		}
		l.tell(s, undoLock{key, have.Revision})
	})
}

// free gives up all that the call has of a resource, also what an earlier owner
// of the call took. A call that has nothing is no error.
func (l *locks) free(resource string, call events.CallKey) {
	l.at(resource, true, func(s *lockSeat) {
		delete(s.held, call.String())
		l.tell(s, freeLock{call.String()})
	})
}

// freeHeld is free where this node has taken something for the call.
func (l *locks) freeHeld(resource string, call events.CallKey) {
	l.at(resource, false, func(s *lockSeat) {
		if len(s.held[call.String()]) > 0 {
			delete(s.held, call.String())
			l.tell(s, freeLock{call.String()})
		}
	})
}

// lost notes that the call does not have the resource any more.
func (l *locks) lost(resource string, call string) {
	l.at(resource, false, func(s *lockSeat) { delete(s.held, call) })
}

// until notes when the lease of a call ends now.
func (l *locks) until(resource, call string, at time.Time) {
	l.at(resource, false, func(s *lockSeat) { s.until[call] = at })
}

// has says whether the call still has all of these, as far as this node knows.
func (l *locks) has(call events.CallKey, all []events.Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(all, func(have events.Lock) bool {
		s := l.pids[have.Resource]
		mine := s != nil && slices.Contains(s.held[call.String()], have.Revision) && l.n.cfg.Steady().Before(s.until[call.String()])
		return have.Boot == l.n.cfg.Boot && !mine
	})
}

// drop forgets what this node holds for a turn that it does not act for any more.
// The leases stay in their cells until they end, or the call's next owner, who
// enters them, gives them back.
func (l *locks) drop(turn events.TurnKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, resource := range ordered(l.pids) {
		s := l.pids[resource]
		for _, call := range ordered(s.held) {
			if k, err := events.ParseCallKey(call); err == nil && k.TurnKey() == turn {
				delete(s.held, call)
				l.tell(s, dropLock{call})
			}
		}
		l.leave(resource, s)
	}
}

// at does something with a resource's seat, under the lock, so that the actor
// hears of it in the same order. make says that there must be one.
func (l *locks) at(resource string, make bool, fn func(*lockSeat)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pids[resource]
	if s == nil && !make {
		return
	}
	if s == nil {
		s = &lockSeat{held: map[string][]uint64{}, until: map[string]time.Time{}}
		l.n.shared.add()
		s.pid = l.n.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &lockActor{n: l.n, resource: resource} }, actor.WithDispatcher(dispatcher{l.n.cfg.Scheduler})))
		l.pids[resource] = s
	}
	fn(s)
	l.leave(resource, s)
}

// tell sends the actor something that it says it has done. The caller holds mu.
func (l *locks) tell(s *lockSeat, m any) {
	s.told++
	l.n.root.Send(s.pid, m)
}

// did hears that a resource's actor has done what it was told.
func (l *locks) did(resource string) {
	l.at(resource, false, func(s *lockSeat) { s.told-- })
}

// leave lets the actor go once nobody needs it, and it has nothing left to do: there
// is never a second one that could take what the first still gives back.
func (l *locks) leave(resource string, s *lockSeat) {
	if s.takes == 0 && s.told == 0 && len(s.held) == 0 {
		delete(l.pids, resource)
		l.n.root.Poison(s.pid)
	}
}

// stop ends the actors behind what they were told. Node.shared says when they have
// ended.
func (l *locks) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, resource := range ordered(l.pids) {
		l.n.root.Poison(l.pids[resource].pid)
	}
}

type takeLock struct {
	ctx       context.Context
	call      string
	exclusive bool
	slots     int       // of a limit; 0: it is a lock
	until     time.Time // of a slot: when it is no use any more, by Config.Steady
	done      *promise[tookLock]
}

type tookLock struct {
	rev   uint64
	until time.Time
	err   error
}

// leaveLock ends a take that nobody waits for any more.
type leaveLock struct{ take takeLock }

// undoLock gives one take of a call back.
type undoLock struct {
	call string
	rev  uint64
}

// freeLock gives up all that a call has, whatever boot took it.
type freeLock struct{ call string }

// dropLock forgets what a call has here, and leaves its cell alone.
type dropLock struct{ call string }

// lease is what a call has of a resource through this node.
type lease struct {
	lifecycle.Hold
	revs []uint64 // of its takes
}

type renewLocks struct{}

type retryLock struct{}

// lockActor is one resource on this node: a queue in front of the cluster's cell.
type lockActor struct {
	n        *Node
	resource string
	self     *actor.PID
	queue    []takeLock
	held     []lease
	holds    []lifecycle.Hold // in the cell, as it was when a take was tried last
	tick     func()           // stops the timer of the next renewal; nil if there is none
	retry    func()           // stops the timer that asks for the lock again; nil if there is none
}

// Receive is proto.actor's.
func (a *lockActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
	case *actor.Stopping:
		a.stop()
	case *actor.Stopped:
		a.n.shared.done()
	case retryLock:
		a.retry = nil
		a.serve()
	case renewLocks:
		a.renew()
	case takeLock, leaveLock, undoLock, freeLock, dropLock:
		a.told(m)
		a.serve()
		a.n.locks.did(a.resource)
	}
}

// told does what the node asks for.
func (a *lockActor) told(m any) {
	switch m := m.(type) {
	case takeLock:
		a.queue = append(a.queue, m)
	case leaveLock:
		a.leave(m.take)
	case undoLock:
		a.undo(m.call, m.rev)
	case freeLock:
		a.forget(m.call)
		a.clear(func(s lifecycle.LockState, now time.Time) lifecycle.LockState { return s.Free(now, m.call) })
	case dropLock:
		a.forget(m.call)
	}
}

// serve gives the lock to the first in the queue, and to those behind it that
// can share it.
func (a *lockActor) serve() {
	for len(a.queue) > 0 && a.serveOne(a.next()) {
	}
}

// next is whose turn it is: the first in the queue, but for a call that has the lock
// already. One that tries again must not stand behind those who wait for its end.
func (a *lockActor) next() int {
	i := slices.IndexFunc(a.queue, func(m takeLock) bool {
		return slices.ContainsFunc(a.holds, func(h lifecycle.Hold) bool { return h.Call == m.call })
	})
	return max(i, 0)
}

// serveOne answers a take of the queue. false means that it, and all others, must wait.
func (a *lockActor) serveOne(i int) bool {
	m := a.queue[i]
	answer := func(t tookLock) bool {
		a.queue = slices.Delete(a.queue, i, i+1)
		m.done.keep(t)
		return true
	}
	if err := m.ctx.Err(); err != nil {
		return answer(tookLock{err: err})
	}
	h := lifecycle.Hold{Call: m.call, Boot: a.n.cfg.Boot, Exclusive: m.exclusive, Slots: m.slots}
	ctx, stop := a.n.timeout(m.ctx, a.n.cfg.LockTTL/3) // or the renewals of what is held would wait behind it
	defer stop()
	rev, ok, err := a.cell(ctx, func(s lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		a.holds = s.Holds
		h.Until = now.Add(a.n.cfg.LockTTL)
		next, ok := s.Take(now, h)
		if !ok && m.overdue(now) { // nobody is to stand behind one who does not wait
			return s, false
		}
		return next, ok
	})
	switch {
	case err != nil && ctx.Err() != nil && m.ctx.Err() == nil:
		a.later()
		return false
	case err != nil: // it may have been kept: leave gives it back
		return answer(tookLock{err: err})
	case ok && !a.n.cfg.Steady().Before(h.Until): // the cell took longer than the lease: it is asked again
		a.later()
		return false
	case ok:
		a.hold(h, rev)
		a.schedule()
		return answer(tookLock{rev: rev, until: h.Until})
	case a.next() != i:
		return true // a call that has the lock stands behind it
	}
	a.deny()
	a.later()
	return false
}

// lockRetry is how long a node waits before it asks again for a lock that
// another call holds.
const lockRetry = 25 * time.Millisecond

func (a *lockActor) later() {
	if a.retry == nil {
		wait := lockRetry + time.Duration(a.n.cfg.Rand()*float64(lockRetry))
		a.retry = a.n.after(wait, func() { a.n.root.Send(a.self, retryLock{}) })
	}
}

func (a *lockActor) schedule() {
	if a.tick == nil {
		a.tick = a.n.after(a.n.cfg.LockTTL/3, func() { a.n.root.Send(a.self, renewLocks{}) })
	}
}

// hold notes a take of a call.
func (a *lockActor) hold(h lifecycle.Hold, rev uint64) {
	i := a.find(h.Call)
	if i < 0 {
		a.held = append(a.held, lease{Hold: h, revs: []uint64{rev}})
		return
	}
	a.held[i].Hold, a.held[i].revs = h, append(a.held[i].revs, rev)
}

func (a *lockActor) find(call string) int {
	return slices.IndexFunc(a.held, func(x lease) bool { return x.Call == call })
}

// renew extends every lease that this node holds here. One that the call's next
// owner has entered, or that ran out and went to somebody else, is this node's no
// more: it would stand in their way for ever.
func (a *lockActor) renew() {
	a.tick = nil
	if len(a.held) == 0 {
		return
	}
	var renewed []lifecycle.Hold
	var lost []string
	ctx, stop := a.n.timeout(a.n.ctx, a.n.cfg.LockTTL/3) // a node that is cut off must notice that its leases end
	defer stop()
	_, _, err := a.cell(ctx, func(s lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		renewed, lost = nil, nil
		for i := range a.held {
			h := a.held[i].Hold
			h.Until = now.Add(a.n.cfg.LockTTL)
			next, ok := s.Renew(now, h)
			if !ok {
				lost = append(lost, h.Call)
				continue
			}
			s, renewed = next, append(renewed, h)
		}
		return s, true
	})
	if err != nil {
		a.n.log.Error("a lease could not be renewed", "resource", a.resource, "err", err)
		renewed, lost = nil, a.over()
	}
	for _, h := range renewed {
		a.held[a.find(h.Call)].Hold = h
		a.n.locks.until(a.resource, h.Call, h.Until)
	}
	for _, call := range lost {
		a.n.log.Warn("a lease was lost: somebody else may have it", "resource", a.resource, "call", call)
		a.forget(call)
		a.n.locks.lost(a.resource, call)
		a.n.hands.lose(call)
	}
	a.schedule()
}

// over are the calls whose leases have ended by this node's clock.
func (a *lockActor) over() []string {
	var out []string
	for _, l := range a.held {
		if !a.n.cfg.Steady().Before(l.Until) {
			out = append(out, l.Call)
		}
	}
	return out
}

// leave ends a take that its caller has given up, or whose outcome is not known.
func (a *lockActor) leave(m takeLock) {
	a.queue = slices.DeleteFunc(a.queue, func(q takeLock) bool { return q.done == m.done })
	if m.done.kept() && m.done.is.err == nil { // it had been served, and nobody has heard
		a.undo(m.call, m.done.is.rev)
		return
	}
	if a.find(m.call) < 0 { // its place among those who wait, and what may have been kept
		a.freeOwn(m.call)
	}
}

// undo gives one take of a call back, and with the last one the lease.
func (a *lockActor) undo(call string, rev uint64) {
	i := a.find(call)
	if i < 0 {
		return
	}
	l := &a.held[i]
	if l.revs = slices.DeleteFunc(l.revs, func(r uint64) bool { return r == rev }); len(l.revs) == 0 {
		a.held = slices.Delete(a.held, i, i+1)
		a.freeOwn(call)
	}
}

// freeOwn gives back what the call has through this node. What another boot has
// taken for it stays.
func (a *lockActor) freeOwn(call string) {
	a.clear(func(s lifecycle.LockState, now time.Time) lifecycle.LockState {
		return s.FreeOn(now, call, a.n.cfg.Boot)
	})
}

// forget drops a call here, and answers takes of it that wait.
func (a *lockActor) forget(call string) {
	a.queue = slices.DeleteFunc(a.queue, func(m takeLock) bool {
		gone := m.call == call
		if gone {
			m.done.keep(tookLock{err: context.Canceled})
		}
		return gone
	})
	a.held = slices.DeleteFunc(a.held, func(x lease) bool { return x.Call == call })
}

// clear takes something away from the cell.
func (a *lockActor) clear(how func(lifecycle.LockState, time.Time) lifecycle.LockState) {
	ctx, stop := a.n.timeout(context.WithoutCancel(a.n.ctx), 5*time.Second)
	defer stop()
	_, _, err := a.cell(ctx, func(s lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		return how(s, now), true
	})
	if err != nil {
		a.n.log.Warn("a lease was not given back: it ends by itself", "resource", a.resource, "err", err)
	}
}

// cell changes the cluster's cell by compare-and-swap. ok is what how said of
// the state that was kept.
func (a *lockActor) cell(ctx context.Context, how func(lifecycle.LockState, time.Time) (lifecycle.LockState, bool)) (rev uint64, ok bool, err error) {
	cells, key := a.n.cfg.Bus.Cells(), lockCell(a.resource)
	for {
		c, err := cells.Get(ctx, bus.BucketLock, key)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return 0, false, err
		}
		var was lifecycle.LockState
		if len(c.Value) > 0 {
			if err := json.Unmarshal(c.Value, &was); err != nil {
				return 0, false, fmt.Errorf("the cell of lock %s: %w", key, err)
			}
		}
		now, ttl := a.n.cfg.Steady().UTC(), a.n.cfg.LockTTL
		first := now
		if !c.Left.IsZero() && c.Left.Before(now) { // it is from before this process, by the same clock
			first = c.Left
		}
		seen := a.n.locks.seen.look(a.resource, a.n.cfg.Boot, first, ttl, was)
		next, ok := how(was.Local(seen, ttl), now)
		if next.Empty(now) {
			if c.Revision == 0 {
				return 0, ok, nil
			}
			err = cells.Delete(ctx, bus.BucketLock, key, c.Revision)
		} else {
			rev, err = a.n.putLocks(ctx, key, next.Shared(seen, ttl), c.Revision)
		}
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		return rev, ok, err
	}
}

// lockCellTTL is how long a cell stays that nobody writes any more. It is not what ends
// a lease: whoever looks judges that. The server counts by its own clock, and its
// marker of an expiry may land behind a newer value.
const lockCellTTL = 24 * time.Hour

// putLocks writes a cell of locks.
func (n *Node) putLocks(ctx context.Context, key string, s lifecycle.LockState, rev uint64) (uint64, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	return n.cfg.Bus.Cells().Put(ctx, bus.BucketLock, key, b, rev, max(n.cfg.LockTTL, lockCellTTL))
}

func (a *lockActor) stop() {
	if a.tick != nil {
		a.tick()
	}
	if a.retry != nil {
		a.retry()
	}
	for _, m := range a.queue {
		m.done.keep(tookLock{err: errStopping})
	}
	a.queue = nil
}

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
}

// lockSeat is a lock's actor, kept while anybody on this node needs it.
type lockSeat struct {
	pid  *actor.PID
	uses int
}

func newLocks(n *Node) *locks { return &locks{n: n, pids: make(map[string]*lockSeat)} }

// scopedResource names a resource in the cluster. Files are a workspace's own.
func scopedResource(name, workspace string) string {
	if strings.HasPrefix(name, "file:") {
		return workspace + " " + name
	}
	return name
}

// lockCell is the name of a resource's cell.
func lockCell(resource string) string { return lifecycle.Digest([]byte(resource))[len("sha256:"):] }

// takeAll takes the leases, in one order for everybody, or none.
func (l *locks) takeAll(ctx context.Context, call events.CallKey, uses []events.ResourceUse, workspace string) ([]events.Lock, error) {
	var out []events.Lock
	for _, u := range sortedUses(uses) {
		name := scopedResource(u.Name, workspace)
		got, err := l.take(ctx, call, name, u.Exclusive)
		if err != nil {
			for _, have := range out {
				l.free(have.Resource, call)
			}
			return nil, fmt.Errorf("lease on %s: %w", u.Name, err)
		}
		out = append(out, got)
	}
	return out, nil
}

func (l *locks) take(ctx context.Context, call events.CallKey, resource string, exclusive bool) (events.Lock, error) {
	m := takeLock{ctx: ctx, call: call.String(), exclusive: exclusive, done: make(chan tookLock, 1)}
	l.n.root.Send(l.seat(resource), m)
	select {
	case r := <-m.done:
		if r.err != nil {
			l.leave(resource)
		}
		return events.Lock{Resource: resource, Exclusive: exclusive, Boot: l.n.cfg.Boot, Revision: r.rev}, r.err
	case <-ctx.Done():
		l.free(resource, call) // behind the take in the mailbox: whatever it got is given back
		return events.Lock{}, ctx.Err()
	}
}

// free gives a lease back, also one that an earlier owner of the call took. One
// that the call does not hold is no error.
func (l *locks) free(resource string, call events.CallKey) {
	l.mu.Lock()
	known := l.pids[resource] != nil
	l.mu.Unlock()
	if known {
		defer l.leave(resource) // the use that take began
	}
	l.n.root.Send(l.seat(resource), freeLock{call.String()})
	l.leave(resource)
}

func (l *locks) seat(resource string) *actor.PID {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pids[resource]
	if s == nil {
		s = &lockSeat{}
		s.pid = l.n.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &lockActor{n: l.n, resource: resource} }, actor.WithDispatcher(l.n.pool)))
		l.pids[resource] = s
	}
	s.uses++
	return s.pid
}

// leave lets the actor go once nobody needs it. Poison goes behind the mailbox.
func (l *locks) leave(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.pids[resource]
	if s == nil {
		return
	}
	if s.uses--; s.uses <= 0 {
		delete(l.pids, resource)
		l.n.root.Poison(s.pid)
	}
}

func (l *locks) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.pids {
		_ = l.n.root.StopFuture(s.pid).Wait() // its error is a time-out of the library's own
	}
}

type takeLock struct {
	ctx       context.Context
	call      string
	exclusive bool
	done      chan tookLock
}

type tookLock struct {
	rev uint64
	err error
}

type freeLock struct{ call string }

type renewLocks struct{}

type retryLock struct{}

// lockActor is one resource on this node: a queue in front of the cluster's cell.
type lockActor struct {
	n        *Node
	resource string
	self     *actor.PID
	queue    []takeLock
	held     []lifecycle.Hold
	tick     *time.Timer
	retry    *time.Timer
}

// Receive is proto.actor's.
func (a *lockActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
	case *actor.Stopping:
		a.stop()
	case takeLock:
		a.queue = append(a.queue, m)
		a.serve()
	case freeLock:
		a.freeCall(m.call)
		a.serve()
	case retryLock:
		a.retry = nil
		a.serve()
	case renewLocks:
		a.renew()
	}
}

// serve gives the lock to the first in the queue, and to those behind it that
// can share it.
func (a *lockActor) serve() {
	for len(a.queue) > 0 {
		m := a.queue[0]
		if err := m.ctx.Err(); err != nil {
			a.queue = a.queue[1:]
			m.done <- tookLock{err: err}
			continue
		}
		h := lifecycle.Hold{Call: m.call, Boot: a.n.cfg.Boot, Exclusive: m.exclusive}
		rev, ok, err := a.cell(m.ctx, func(s lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
			h.Until = now.Add(a.n.cfg.LockTTL)
			return s.Take(now, h)
		})
		switch {
		case err != nil:
			a.queue = a.queue[1:]
			m.done <- tookLock{err: err}
		case ok:
			a.queue = a.queue[1:]
			a.held = append(slices.DeleteFunc(a.held, func(x lifecycle.Hold) bool { return x.Call == h.Call }), h)
			a.schedule()
			m.done <- tookLock{rev: rev}
		default:
			a.later()
			return
		}
	}
}

// lockRetry is how long a node waits before it asks again for a lock that
// another call holds.
const lockRetry = 25 * time.Millisecond

func (a *lockActor) later() {
	if a.retry == nil {
		wait := lockRetry + time.Duration(a.n.cfg.Rand()*float64(lockRetry))
		a.retry = time.AfterFunc(wait, func() { a.n.root.Send(a.self, retryLock{}) })
	}
}

func (a *lockActor) schedule() {
	if a.tick == nil {
		a.tick = time.AfterFunc(a.n.cfg.LockTTL/3, func() { a.n.root.Send(a.self, renewLocks{}) })
	}
}

// renew extends every lease that this node holds here.
func (a *lockActor) renew() {
	a.tick = nil
	if len(a.held) == 0 {
		return
	}
	_, _, err := a.cell(a.n.ctx, func(s lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		for i := range a.held {
			a.held[i].Until = now.Add(a.n.cfg.LockTTL)
			s, _ = s.Take(now, a.held[i])
		}
		return s, true
	})
	if err != nil {
		a.n.log.Error("a lease could not be renewed", "resource", a.resource, "err", err)
	}
	a.schedule()
}

func (a *lockActor) freeCall(call string) {
	a.queue = slices.DeleteFunc(a.queue, func(m takeLock) bool {
		gone := m.call == call
		if gone {
			m.done <- tookLock{err: context.Canceled}
		}
		return gone
	})
	a.held = slices.DeleteFunc(a.held, func(h lifecycle.Hold) bool { return h.Call == call })
	ctx, stop := context.WithTimeout(context.WithoutCancel(a.n.ctx), 5*time.Second)
	defer stop()
	_, _, err := a.cell(ctx, func(s lifecycle.LockState, now time.Time) (lifecycle.LockState, bool) {
		return s.Free(now, call), true
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
		now := a.n.cfg.Now().UTC()
		next, ok := how(was, now)
		if next.Empty(now) {
			if c.Revision == 0 {
				return 0, ok, nil
			}
			err = cells.Delete(ctx, bus.BucketLock, key, c.Revision)
		} else {
			rev, err = a.put(ctx, key, next, c.Revision)
		}
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		return rev, ok, err
	}
}

func (a *lockActor) put(ctx context.Context, key string, s lifecycle.LockState, rev uint64) (uint64, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	return a.n.cfg.Bus.Cells().Put(ctx, bus.BucketLock, key, b, rev, max(a.n.cfg.LockTTL, time.Second))
}

func (a *lockActor) stop() {
	if a.tick != nil {
		a.tick.Stop()
	}
	if a.retry != nil {
		a.retry.Stop()
	}
	for _, m := range a.queue {
		m.done <- tookLock{err: errStopping}
	}
	a.queue = nil
}

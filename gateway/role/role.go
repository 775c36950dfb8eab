// Package role gives a task of a cluster to one node at a time, by a lease in a cell
// that all nodes share. It never holds up anything else.
package role

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// Role is a task that one node of a cluster has at a time. Cells, Name and Holder are
// required. Two nodes may believe for a moment that they have it, when a lease ends
// under one that was stopped: what the task writes must be compared and swapped.
type Role struct {
	Cells  bus.Cells
	Name   string        // of the lease's cell in bus.BucketLock, where the names of locks are hexadecimal
	Holder string        // who has it: unlike any other in the cluster
	Lease  time.Duration // how long the role outlives who has it; at least 1 s, 0 means 10 s
	Log    *slog.Logger  // nil discards
}

// Run has work done for as long as this node has the role, again and again, until ctx
// ends. work's context ends when the role is lost. It returns when work has returned,
// and then gives the role back, so that the next one need not wait.
func (r Role) Run(ctx context.Context, work func(context.Context) error) {
	r.Lease = cmp.Or(r.Lease, 10*time.Second)
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	for r.turn(ctx, work); Waited(ctx, r.Lease/3); r.turn(ctx, work) {
	}
}

// Waited says whether d has passed before ctx ended.
func Waited(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// turn takes the role, if nobody has it, and works for as long as it has it.
func (r Role) turn(ctx context.Context, work func(context.Context) error) {
	rev, err := r.take(ctx)
	if err != nil || rev == 0 {
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("a lease cannot be had: trying again", "lease", r.Name, "err", err)
		}
		return
	}
	mine, lost := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer lost()
		for Waited(mine, r.Lease/3) {
			if rev, err = r.Cells.Put(mine, bus.BucketLock, r.Name, []byte(r.Holder), rev, r.Lease); err != nil {
				return
			}
		}
	})
	if err := work(mine); err != nil && mine.Err() == nil {
		r.Log.Warn("a task of the cluster cannot go on now: trying again", "lease", r.Name, "err", err)
	}
	lost()
	wg.Wait()
	if rev != 0 && ctx.Err() != nil {
		given, stop := context.WithTimeout(context.WithoutCancel(ctx), r.Lease)
		defer stop()
		if err := r.Cells.Delete(given, bus.BucketLock, r.Name, rev); err != nil {
			r.Log.Debug("a lease was not given back: it ends by itself", "lease", r.Name, "err", err)
		}
	}
}

// take is the revision of the lease, or 0 where somebody else has it.
func (r Role) take(ctx context.Context) (uint64, error) {
	cell, err := r.Cells.Get(ctx, bus.BucketLock, r.Name)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		cell = bus.Cell{}
	case err != nil:
		return 0, err
	case string(cell.Value) != r.Holder:
		return 0, nil
	}
	rev, err := r.Cells.Put(ctx, bus.BucketLock, r.Name, []byte(r.Holder), cell.Revision, r.Lease)
	if errors.Is(err, bus.ErrConflict) {
		return 0, nil
	}
	return rev, err
}

package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// TestAFence: an attempt has its lease until somebody else has it, it is gone, or it
// was not renewed in time.
func TestAFence(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	asked := make(chan error, 1)
	lose := make(chan func(n *Node), 1)
	var n *Node
	tool := testTool("locks", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		if err := in.Fence(ctx); err != nil {
			return events.Result{}, err
		}
		(<-lose)(n)
		asked <- in.Fence(ctx)
		return events.Result{Status: events.Success}, nil
	})
	tool.Resources = func(json.RawMessage) []events.ResourceUse { return []events.ResourceUse{{Name: "r", Exclusive: true}} }
	var ahead atomic.Int64
	n = testNode(t, b, func(c *Config) { c.Steady = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }, tool)
	gone := func(n *Node) {
		cell, err := b.Cells().Get(t.Context(), bus.BucketLock, lockCell("r"))
		if err != nil {
			t.Error(err)
			return
		}
		if err := b.Cells().Delete(t.Context(), bus.BucketLock, lockCell("r"), cell.Revision); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		how  func(n *Node)
		lost bool
	}{
		"it has it":          {func(*Node) {}, false},
		"the cell is gone":   {gone, true},
		"the node has slept": {func(n *Node) { ahead.Store(int64(time.Hour)) }, true},
	} {
		ahead.Store(0)
		lose <- c.how
		key := submit(t, b, events.TurnSubmitted{Calls: calls("locks")})
		if err := <-asked; errors.Is(err, tools.ErrFenced) != c.lost {
			t.Errorf("%s: %v", name, err)
		}
		ended(t, b, key)
	}
}

// deafCells have no answer to so many questions for a lock.
type deafCells struct {
	bus.Cells
	deaf *atomic.Int64
}

func (c deafCells) Get(ctx context.Context, bucket, key string) (bus.Cell, error) {
	if bucket == bus.BucketLock && c.deaf.Add(-1) >= 0 {
		return bus.Cell{}, fmt.Errorf("get cell %s: %w", key, bus.ErrUnavailable)
	}
	return c.Cells.Get(ctx, bucket, key)
}

type deafBus struct {
	bus.Bus
	deaf *atomic.Int64
}

func (b deafBus) Cells() bus.Cells { return deafCells{b.Bus.Cells(), b.deaf} }

// TestAFenceWaitsForTheLog: that nobody can say whether a lease still stands is no
// failure of the attempt's while it may wait, and the end of its time is one.
func TestAFenceWaitsForTheLog(t *testing.T) {
	var deaf atomic.Int64
	b := deafBus{memlog.New(memlog.Config{}).View("a"), &deaf}
	asked := make(chan error, 1)
	tool := testTool("locks", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		deaf.Store(3)
		err := in.Fence(ctx)
		if left := deaf.Load(); left >= 0 {
			err = errors.Join(err, fmt.Errorf("it was not asked %d times more", left+1))
		}
		asked <- err
		ended, end := context.WithCancel(ctx)
		end()
		deaf.Store(1000)
		asked <- in.Fence(ended)
		deaf.Store(0)
		return events.Result{Status: events.Success}, nil
	})
	tool.Resources = func(json.RawMessage) []events.ResourceUse { return []events.ResourceUse{{Name: "r", Exclusive: true}} }
	testNode(t, b, nil, tool)
	key := submit(t, b, events.TurnSubmitted{Calls: calls("locks")})
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if err := <-asked; !errors.Is(err, bus.ErrUnavailable) {
		t.Errorf("asked by an attempt that has ended: %v", err)
	}
	ended(t, b, key)
}

// leftCells tell of each cell when it was written, as a log does that is this process's own.
type leftCells struct {
	bus.Cells
	left time.Time
}

func (c leftCells) Get(ctx context.Context, bucket, key string) (bus.Cell, error) {
	cell, err := c.Cells.Get(ctx, bucket, key)
	cell.Left = c.left
	return cell, err
}

type leftBus struct {
	bus.Bus
	left time.Time
}

func (b leftBus) Cells() bus.Cells { return leftCells{b.Bus.Cells(), b.left} }

// TestALeaseOfAnotherLife: what another boot had lasts from when this node saw it first,
// or from when it was written, where that is known to be of before this process.
func TestALeaseOfAnotherLife(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		left time.Time
		held bool
	}{
		"not known":        {time.Time{}, true},
		"over":             {now.Add(-time.Hour), false},
		"still lasts":      {now.Add(-time.Minute), true},
		"of a clock ahead": {now.Add(2 * time.Hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := leftBus{memlog.New(memlog.Config{}).View("a"), c.left}
			value, err := json.Marshal(lifecycle.LockState{Holds: []lifecycle.Hold{{Call: "t/1/0", Boot: "dead", Exclusive: true, Until: now.Add(-time.Hour)}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Cells().Put(t.Context(), bus.BucketLock, lockCell("r"), value, 0, 0); err != nil {
				t.Fatal(err)
			}
			n := testNode(t, b, func(c *Config) { c.LockTTL = time.Hour })
			for range 2 { // the second time it is what this node has written
				_, _, err = (&lockActor{n: n, resource: "r"}).cell(t.Context(), func(s lifecycle.LockState, at time.Time) (lifecycle.LockState, bool) {
					if held := !s.Empty(at); held != c.held {
						t.Errorf("held: %v", held)
					}
					return s, true
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// fenceWait bounds the question whether a lease still stands.
const fenceWait = 5 * time.Second

// fence is an attempt's question whether its leases are still its own; nil where it
// has none.
func (n *Node) fence(call events.CallKey, held []events.Lock) func(context.Context) error {
	if len(held) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		ctx, stop := n.timeout(ctx, fenceWait)
		defer stop()
		for _, l := range held {
			if err := n.locks.confirm(ctx, call, l.Resource); err != nil {
				return err
			}
		}
		return nil
	}
}

// confirm asks the cluster whether the call holds a resource through this node. The
// lease counts by this node's clock, which has gone on while the node was stopped.
func (l *locks) confirm(ctx context.Context, call events.CallKey, resource string) error {
	cell, err := l.n.cfg.Bus.Cells().Get(ctx, bus.BucketLock, lockCell(resource))
	if errors.Is(err, bus.ErrNotFound) {
		return fmt.Errorf("lock %s: %w", resource, tools.ErrFenced)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", resource, err)
	}
	var s lifecycle.LockState
	if err := json.Unmarshal(cell.Value, &s); err != nil {
		return fmt.Errorf("the cell of lock %s: %w", resource, err)
	}
	if !s.Held(l.n.cfg.Steady().UTC(), call.String(), l.n.cfg.Boot) {
		return fmt.Errorf("lock %s: %w", resource, tools.ErrFenced)
	}
	return nil
}

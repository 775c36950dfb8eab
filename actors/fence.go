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

// fenceWait bounds one question whether a lease still stands.
const fenceWait = 5 * time.Second

// fence is an attempt's question whether its leases are still its own; nil where it
// has none. It waits for a log that cannot be asked, as long as the attempt may: a server
// that fails is no failure of the tool's.
func (n *Node) fence(call events.CallKey, held []events.Lock) func(context.Context) error {
	if len(held) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		for _, l := range held {
			if err := n.fenced(ctx, call, l.Resource); err != nil {
				return err
			}
		}
		return nil
	}
}

// fenced confirms one lease, and asks again while the log does not answer.
func (n *Node) fenced(ctx context.Context, call events.CallKey, resource string) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		one, stop := n.timeout(ctx, fenceWait)
		err := n.locks.confirm(one, call, resource)
		stop()
		if !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		n.log.Warn("it cannot be seen whether a call still has its lease: trying again", "call", call.String(), "resource", resource, "err", err)
		if !n.pause(ctx, wait) {
			return err
		}
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

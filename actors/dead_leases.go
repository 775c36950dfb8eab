package actors

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// freeDead gives back the leases and slots of a dead boot whose calls have ended: it died
// between the end and giving them back, and nobody takes such a call over. What it held for
// calls that are open is their next owner's.
func (n *Node) freeDead(boot string) error {
	held := make(map[string][]string) // the cells of each of the boot's calls
	err := bus.Each(n.pull, n.cfg.Bus.Cells(), bus.BucketLock, func(c bus.Cell) {
		var s lifecycle.LockState
		if json.Unmarshal(c.Value, &s) != nil {
			return // not a lock's
		}
		for _, call := range s.CallsOf(boot) {
			held[call] = append(held[call], c.Key)
		}
	})
	for _, call := range ordered(held) {
		err = errors.Join(err, n.freeEnded(held[call], call, boot))
	}
	return err
}

// freeEnded takes away what a call has in cells through a boot, if it has ended.
func (n *Node) freeEnded(cells []string, call, boot string) error {
	key, err := events.ParseCallKey(call)
	if err != nil {
		return nil // nothing that a node has written: it ends by itself
	}
	ctx, stop := n.timeout(n.pull, backOff)
	defer stop()
	stored, err := n.load(ctx, key.TurnKey(), 0)
	if err != nil {
		return err
	}
	t := lifecycle.Fold(key.TurnKey(), commits(stored)...)
	if key.Offset >= len(t.Calls) || t.Calls[key.Offset].Open() {
		return nil
	}
	for _, cell := range cells {
		err = errors.Join(err, n.freeHolds(ctx, cell, call, boot))
	}
	return err
}

// freeHolds takes away what a call has in a cell of locks through a boot. No other lease is
// judged here: that is for whoever wants one.
func (n *Node) freeHolds(ctx context.Context, cell, call, boot string) error {
	cells := n.cfg.Bus.Cells()
	for {
		c, err := cells.Get(ctx, bus.BucketLock, cell)
		switch {
		case errors.Is(err, bus.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		var s lifecycle.LockState
		if err := json.Unmarshal(c.Value, &s); err != nil {
			return err
		}
		next := s.Without(call, boot)
		switch {
		case len(s.CallsOf(boot)) == len(next.CallsOf(boot)):
			return nil // it is gone already
		case next.Unused():
			err = cells.Delete(ctx, bus.BucketLock, cell, c.Revision)
		default:
			_, err = n.putLocks(ctx, cell, next, c.Revision)
		}
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
}

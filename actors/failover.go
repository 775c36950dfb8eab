package actors

import (
	"context"
	"errors"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/lifecycle"
)

// watchPresence notices that a node has died: its presence expires. AckWait is
// the backstop of everything that this does.
func (n *Node) watchPresence() {
	for n.pull.Err() == nil {
		known := make(map[string]bool)
		err := n.cfg.Bus.Cells().Watch(n.pull, bus.BucketPresence, "", func(c bus.Cell) error {
			switch {
			case c.Key == "" || c.Key == n.cfg.Boot:
			case c.Value != nil:
				known[c.Key] = true
			case known[c.Key]:
				delete(known, c.Key)
				boot := c.Key
				n.do(func() { n.mourn(boot) })
			}
			return nil
		})
		if n.pull.Err() == nil {
			n.log.Warn("the nodes' presence cannot be watched: trying again", "err", err)
			n.pause(n.pull, backOff)
		}
	}
}

// mourn gives back what a dead node held, so that its turns come to others at
// once. It acts only where this node's own renewals have succeeded throughout —
// an election of the bus is nobody's death — and where the other does not answer.
func (n *Node) mourn(boot string) {
	n.me.mu.Lock()
	alive := n.cfg.Steady().Sub(n.me.ok) < n.cfg.Presence
	n.me.mu.Unlock()
	if !alive {
		n.log.Warn("a node's presence expired while this one could not renew its own: nothing is done about it", "dead", boot)
		return
	}
	if _, err := n.askOwner(boot, lifecycle.Turn{}.Key, 0); err == nil || !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	n.deaths.Add(1)
	given, began := 0, n.cfg.Steady()
	err := n.cfg.Bus.Held(n.pull, func(it bus.Item) error {
		stored, err := n.cfg.Bus.Load(n.pull, it.Turn, 0)
		if err != nil {
			return err
		}
		t := lifecycle.Fold(it.Turn, commits(stored)...)
		switch {
		case t.Submitted == nil || t.Ended != nil:
			return nil
		case t.Owner.Boot == "" || t.Parked != nil: // whoever has the message has not claimed the turn: it may be the dead one
			given++
			it.ID, it.Commit = "mourn."+boot+"."+it.Turn.Trace+"."+it.Turn.Turn, nil
			return n.cfg.Bus.Push(n.pull, it)
		case t.Owner.Boot != boot:
			return nil
		}
		given++
		return n.cfg.Bus.Return(n.pull, t.Claim.Reply)
	})
	if err != nil && n.pull.Err() == nil {
		n.log.Warn("a dead node's turns could not all be given back: they come by themselves", "dead", boot, "err", err)
	}
	if given > 0 {
		n.log.Info("a node has died: its turns were given back", "dead", boot, "turns", given, "took", n.cfg.Steady().Sub(began))
		n.cfg.Seen.Count("mourned", given)
	}
}

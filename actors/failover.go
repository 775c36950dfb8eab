package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

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
	stranded := map[string]bool{} // messages, by their ids, as they were found the last time
	for pass := range mournPasses {
		began := n.cfg.Steady()
		given, err := n.giveBackOf(boot, pass, stranded)
		if err != nil && n.pull.Err() == nil {
			n.log.Warn("a dead node's turns could not all be given back: they come by themselves", "dead", boot, "err", err)
		}
		if given > 0 {
			n.log.Info("a node has died: its turns were given back", "dead", boot, "turns", given, "took", n.cfg.Steady().Sub(began))
			n.cfg.Seen.Count("mourned", given)
		}
		// A node that is cut off has questions open at the queue, which swallow what is
		// given back: it is looked again.
		if given == 0 && err == nil || !n.pause(n.pull, mournPause) || !n.gone(boot) {
			return
		}
	}
}

// mournPasses is how often a dead node's turns are looked for, and mournPause how long
// in between. Together they are about AckWait, the backstop.
const (
	mournPasses = 6
	mournPause  = 2 * time.Second
)

// giveBackOf gives back what the dead boot held: the messages that its claims name, the
// first time; and a new message for what has none that is known, or was given back in
// vain.
func (n *Node) giveBackOf(boot string, pass int, stranded map[string]bool) (given int, err error) {
	before := maps.Clone(stranded)
	clear(stranded)
	known := map[string]bool{boot: true} // are they gone
	gone := func(other string) bool {
		if _, ok := known[other]; !ok {
			known[other] = n.gone(other)
		}
		return known[other]
	}
	err = n.cfg.Bus.Held(n.pull, func(it bus.Item) error {
		stored, err := n.cfg.Bus.Load(n.pull, it.Turn, 0)
		if err != nil {
			return err
		}
		t := lifecycle.Fold(it.Turn, commits(stored)...)
		switch {
		case t.Submitted == nil || t.Ended != nil:
			return nil
		case t.Parked == nil && t.Owner.Boot == boot && pass == 0:
			given++
			stranded[it.ID] = true
			return n.cfg.Bus.Return(n.pull, t.Claim.Reply)
		case t.Parked == nil && t.Owner.Boot != "" && !gone(t.Owner.Boot):
			return nil
		}
		// Whoever has the message has not claimed the turn: it may be the dead one.
		id := it.ID
		if stranded[id] = true; pass > 0 && !before[id] {
			return nil // it has only just come
		}
		given++
		it.ID, it.Commit = fmt.Sprintf("mourn.%s.%s.%s.%d", boot, it.Turn.Trace, it.Turn.Turn, pass), nil
		return n.cfg.Bus.Push(n.pull, it)
	})
	return given, err
}

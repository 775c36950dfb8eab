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
	known := make(map[string]bool)
	for n.pull.Err() == nil {
		here := make(map[string]bool) // since this watch began
		listed := false
		err := n.cfg.Bus.Cells().Watch(n.pull, bus.BucketPresence, "", func(c bus.Cell) error {
			switch {
			case c.Key == n.cfg.Boot:
			case c.Key == "" && !listed: // whoever has gone while nobody watched
				listed = true
				for _, boot := range ordered(known) {
					if !here[boot] {
						n.miss(known, boot)
					}
				}
			case c.Key == "":
			case c.Value != nil:
				known[c.Key], here[c.Key] = true, true
			case known[c.Key]:
				n.miss(known, c.Key)
			}
			return nil
		})
		if n.pull.Err() == nil {
			n.log.Warn("the nodes' presence cannot be watched: trying again", "err", err)
			n.pause(n.pull, backOff)
		}
	}
}

// miss has a boot mourned whose presence is gone.
func (n *Node) miss(known map[string]bool, boot string) {
	delete(known, boot)
	n.do(func() { n.mourn(boot) })
}

// sound says whether this node's own renewals have succeeded for the whole time in
// which another one's should have: an election of the bus is nobody's death.
func (n *Node) sound() bool {
	n.me.mu.Lock()
	defer n.me.mu.Unlock()
	now := n.cfg.Steady()
	return now.Sub(n.me.ok) < n.cfg.Presence && now.Sub(n.me.since) >= n.cfg.Presence
}

// soundWait bounds how long a death is kept in mind that cannot be judged yet.
const soundWait = time.Minute

// mourn gives back what a dead node held, so that its turns come to others at
// once. It acts only where this node is sound and the other one does not answer.
func (n *Node) mourn(boot string) {
	for began := n.cfg.Steady(); !n.sound(); {
		if n.cfg.Steady().Sub(began) > soundWait || !n.pause(n.pull, n.cfg.Presence/3) {
			n.log.Warn("a node's presence expired while this one could not renew its own: nothing is done about it", "dead", boot)
			return
		}
	}
	if !n.gone(boot) {
		return
	}
	if _, err := n.askOwner(boot, lifecycle.Turn{}.Key, 0); err == nil || !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	n.deaths.Add(1)
	stranded := map[string]bool{} // messages, by their ids, as they were found the last time
	pass := 0
	for range mournPasses {
		began := n.cfg.Steady()
		given, err := n.giveBackOf(boot, pass, stranded)
		if err == nil {
			pass++ // what failed half-way is done again as it was
		}
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
	mournPasses = 12
	mournPause  = time.Second
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
		case t.Submitted == nil || t.Ended != nil, t.Parked != nil && pass > 0:
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

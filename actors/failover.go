package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// watchPresence notices that a node has died: its presence expires. AckWait is
// the backstop of everything that this does.
func (n *Node) watchPresence() {
	known := make(map[string]here) // what each said last
	for n.pull.Err() == nil {
		seen := make(map[string]bool) // since this watch began
		listed := false
		err := n.cfg.Bus.Cells().Watch(n.pull, bus.BucketPresence, "", func(c bus.Cell) error {
			switch {
			case c.Key == n.cfg.Boot:
			case c.Key == "" && !listed: // whoever has gone while nobody watched
				listed = true
				for _, boot := range ordered(known) {
					if !seen[boot] {
						n.miss(known, boot)
					}
				}
			case c.Key == "":
			case c.Value != nil:
				var h here
				_ = json.Unmarshal(c.Value, &h) // not ours: as one that has said nothing
				known[c.Key], seen[c.Key] = h, true
			default:
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

// miss has a boot mourned whose presence is gone, once.
func (n *Node) miss(known map[string]here, boot string) {
	last, ok := known[boot]
	if !ok {
		return
	}
	delete(known, boot)
	n.do(func() { n.mourn(boot, last) })
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
func (n *Node) mourn(boot string, last here) {
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
	m := newMourning(n, boot, last)
	if !last.Draining {
		n.deaths.Add(1)
	}
	if err := n.freeDead(boot); err != nil && n.pull.Err() == nil {
		n.log.Warn("not all that a dead node held for calls that have ended was given back: it ends by itself", "dead", boot, "err", err)
	}
	for range mournPasses {
		err := m.look()
		if err != nil && n.pull.Err() == nil {
			n.log.Warn("a dead node's turns could not all be given back: they come by themselves", "dead", boot, "err", err)
		}
		// A node that is cut off has questions open at the queue, which swallow what is
		// given back: it is looked again. One that drained had closed them.
		if err == nil && (last.Draining || len(m.stranded) == 0) || !n.pause(n.pull, mournPause) || !n.gone(boot) {
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

// mourning is what one node remembers of another one's death.
type mourning struct {
	n    *Node
	boot string
	last here // what it said last
	pass int  // looks that have succeeded
	// before and stranded are the messages, by their ids, that were found by the last look
	// and by this one.
	before, stranded map[string]bool
	given            map[events.TurnKey]bool // turns that were given back
	pushed           map[events.TurnKey]bool // of nobody: once is enough, or a queue that nobody empties would grow
	// gone and served are what this look knows of other boots and of placements.
	gone, served map[string]bool
}

func newMourning(n *Node, boot string, last here) *mourning {
	return &mourning{n: n, boot: boot, last: last, given: make(map[events.TurnKey]bool), pushed: make(map[events.TurnKey]bool)}
}

// look goes once through what the queue has in hands, gives back what the dead boot held,
// and tells of turns that it had not given back before.
func (m *mourning) look() (err error) {
	began, had := m.n.cfg.Steady(), len(m.given)
	m.before, m.stranded, m.gone = m.stranded, make(map[string]bool), map[string]bool{m.boot: true}
	if m.served, err = m.n.served(m.n.pull); err == nil {
		m.served[events.EndPlacement] = true // every node's
		err = m.n.cfg.Bus.Held(m.n.pull, m.giveBack)
	}
	if err == nil {
		m.pass++ // what failed half-way is done again as it was
	}
	turns := len(m.given) - had
	if turns == 0 {
		return err
	}
	m.n.cfg.Seen.Count("mourned", turns)
	took := m.n.cfg.Steady().Sub(began)
	if m.last.Draining {
		m.n.deaths.Add(1)
		m.n.log.Info("a node that was draining has gone and still owned turns: they were given back", "drained", m.boot, "turns", turns, "took", took)
		return err
	}
	m.n.log.Info("a node has died: its turns were given back", "dead", m.boot, "turns", turns, "took", took)
	return err
}

// giveBack does what a message that is in somebody's hands needs: one that a claim of the
// dead boot names is returned, the first time; what was returned in vain, or is nobody's
// and may have gone with that boot, gets a new message.
func (m *mourning) giveBack(it bus.Item) error {
	lane := it.Placement
	if lane == "" {
		lane = events.DefaultPlacement
	}
	if !m.its(lane) {
		return nil // the boot never pulled it
	}
	stored, err := m.n.cfg.Bus.Load(m.n.pull, it.Turn, 0)
	if err != nil {
		return err
	}
	t := lifecycle.Fold(it.Turn, commits(stored)...)
	owned := t.Parked == nil && t.Owner.Boot == m.boot
	switch {
	case t.Submitted == nil || t.Ended != nil, t.Parked != nil && m.pass > 0:
		return nil
	case owned && m.pass == 0:
		m.stranded[it.ID], m.given[it.Turn] = true, true
		return m.n.cfg.Bus.Return(m.n.pull, t.Claim.Reply)
	case m.last.Draining: // what it did not own it has given back, or never had
		return nil
	case t.Parked == nil && t.Owner.Boot != "" && !m.isGone(t.Owner.Boot):
		return nil
	}
	// Whoever has the message has not claimed the turn: it may be the dead one.
	m.stranded[it.ID] = true
	if m.pass > 0 && !m.before[it.ID] || m.pushed[it.Turn] || !m.served[lane] {
		return nil // it has only just come, was pushed, or waits for a node that serves it
	}
	return m.push(it, owned)
}

// push queues a turn once more. The id is the same for every node that mourns.
func (m *mourning) push(it bus.Item, owned bool) error {
	it.ID, it.Commit = fmt.Sprintf("mourn.%s.%s.%s", m.boot, it.Turn.Trace, it.Turn.Turn), nil
	if owned {
		it.ID += fmt.Sprintf(".%d", m.pass)
	}
	if err := m.n.cfg.Bus.Push(m.n.pull, it); err != nil {
		return err
	}
	m.given[it.Turn] = true
	m.pushed[it.Turn] = m.pushed[it.Turn] || !owned
	return nil
}

// its says whether the dead boot took messages of a queue.
func (m *mourning) its(lane string) bool {
	return lane == events.EndPlacement || slices.Contains(m.last.serves(), lane)
}

// isGone says whether another boot has no presence either.
func (m *mourning) isGone(boot string) bool {
	gone, known := m.gone[boot]
	if !known {
		gone = m.n.gone(boot)
		m.gone[boot] = gone
	}
	return gone
}

package actors

import (
	"cmp"
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

// serves says whether this node runs a placement's turns.
func (n *Node) serves(placement string) bool {
	return slices.Contains(n.cfg.Placements, cmp.Or(placement, events.DefaultPlacement))
}

// served are the placements that nodes serve which live and do not drain, as their
// presence says; nil where nobody can say, since presence is switched off.
func (n *Node) served(ctx context.Context) (map[string]bool, error) {
	if n.cfg.Presence < 0 {
		return nil, nil
	}
	out := make(map[string]bool)
	for _, p := range n.cfg.Placements {
		out[p] = true
	}
	err := bus.Each(ctx, n.cfg.Bus.Cells(), bus.BucketPresence, func(c bus.Cell) {
		var h here
		if json.Unmarshal(c.Value, &h) != nil || h.Draining {
			return
		}
		for _, p := range h.serves() {
			out[p] = true
		}
	})
	return out, err
}

// serves are the placements of a node's presence.
func (h here) serves() []string {
	if len(h.Placements) == 0 {
		return []string{events.DefaultPlacement}
	}
	return h.Placements
}

// departed says whether a boot has no presence, or has drained, and does not answer either.
func (n *Node) departed(ctx context.Context, boot string) bool {
	last, err := n.presenceOf(ctx, boot)
	if !errors.Is(err, bus.ErrNotFound) && (err != nil || !last.Draining) {
		return false
	}
	_, err = n.askOwner(boot, lifecycle.Turn{}.Key, 0)
	return errors.Is(err, bus.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// lane is the queue that a turn of a placement belongs into: its own, or where no
// node serves that, the one of turns that can only be ended.
func (n *Node) lane(ctx context.Context, placement string) (string, error) {
	if n.serves(placement) {
		return placement, nil
	}
	served, err := n.served(ctx)
	if err != nil || served == nil || served[cmp.Or(placement, events.DefaultPlacement)] {
		return placement, err
	}
	return events.EndPlacement, nil
}

// finish does for a turn what can be done without its placement: see
// lifecycle.Finish. A node that serves the placement gets the turn instead.
func (n *Node) finish(t lifecycle.Turn, d bus.Delivery) {
	err := n.finishTurn(t, d)
	switch {
	case err == nil, errors.Is(err, lifecycle.ErrEnded):
		n.ack(d)
	case n.ctx.Err() != nil:
	default:
		n.log.Warn("a turn that no node serves could not be ended: it comes again", "turn", t.Key.String(), "err", err)
		n.nak(d, backOff)
	}
}

func (n *Node) finishTurn(t lifecycle.Turn, d bus.Delivery) error {
	lane, err := n.lane(n.pull, t.Submitted.Placement)
	if err != nil {
		return err
	}
	if it := d.Item(); lane != events.EndPlacement || it.Placement != events.EndPlacement {
		it.ID, it.Placement, it.Commit = it.ID+".p", t.Submitted.Placement, nil
		if err := n.cfg.Bus.Push(n.pull, it); err != nil || lane != events.EndPlacement {
			return err
		}
	}
	if own := t.Owner.Boot; own != "" && t.Parked == nil && own != n.cfg.Boot && !n.departed(n.pull, own) {
		if mine, err := n.askOwner(own, t.Key, d.Item().Seq); err != nil || mine {
			return err
		}
	}
	return n.endTurn(t, d.Reply())
}

// errMovedOn says that somebody has claimed a turn, or parked it, since it was looked at:
// what was to be done about it has to be decided anew.
var errMovedOn = errors.New("the turn has moved on since it was read")

// endTurn appends what lifecycle.Finish says of a turn that nobody owns who lives, as
// long as that is so.
func (n *Node) endTurn(was lifecycle.Turn, reply string) error {
	cmd := lifecycle.Finish{Boot: n.cfg.Boot, Node: n.cfg.Name, Reply: reply, Retention: n.cfg.Retention}
	is, err := n.appendDecided(n.ctx, was.Key, func(t lifecycle.Turn, now time.Time) ([]events.Record, events.Owner, error) {
		if t.Owner != was.Owner || (t.Parked == nil) != (was.Parked == nil) {
			return nil, events.Owner{}, errMovedOn
		}
		recs, err := lifecycle.Decide(t, lifecycle.Env{Now: now}, cmd)
		if err == nil && len(recs) == 0 && t.Parked != nil { // its wake-up must outlive this message
			err = n.awaitPlacement(t)
		}
		if err != nil || len(recs) == 0 {
			return nil, events.Owner{}, err
		}
		by := events.Owner{Boot: n.cfg.Boot, Epoch: t.Owner.Epoch + 1}
		return recs, by, n.parking(lifecycle.FoldOn(t, events.Commit{Turn: t.Key, At: now, By: by, Records: recs}))
	})
	if err != nil || is.after.Submitted == nil {
		return err
	}
	if err := n.cfg.Bus.Barrier().Wait(n.ctx); err != nil {
		n.barrierFailed(n.ctx, err)
		return err
	}
	n.finished(is.before, is.after)
	return nil
}

// parking writes what a turn that waits for its placement needs BEFORE it is parked:
// the message by which a node that serves the placement gets it, and its timer.
func (n *Node) parking(t lifecycle.Turn) error {
	if t.Parked == nil {
		return nil
	}
	if err := n.awaitPlacement(t); err != nil || t.Parked.Due.IsZero() {
		return err
	}
	return n.cfg.Bus.Set(n.ctx, bus.Token(t.Key.String()), t.Parked.Due, n.timerItem(t.Key, t.Submitted.Placement))
}

// awaitPlacement puts a turn into its own queue, for the first node that serves it.
func (n *Node) awaitPlacement(t lifecycle.Turn) error {
	it := bus.Item{ID: fmt.Sprintf("parked.%s.%s.%d", t.Key.Trace, t.Key.Turn, t.Owner.Epoch), Turn: t.Key, Placement: t.Submitted.Placement}
	return n.cfg.Bus.Push(n.ctx, it)
}

// timerItem is the wake-up of a timer that is set now. Its id is no earlier one's: that
// one may have passed through the queue a moment ago, and this one would be taken for it.
func (n *Node) timerItem(key events.TurnKey, placement string) bus.Item {
	return bus.Item{ID: "timer." + n.cfg.ID(), Turn: key, Placement: placement}
}

// untimed takes a turn's timer away, if it has had one: it would wake nobody. Where
// that fails, it does just that.
func (n *Node) untimed(key events.TurnKey, stored []bus.Stored) {
	for _, s := range stored {
		for _, r := range s.Commit.Records {
			if p, ok := r.Event.(*events.TurnParked); ok && !p.Due.IsZero() {
				n.do(func() {
					if err := n.cfg.Bus.Stop(n.ctx, bus.Token(key.String())); err != nil && n.ctx.Err() == nil {
						n.log.Info("a timer that is not needed any more was not stopped", "turn", key.String(), "err", err)
					}
				})
				return
			}
		}
	}
}

// finished lets go of what calls held that have ended, and tells who waits here.
func (n *Node) finished(before, after lifecycle.Turn) {
	for i, c := range after.Calls {
		if c.Open() || !before.Calls[i].Open() {
			continue
		}
		n.unheld(after.Key.Call(i), c, n.workspace(after.Submitted))
		if c.Verdict != nil && c.Verdict.Key != "" {
			n.wakeWaiting(c.Verdict.Key, after.Key.Call(i))
		}
	}
	if after.Ended != nil {
		n.hub.tell(Finished{Key: after.Key, Turn: after, Tools: n.toolNames(after)})
	}
}

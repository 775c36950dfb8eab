package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// backOff is how long a message waits that another node seems to be busy with.
const backOff = time.Second

// takes pulls one item at a time while there is room, and hands it over at once.
func (n *Node) takes(placements []string) {
	for {
		if n.cfg.Scheduler.Wait(0, n.pull.Done(), n.room) == 0 {
			return
		}
		d, err := n.cfg.Bus.Pull(n.pull, placements)
		if err != nil {
			n.room <- struct{}{}
			if n.pull.Err() != nil {
				return
			}
			n.log.Warn("the queue cannot be read: trying again", "err", err)
			if !n.pause(n.pull, backOff) {
				return
			}
			continue
		}
		if !n.take(d) {
			n.room <- struct{}{}
		}
	}
}

// take decides what to do with a delivery. It is a hint: only the log decides.
// true means that the turn is in memory now and keeps its room.
func (n *Node) take(d bus.Delivery) bool {
	it := d.Item()
	if d.Deliveries() > 1 {
		n.cfg.Seen.Count("redeliveries", 1)
	}
	if n.seated(d) {
		return false
	}
	stored, err := n.history(d)
	if err != nil && n.pull.Err() != nil { // the node stops: others need not wait
		n.nak(d, 0)
		return false
	}
	if err != nil {
		n.log.Warn("a turn cannot be read: giving it back", "turn", it.Turn.String(), "err", err)
		n.nak(d, backOff)
		return false
	}
	t := lifecycle.Fold(it.Turn, commits(stored)...)
	switch {
	case t.Submitted == nil:
		n.log.Error("the queue names a turn that has no events: dropped", "turn", it.Turn.String(), "seq", it.Seq)
		n.ack(d)
	case t.Ended != nil || t.Submitted.Imported != "":
		n.ack(d)
	case t.Foreign:
		n.log.Error("a turn holds events of a newer release: left to a newer node", "turn", it.Turn.String())
		n.nak(d, 30*time.Second)
	case t.Broken != "":
		n.log.Error("a turn's history is not one that any release writes: left alone", "turn", it.Turn.String(), "why", t.Broken)
		n.nak(d, 30*time.Second)
	case !n.serves(t.Submitted.Placement):
		n.do(func() { n.finish(t, d) })
	default:
		return n.consider(t, stored, d)
	}
	return false
}

// nudge tells a turn's actor that somebody may have appended to the turn; nil
// means that the turn is not in memory here. An actor that was about to go and
// did not hear it is made up for by unseat. heard, if it is not nil, is called once
// it did: a wake-up is acked then, and not before, or it would go with the node.
func (n *Node) nudge(key events.TurnKey, seq uint64, heard func()) *seat {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nudgeSeat(key, seq, heard)
}

// nudgeSeat is nudge for a caller who holds mu.
func (n *Node) nudgeSeat(key events.TurnKey, seq uint64, heard func()) *seat {
	s := n.turns[key]
	if s != nil {
		s.nudged++
		n.root.Send(s.pid, nudge{seq, heard})
	}
	return s
}

// seated handles an item of a turn that is in memory here, and says whether it is.
func (n *Node) seated(d bus.Delivery) bool {
	it := d.Item()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.turns[it.Turn]
	if s == nil {
		return false
	}
	own := s.delivery.Item().ID == it.ID
	var heard func()
	if first := d.Deliveries() == 1; first && !own {
		heard = func() { n.ack(d) } // a wake-up
	}
	n.nudgeSeat(it.Turn, it.Seq, heard)
	switch {
	case own && s.delivery.Reply() != d.Reply():
		// The claim's own message came back: its earlier ack was late. The newer
		// delivery is the claim now.
		s.delivery, s.fresh = d, n.cfg.Steady()
	case own, heard != nil:
	default: // it may be the claim of a node that owns the turn while this one does not know so yet
		n.nak(d, backOff)
	}
	return true
}

// history is what the log holds of the turn. The commit that an item carries is
// enough to begin with: should there be more, the first append says so.
func (n *Node) history(d bus.Delivery) ([]bus.Stored, error) {
	it := d.Item()
	if len(it.Commit) > 0 && it.Seq > 0 && d.Deliveries() == 1 && it.Generation == n.cfg.Bus.Generation() {
		if c, err := events.Decode(it.Commit); err == nil && c.Turn == it.Turn {
			return []bus.Stored{{Generation: n.cfg.Bus.Generation(), Seq: it.Seq, Size: len(it.Commit), Commit: c}}, nil
		}
	}
	ctx, stop := n.timeout(n.pull, 10*time.Second)
	defer stop()
	return n.load(ctx, it.Turn, it.Seq)
}

// load reads a turn up to a sequence. That it has no events is believed only of a
// mirror that has reached the log's head.
func (n *Node) load(ctx context.Context, key events.TurnKey, atLeast uint64) ([]bus.Stored, error) {
	stored, err := n.cfg.Bus.Load(ctx, key, atLeast)
	if err != nil || len(stored) > 0 {
		return stored, err
	}
	head, err := n.cfg.Bus.Head(ctx)
	if err != nil {
		return nil, err
	}
	return n.cfg.Bus.Load(ctx, key, head.Seq-1)
}

func commits(stored []bus.Stored) []events.Commit {
	out := make([]events.Commit, len(stored))
	for i, s := range stored {
		out[i] = s.Commit
	}
	return out
}

// consider claims a turn that has no owner, or whose owner is gone.
func (n *Node) consider(t lifecycle.Turn, stored []bus.Stored, d bus.Delivery) bool {
	if t.Owner.Boot == "" || t.Parked != nil || t.Owner.Boot == n.cfg.Boot {
		return n.seatTurn(t.Key, stored, d, false)
	}
	named := d.Of(t.Claim.Reply) || d.Deliveries() > 1 // it is the claim, or may be: an ack would end that
	mine, err := n.askOwner(t.Owner.Boot, t.Key, d.Item().Seq)
	switch {
	case err == nil && mine:
		if named {
			n.nak(d, backOff)
		} else {
			n.ack(d) // a wake-up, and its owner has heard of it
		}
		return false
	case err == nil, d.Deliveries() > 1, n.gone(t.Owner.Boot), n.drained(t.Owner.Boot):
		return n.seatTurn(t.Key, stored, d, n.drained(t.Owner.Boot))
	}
	n.nak(d, backOff)
	return false
}

// seatTurn makes the turn's actor. Only this function does.
func (n *Node) seatTurn(key events.TurnKey, stored []bus.Stored, d bus.Delivery, drained bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.draining || n.turns[key] != nil {
		n.nak(d, 0)
		return false
	}
	s := &seat{delivery: d, fresh: n.cfg.Steady()}
	props := actor.PropsFromProducer(func() actor.Actor { return newTurnActor(n, key, stored, drained) }, actor.WithSupervisor(once), actor.WithDispatcher(dispatcher{n.cfg.Scheduler}))
	pid, err := n.root.SpawnNamed(props, n.cfg.Boot+"/"+key.String())
	if err != nil {
		n.log.Warn("the turn's actor is still there: giving the turn back", "turn", key.String(), "err", err)
		n.nak(d, backOff)
		return false
	}
	s.pid = pid
	n.turns[key] = s
	return true
}

// once stops an actor whose own boundary has failed: the boundary handles panics.
var once = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// unseat takes a turn out of memory. heard is how many nudges its actor has
// acted on: if there were more, and the turn goes on, it is queued again.
func (n *Node) unseat(key events.TurnKey, heard uint64, over bool) {
	n.mu.Lock()
	s, had := n.turns[key]
	delete(n.turns, key)
	if had && s.nudged > heard && !over {
		n.requeued++
		n.do(func() {
			n.requeue(key)
			n.mu.Lock()
			n.requeued--
			n.checkEmpty()
			n.mu.Unlock()
		})
	}
	n.checkEmpty()
	n.mu.Unlock()
	if had {
		n.room <- struct{}{}
	}
}

// requeue puts a turn in the queue that was nudged while it left memory.
func (n *Node) requeue(key events.TurnKey) {
	it := bus.Item{ID: "again." + n.cfg.ID(), Turn: key}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := n.cfg.Bus.Wake(n.ctx, it)
		if err == nil || !n.pause(n.ctx, wait) {
			return
		}
		n.log.Warn("a turn could not be queued again: trying again", "turn", key.String(), "err", err)
	}
}

// delivery is the claim's message of a turn in memory; nil if it is not.
func (n *Node) delivery(key events.TurnKey) bus.Delivery {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.turns[key]; s != nil {
		return s.delivery
	}
	return nil
}

func (n *Node) ack(d bus.Delivery) {
	if err := d.Ack(); err != nil && n.ctx.Err() == nil {
		n.log.Warn("an ack was not sent: the message will come again", "err", err)
	}
}

func (n *Node) nak(d bus.Delivery, after time.Duration) {
	if err := d.Nak(after); err != nil && n.ctx.Err() == nil {
		n.log.Warn("a message was not given back: it comes again by itself", "err", err)
	}
}

// heartbeats keeps the claims of all turns in memory alive.
func (n *Node) heartbeats() {
	n.every(n.ctx, n.cfg.Heartbeat, func() {
		n.mu.Lock()
		all := n.seats()
		deliveries := make([]bus.Delivery, len(all))
		for i, s := range all {
			deliveries[i] = s.delivery
		}
		n.mu.Unlock()
		for i, s := range all {
			n.extend(s, deliveries[i])
		}
	})
}

// extend keeps one claim alive.
func (n *Node) extend(s *seat, d bus.Delivery) {
	now := n.cfg.Steady()
	if err := d.Extend(); err != nil {
		if n.ctx.Err() == nil {
			n.log.Warn("a claim was not extended", "turn", d.Item().Turn.String(), "err", err)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.delivery == d {
		s.fresh = now
	}
}

// held says whether the claim's message is still in this node's hands, as far as it
// can know. Otherwise it may be another node's claim by now, and an ack of it, which
// nobody fences, would take that one's message away.
func (n *Node) held(key events.TurnKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.turns[key]
	return s != nil && n.cfg.Steady().Sub(s.fresh) < 2*n.cfg.Heartbeat
}

// wakes hears wake-ups, whatever the room: for a turn in memory the actor is
// told, for one of another owner the owner, and for one of nobody the queue.
func (n *Node) wakes() {
	for {
		d, err := n.cfg.Bus.PullWake(n.ctx) // also while it drains: what runs can be cancelled
		switch {
		case err == nil:
			n.wake(d)
		case n.ctx.Err() != nil:
			return
		default:
			n.log.Warn("wake-ups cannot be read: trying again", "err", err)
			if !n.pause(n.ctx, backOff) {
				return
			}
		}
	}
}

func (n *Node) wake(d bus.Delivery) {
	it := d.Item()
	if s := n.nudge(it.Turn, it.Seq, func() { n.ack(d) }); s != nil {
		return
	}
	err := n.forward(it)
	switch {
	case err == nil:
		n.ack(d)
	case n.pull.Err() != nil: // it drains, and may soon be gone: for another node
		n.nak(d, backOff/4)
	default:
		n.log.Warn("a wake-up could not be passed on: it comes again", "turn", it.Turn.String(), "err", err)
		n.nak(d, backOff)
	}
}

// over says whether a turn that nobody runs only has to be ended.
func (n *Node) over(t lifecycle.Turn) bool {
	end := t.Deadline()
	late := !end.IsZero() && !n.cfg.Now().Before(end)
	return (t.Owner.Boot == "" || t.Parked != nil) && (t.Cancel != nil || late)
}

// forward passes a wake-up to the turn's owner, or to the queue where it has none.
func (n *Node) forward(it bus.Item) error {
	ctx, stop := n.timeout(n.pull, 10*time.Second)
	defer stop()
	stored, err := n.load(ctx, it.Turn, it.Seq)
	if err != nil {
		return err
	}
	t := lifecycle.Fold(it.Turn, commits(stored)...)
	if t.Submitted == nil || t.Ended != nil {
		return nil
	}
	if t.Owner.Boot != "" && t.Parked == nil && t.Owner.Boot != n.cfg.Boot {
		mine, err := n.askOwner(t.Owner.Boot, it.Turn, it.Seq)
		if err == nil && mine {
			return nil
		}
		if err != nil && !n.gone(t.Owner.Boot) && !n.drained(t.Owner.Boot) {
			return errors.Join(err, errors.New("its owner does not answer"))
		}
	}
	if n.over(t) { // it needs no tool and no room: a full cluster ends it, too
		return n.endTurn(t, "")
	}
	lane, err := n.lane(ctx, t.Submitted.Placement)
	if err != nil {
		return err
	}
	it.ID += ".q"
	it.Placement, it.Commit = lane, nil
	return n.cfg.Bus.Push(ctx, it)
}

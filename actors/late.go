package actors

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// late appends an answer whose attempt was over: whoever owns the turn now, it
// is evidence.
func (n *Node) late(call events.CallKey, owner events.Owner, s lifecycle.Settle) {
	if n.ctx.Err() != nil {
		return
	}
	n.cfg.Seen.Count("late_results", 1)
	n.do(func() {
		cmd := lifecycle.Late{Call: call.Offset, Owner: owner, Outcome: lifecycle.OutcomeOf(s)}
		if err := n.appendAs(n.ctx, call.TurnKey(), cmd); err != nil && n.ctx.Err() == nil {
			n.log.Warn("a late answer was not noted", "call", call.String(), "attempt", s.Attempt, "err", err)
		}
	})
}

// evidenceOf notes what comes late of an owner's attempts.
func (n *Node) evidenceOf(owner events.Owner) evidence {
	return func(call events.CallKey, s lifecycle.Settle) { n.late(call, owner, s) }
}

// appendAs decides a command that anyone may send, on the turn as it is in the
// log, and appends what follows.
func (n *Node) appendAs(ctx context.Context, key events.TurnKey, cmd lifecycle.Command) error {
	return n.appendOwned(ctx, key, events.Owner{}, cmd)
}

// appendOwned is appendAs in an owner's name.
func (n *Node) appendOwned(ctx context.Context, key events.TurnKey, by events.Owner, cmd lifecycle.Command) error {
	_, err := n.appendDecided(ctx, key, func(t lifecycle.Turn, now time.Time) ([]events.Record, events.Owner, error) {
		recs, err := lifecycle.Decide(t, lifecycle.Env{Now: now, Owner: by}, cmd)
		return recs, by, err
	})
	return err
}

// appendDecided appends what follows from a turn as it is in the log. It tries again
// while the log cannot be had or has not said, and while the attempt of a late answer
// is still open: its end is on its way into the log, or its next owner is.
func (n *Node) appendDecided(ctx context.Context, key events.TurnKey, decide decision) (step, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		is, err := n.appendOnce(ctx, key, decide)
		passing := errors.Is(err, bus.ErrUncertain) || errors.Is(err, bus.ErrUnavailable) || errors.Is(err, bus.ErrConflict) || errors.Is(err, lifecycle.ErrOpen)
		if !passing || !n.pause(ctx, wait) {
			return is, err
		}
	}
}

// step is a turn before and after a commit that was kept; zero where none was.
type step struct{ before, after lifecycle.Turn }

// decision is what follows from a turn, and in whose name. It may be asked several times,
// and what it has said before counts for nothing: only a step tells what was kept.
type decision func(t lifecycle.Turn, now time.Time) ([]events.Record, events.Owner, error)

// appendOnce decides on the newest history: a refusal is not checked by any append.
func (n *Node) appendOnce(ctx context.Context, key events.TurnKey, decide decision) (step, error) {
	head, err := n.cfg.Bus.Head(ctx)
	if err != nil {
		return step{}, err
	}
	stored, err := n.cfg.Bus.Load(ctx, key, head.Seq-1)
	if err != nil {
		return step{}, err
	}
	now := n.cfg.Now().UTC().Truncate(time.Microsecond)
	turn := lifecycle.Fold(key, commits(stored)...)
	recs, by, err := decide(turn, now)
	if err != nil || len(recs) == 0 {
		return step{}, err
	}
	at := uint64(0)
	if len(stored) > 0 {
		at = stored[len(stored)-1].Seq
	}
	s, err := n.cfg.Bus.Append(ctx, events.Commit{ID: n.cfg.ID(), Turn: key, At: now, By: by, Records: recs}, at)
	if err != nil {
		return step{}, err
	}
	tools := n.toolNames(turn)
	if broke := guarded(func() { n.cfg.Seen.Committed(s, tools) }); broke != nil { // it may be what has broken the actor
		n.log.Error("the observer broke", "panic", broke)
	}
	n.live.tell(s, tools, false)
	return step{turn, lifecycle.FoldOn(turn, s.Commit)}, nil
}

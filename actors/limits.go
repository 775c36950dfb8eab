package actors

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// limitsOf are the limits of a call, in the order in which everybody takes them.
func (n *Node) limitsOf(t lifecycle.Turn, call *lifecycle.Call) []lifecycle.LimitUse {
	if n.cfg.Limits == nil {
		return nil
	}
	return n.cfg.Limits().Of(t.Submitted.Principal, call.Tool)
}

// limit is the gate of that name: it takes a slot, and then a token, of every limit of
// the call, in one order for everybody, or nothing. Slots are taken first: a token is
// used when it is due. waited is how long that took. Where the cluster cannot be asked
// nobody knows who runs: then err is not nil, and the call must wait.
func (n *Node) limit(ctx context.Context, t lifecycle.Turn, call *lifecycle.Call, key events.CallKey) (has []events.Limit, waited time.Duration, f lifecycle.Finding, err error) {
	f = lifecycle.Finding{Gate: lifecycle.GateLimit}
	uses := n.limitsOf(t, call)
	if len(uses) == 0 {
		return nil, 0, f, nil
	}
	began := n.cfg.Steady()
	for _, u := range uses {
		has = append(has, events.Limit{Rule: u.ID, Principal: u.Bucket})
	}
	for _, take := range []func(context.Context, events.CallKey, lifecycle.LimitUse, time.Time, *events.Limit) (lifecycle.Finding, error){n.takeSlot, n.takeToken} {
		for i, u := range uses {
			if call.Phase == lifecycle.PhaseGiven {
				u.Rate = lifecycle.Rate{} // it goes on with what it has begun
			}
			f, err = take(ctx, key, u, began.Add(u.Patience(call.Attempt)), &has[i])
			if err != nil || f.Ruling != lifecycle.Pass {
				n.giveBack(holdingOf(key, n.cfg.Boot, has), false)
				return nil, 0, f, err
			}
		}
	}
	return has, n.cfg.Steady().Sub(began), f, nil
}

// takeSlot takes a slot of a limit that bounds what runs at once.
func (n *Node) takeSlot(ctx context.Context, key events.CallKey, u lifecycle.LimitUse, until time.Time, has *events.Limit) (lifecycle.Finding, error) {
	f := lifecycle.Finding{Gate: lifecycle.GateLimit}
	if u.Concurrency == 0 {
		return f, nil
	}
	slot, err := n.locks.slot(ctx, key, u, until)
	switch {
	case errors.Is(err, errFull):
		return u.Full(), nil
	case err != nil:
		return f, err
	}
	has.Slot = slot
	return f, nil
}

// takeToken takes one start of a limit that bounds what begins in a time.
func (n *Node) takeToken(ctx context.Context, key events.CallKey, u lifecycle.LimitUse, until time.Time, has *events.Limit) (lifecycle.Finding, error) {
	f := lifecycle.Finding{Gate: lifecycle.GateLimit}
	if u.Rate == (lifecycle.Rate{}) {
		return f, nil
	}
	in, ok, err := n.rates.take(ctx, u, until)
	switch {
	case err != nil:
		return f, err
	case !ok:
		return u.Spent(in), nil
	}
	has.Token = true
	return f, nil
}

// holdingOf is what a call has of limits.
func holdingOf(call events.CallKey, boot string, limits []events.Limit) holding {
	h := holding{call: call, locks: slotsOf(limits), boot: boot}
	for _, l := range limits {
		if l.Token {
			h.spent = append(h.spent, l)
		}
	}
	return h
}

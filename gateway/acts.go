package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Reply says what became of a cancel.
type Reply struct {
	Accepted bool        // it is in the log; it proves nothing about the process yet
	Ended    events.Kind // how it had ended already, if not Accepted

	By *events.Principal // whose request counts, the first one's; nil where nobody had asked before it ended
}

// CancelCall asks for the end of one call. A call that has ended is no error:
// the reply says how. It returns lifecycle.ErrNoTurn and lifecycle.ErrNoCall.
func (d *Desk) CancelCall(ctx context.Context, call events.CallKey, by events.Principal, reason string) (Reply, error) {
	t, err := d.act(ctx, call.TurnKey(), lifecycle.CancelCall{Call: call.Offset, By: actor(by), Reason: wholeText(reason)})
	c := t.Call(call.Offset)
	if c == nil {
		return Reply{}, err
	}
	out := Reply{Accepted: err == nil}
	if who, _, asked := t.Cancelled(c); asked {
		out.By = &who
	}
	if errors.Is(err, lifecycle.ErrEnded) {
		out.Ended, err = c.Last, d.durable(ctx)
	}
	return out, err
}

// CancelTurn asks for the end of every call that has not ended. A turn that has
// ended is no error: the reply says how. It returns lifecycle.ErrNoTurn.
func (d *Desk) CancelTurn(ctx context.Context, key events.TurnKey, by events.Principal, reason string) (Reply, error) {
	t, err := d.act(ctx, key, lifecycle.CancelTurn{By: actor(by), Reason: wholeText(reason)})
	out := Reply{Accepted: err == nil}
	if t.Cancel != nil {
		out.By = &t.Cancel.By
	}
	if errors.Is(err, lifecycle.ErrEnded) && t.Ended != nil {
		out.Ended, err = t.Ended.Kind(), d.durable(ctx)
	}
	return out, err
}

// Resolution is what became of a call that was resolved. Its JSON form is what HTTP
// and the command line give.
type Resolution struct {
	Status  string           `json:"status"` // resolved
	Effects events.Effects   `json:"effects"`
	By      events.Principal `json:"by"`
	// Key says what it means for the call's idempotency key: free, taken (the same call
	// again gets this one's answer), or "" where it has none.
	Key string `json:"key,omitempty"`
}

// What a resolution means for a key.
const (
	KeyFree  = "free"
	KeyTaken = "taken"
)

// Resolve settles how a call ended whose effects are only possible. The same again
// is no error. It returns lifecycle.ErrNothing where that is known, or where somebody
// has said otherwise, ErrNoCall or ErrNoTurn.
func (d *Desk) Resolve(ctx context.Context, call events.CallKey, by events.Principal, e events.Effects, note string) (Resolution, error) {
	t, err := d.act(ctx, call.TurnKey(), lifecycle.Resolve{Call: call.Offset, By: person(by), Effects: e, Note: wholeText(note)})
	c := t.Call(call.Offset)
	switch {
	case c == nil && err == nil:
		return Resolution{}, fmt.Errorf("call %s: %w", call, lifecycle.ErrNoCall)
	case err != nil && c != nil && errors.Is(err, lifecycle.ErrNothing):
		return Resolution{}, nothingToResolve(call, c, err)
	case err != nil:
		return Resolution{}, err
	}
	out := Resolution{Status: "resolved", Effects: e, By: c.Resolved.By}
	if c.Verdict != nil && c.Verdict.Key != "" {
		out.Key = KeyTaken
		if e == events.EffectsNone {
			out.Key = KeyFree
		}
	}
	return out, nil
}

// nothingToResolve says why a call cannot be resolved so.
func nothingToResolve(call events.CallKey, c *lifecycle.Call, err error) error {
	switch r := c.Resolved; {
	case r != nil:
		return fmt.Errorf("call %s: %w: %s has resolved it as %s already, and that stands", call, lifecycle.ErrNothing, r.By.ID, r.Effects)
	case c.Open():
		return fmt.Errorf("call %s: %w yet: it has not ended, it is %s", call, lifecycle.ErrNothing, phaseOf(c))
	case c.Outcome != nil:
		return fmt.Errorf("call %s: %w: it ended as %s, and its effects are known: %s", call, lifecycle.ErrNothing, c.Last, c.Outcome.Effects)
	}
	return err
}

func phaseOf(c *lifecycle.Call) string {
	if c.Phase == lifecycle.PhaseNone {
		return "submitted"
	}
	return string(c.Phase)
}

// actor is who asks for an end; without a name it is the operator.
func actor(p events.Principal) events.Principal {
	if p.ID == "" {
		return events.Principal{ID: "operator", Kind: "person", Via: p.Via}
	}
	p.ID, p.Kind, p.Parents = wholeText(p.ID), wholeText(p.Kind), wholeAll(p.Parents)
	return p
}

// person is who decides: a person, unless something else is said.
func person(p events.Principal) events.Principal {
	p = actor(p)
	if p.Kind == "" {
		p.Kind = "person"
	}
	return p
}

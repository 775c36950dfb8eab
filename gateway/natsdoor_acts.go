package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// natsAct is the body of a request that asks for an act: what HTTP has in its path, and
// what it has in its body.
type natsAct struct {
	natsKey
	act
}

// acting reads who acts, and what the body says of the act.
func (r natsRequest) acting() (in natsAct, by events.Principal, err error) {
	if err := r.decode(&in); err != nil {
		return in, by, err
	}
	by, err = r.who.Acts(events.Principal(in.Principal))
	return in, by, err
}

// onCall reads a request for an act on a call, by somebody who may.
func (d *NATSDoor) onCall(ctx context.Context, r natsRequest, v access.Verb) (in natsAct, call events.CallKey, by events.Principal, err error) {
	if in, by, err = r.acting(); err != nil {
		return in, call, by, err
	}
	if call, err = in.call(); err != nil {
		return in, call, by, err
	}
	_, err = d.may(ctx, r.who, v, call.TurnKey())
	return in, call, by, err
}

// approval is the whole page of one, also of one that is over.
func (d *NATSDoor) approval(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		natsKey
		Asking int    `json:"asking,omitempty"` // which of the call's; 0: its last
		Kind   string `json:"kind,omitempty"`   // input: of what its tool has asked
	}
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	call, err := in.call()
	if err != nil {
		return 0, nil, err
	}
	if in.Asking < 0 {
		return 0, nil, BadRequest(fmt.Sprintf("asking %d", in.Asking), "say which of the call's askings, from 1, or nothing for the last one")
	}
	if _, err := d.may(ctx, r.who, access.Read, call.TurnKey()); err != nil {
		return 0, nil, err
	}
	input, err := inputKind(in.Kind)
	if err != nil {
		return 0, nil, err
	}
	page, err := d.desk.Approval(ctx, ApprovalID{call, in.Asking, input})
	return http.StatusOK, page, err
}

// cancel asks for the end of a turn, or of the call that the body names.
func (d *NATSDoor) cancel(ctx context.Context, r natsRequest) (int, any, error) {
	in, by, err := r.acting()
	if err != nil {
		return 0, nil, err
	}
	var out Reply
	if in.Call == nil {
		key, err := in.turn()
		if err != nil {
			return 0, nil, err
		}
		if _, err = d.may(ctx, r.who, access.Cancel, key); err != nil {
			return 0, nil, err
		}
		out, err = d.desk.CancelTurn(ctx, key, by, in.Reason)
		return cancelled(out, err)
	}
	call, err := in.call()
	if err != nil {
		return 0, nil, err
	}
	if _, err = d.may(ctx, r.who, access.Cancel, call.TurnKey()); err != nil {
		return 0, nil, err
	}
	out, err = d.desk.CancelCall(ctx, call, by, in.Reason)
	return cancelled(out, err)
}

// cancelled answers a cancel.
func cancelled(r Reply, err error) (int, any, error) {
	if err != nil {
		return 0, nil, err
	}
	status, out := r.answer()
	return status, out, nil
}

// approve is a person's yes, and deny a no.
func (d *NATSDoor) approve(ctx context.Context, r natsRequest) (int, any, error) {
	return d.decide(ctx, r, true)
}

func (d *NATSDoor) deny(ctx context.Context, r natsRequest) (int, any, error) {
	return d.decide(ctx, r, false)
}

func (d *NATSDoor) decide(ctx context.Context, r natsRequest, yes bool) (int, any, error) {
	in, call, by, err := d.onCall(ctx, r, access.Approve)
	if err != nil {
		return 0, nil, err
	}
	out, err := d.desk.answer(ctx, call, yes, by, in.act)
	return http.StatusOK, out, err
}

// resolve says how an unknown end ended.
func (d *NATSDoor) resolve(ctx context.Context, r natsRequest) (int, any, error) {
	in, call, by, err := d.onCall(ctx, r, access.Resolve)
	if err != nil {
		return 0, nil, err
	}
	if in.Effects != events.EffectsNone && in.Effects != events.EffectsDone {
		return 0, nil, BadRequest(fmt.Sprintf("effects %q", in.Effects), "say none or done")
	}
	out, err := d.desk.Resolve(ctx, call, by, in.Effects, in.Note)
	return http.StatusOK, out, err
}

// compensate has a call undone.
func (d *NATSDoor) compensate(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		natsKey
		undoAsked
	}
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := in.check(); err != nil {
		return 0, nil, err
	}
	by, err := r.who.Acts(events.Principal(in.Principal))
	if err != nil {
		return 0, nil, err
	}
	call, err := in.call()
	if err != nil {
		return 0, nil, err
	}
	if _, err := d.may(ctx, r.who, access.Compensate, call.TurnKey()); err != nil {
		return 0, nil, err
	}
	if in.WaitMS > 0 {
		select {
		case d.waits <- struct{}{}:
			defer func() { <-d.waits }()
		default:
			in.WaitMS = 0
		}
	}
	out, err := d.desk.Compensate(ctx, Undo{Call: call, By: by, Reason: in.Reason, Wait: time.Duration(in.WaitMS) * time.Millisecond})
	if err == nil && out.Status == UndoneNotYet {
		return http.StatusAccepted, out, nil
	}
	return http.StatusOK, out, err
}

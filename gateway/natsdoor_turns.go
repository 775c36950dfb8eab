package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/policy/access"
)

// known says whether somebody else is known at a door: no child can have that name.
func (d *NATSDoor) known(id string) bool {
	_, ok := d.who(id)
	return ok || d.other != nil && d.other(id)
}

// submit is what POST /v1/turns is. Where too many wait for the end of a turn, the
// answer comes at once, as though wait_ms had passed.
func (d *NATSDoor) submit(ctx context.Context, r natsRequest) (int, any, error) {
	o, err := ParseEnvelope(r.body)
	if err != nil {
		return 0, nil, err
	}
	if o.Turn.Principal, err = r.who.Submits(o.Said, d.known); err != nil {
		return 0, nil, err
	}
	if o.Turn.Workspace, err = r.who.Works(o.Turn.Workspace, d.desk.workspace); err != nil {
		return 0, nil, err
	}
	if err := d.desk.mayUndo(ctx, r.who, o.Turn); err != nil {
		return 0, nil, err
	}
	if o.Turn.Traceparent == "" && traceparent(r.parent) {
		o.Turn.Traceparent = r.parent
	}
	if o.Wait > 0 {
		select {
		case d.waits <- struct{}{}:
			defer func() { <-d.waits }()
		default:
			o.Wait = 0
		}
	}
	if o.Wait == 0 {
		ctx, stop := context.WithTimeout(ctx, natsLimit)
		defer stop()
		t, err := d.desk.Submit(ctx, o.Key, o.Turn)
		if err != nil {
			return 0, nil, about(t.Key, err)
		}
		if !t.Attached {
			return http.StatusAccepted, submittedOf(t, "submitted", o).overNATS(r.user, o.Turn.CanAsk), nil
		}
		v, err := d.desk.Get(ctx, t.Key) // it may have ended long ago
		if err != nil {
			return 0, nil, about(t.Key, err)
		}
		return d.outcome(ctx, r, t, v, o)
	}
	t, v, err := d.desk.Run(ctx, o.Key, o.Turn, o.Wait)
	if err != nil {
		return 0, nil, about(t.Key, err)
	}
	return d.outcome(ctx, r, t, v, o)
}

// outcome is what is answered about a turn that was waited for, or was there already.
func (d *NATSDoor) outcome(ctx context.Context, r natsRequest, t Ticket, v View, o Order) (int, any, error) {
	out := submittedOf(t, StateOf(v.Turn), o)
	if !v.Ended() {
		return http.StatusAccepted, out.overNATS(r.user, v.Turn.Submitted.CanAsk), nil
	}
	m, err := d.desk.Messages(ctx, v, codec.Format(o.Turn.Format))
	if err != nil {
		return 0, nil, about(t.Key, err)
	}
	out.tell(m)
	return http.StatusOK, out, nil
}

// natsLook is the body of a request to see a turn.
type natsLook struct {
	natsKey
	WaitMS int64 `json:"wait_ms,omitempty"` // how long to wait for its end; at most an hour
}

// look is a turn as it stands, for somebody who may see it, once it has ended or the time
// has passed. Where too many wait already, it is at once.
func (d *NATSDoor) look(ctx context.Context, r natsRequest, in natsLook) (View, error) {
	if in.WaitMS < 0 || in.WaitMS > MaxWait.Milliseconds() {
		return View{}, BadRequest(fmt.Sprintf("wait_ms %d", in.WaitMS), fmt.Sprintf("say 0 to %d", MaxWait.Milliseconds()))
	}
	key, err := in.turn()
	if err != nil {
		return View{}, err
	}
	soon, stop := context.WithTimeout(ctx, natsLimit)
	defer stop()
	v, err := d.may(soon, r.who, access.Read, key)
	if err != nil || in.WaitMS == 0 || v.Ended() {
		return v, err
	}
	leave, ok := d.slot()
	if !ok {
		return v, nil
	}
	defer leave()
	return d.desk.Wait(ctx, key, time.Duration(in.WaitMS)*time.Millisecond)
}

// turn is what GET /v1/turns/{trace}/{turn} is.
func (d *NATSDoor) turn(ctx context.Context, r natsRequest) (int, any, error) {
	var in natsLook
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	v, err := d.look(ctx, r, in)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, viewTurn(v), nil
}

// messages is what GET …/messages is.
func (d *NATSDoor) messages(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		natsLook
		Format codec.Format `json:"format,omitempty"`
	}
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Format != "" && !slices.Contains(codec.Formats(), in.Format) {
		return 0, nil, noFormat(in.Format)
	}
	v, err := d.look(ctx, r, in.natsLook)
	if err != nil {
		return 0, nil, err
	}
	m, err := d.desk.Messages(ctx, v, in.Format)
	if err != nil {
		return 0, nil, err
	}
	k := v.Turn.Key
	return http.StatusOK, messagesView{Trace: k.Trace, Turn: k.Turn, State: StateOf(v.Turn), Format: m.Format, Asked: m.Asked, Messages: m.Answered}, nil
}

// listTools is what GET /v1/tools is.
func (d *NATSDoor) listTools(ctx context.Context, r natsRequest) (int, any, error) {
	in := struct {
		Format string `json:"format"`
	}{"openai"}
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	if d.tools == nil {
		return 0, nil, errNoTools
	}
	list, err := d.tools(ctx, in.Format)
	return http.StatusOK, list, err
}

// whoami tells who asks, and what that allows.
func (d *NATSDoor) whoami(_ context.Context, r natsRequest) (int, any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, d.desk.whoIs(r.who), nil
}

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// answer gives the answer of a body to a call that asks, over whichever door.
func (d *Desk) answer(ctx context.Context, call events.CallKey, yes bool, by events.Principal, in act) (Decided, error) {
	switch {
	case in.Asking < 0:
		return Decided{}, BadRequest(fmt.Sprintf("asking %d", in.Asking), "say which asking you answer, from 1, or nothing for the last one")
	case !yes && (in.Scope != "" || !isNull(in.Args)):
		return Decided{}, BadRequest("a no with a scope or with arguments", "say no alone, or yes with them")
	case in.Scope != "" && in.Scope != events.ScopeCall && in.Scope != events.ScopeSession:
		return Decided{}, BadRequest(fmt.Sprintf("scope %q", in.Scope), "say call or session, or nothing for call")
	}
	a := Decision{Yes: yes, By: by, Scope: in.Scope, Hash: in.Hash, Note: in.Note}
	if !isNull(in.Args) {
		text := string(in.Args)
		a.Args = &text
	}
	return d.Decide(ctx, ApprovalID{Call: call, Asking: in.Asking}, a)
}

// approve is POST …/approve, and deny POST …/deny.
func (a *API) approve(w http.ResponseWriter, r *http.Request) error { return a.decide(w, r, true) }

func (a *API) deny(w http.ResponseWriter, r *http.Request) error { return a.decide(w, r, false) }

func (a *API) decide(w http.ResponseWriter, r *http.Request, yes bool) error {
	return a.actOn(w, r, func(call events.CallKey, by events.Principal, in act) error {
		out, err := a.desk.answer(r.Context(), call, yes, by, in)
		if err == nil {
			ok(w, out)
		}
		return err
	})
}

// inputKind says whether what is named is what a tool asks.
func inputKind(kind string) (bool, error) {
	switch kind {
	case "", projections.PendingApproval:
		return false, nil
	case projections.PendingInput:
		return true, nil
	}
	return false, BadRequest(fmt.Sprintf("kind %.40q", kind), "say approval or input, or nothing")
}

// getApproval is GET /v1/approvals/{trace}/{turn}/{call}: the whole page of one, also
// of one that is over. asking says which of the call's; without it, it is the last one.
func (a *API) getApproval(w http.ResponseWriter, r *http.Request) error {
	call, err := callOf(r)
	if err != nil {
		return err
	}
	id := ApprovalID{Call: call}
	if id.Input, err = inputKind(r.URL.Query().Get("kind")); err != nil {
		return err
	}
	if n := r.URL.Query().Get("asking"); n != "" {
		if id.Asking, err = strconv.Atoi(n); err != nil || id.Asking < 1 {
			return BadRequest(fmt.Sprintf("asking %q", n), "say which of the call's askings, from 1, or nothing for the last one")
		}
	}
	page, err := a.desk.Approval(r.Context(), id)
	if err == nil {
		ok(w, page)
	}
	return err
}

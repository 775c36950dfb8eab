package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// submit is POST /v1/turns. It answers 202 with the ids once the submission is
// durable, or 200 with the messages if the turn ended within wait_ms.
func (a *API) submit(w http.ResponseWriter, r *http.Request) error {
	body, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	o, err := ParseEnvelope(body)
	if err != nil {
		return err
	}
	if err := a.complete(r, &o); err != nil {
		return err
	}
	a.letGo(visitOf(r)) // whoever waits for a turn's end holds no body
	status, out, err := a.run(r, o)
	if err != nil {
		return err
	}
	answerSubmit(w, status, out)
	return nil
}

// complete fills a submission that has been read with who comes in, and returns nil
// where that one may have it run there.
func (a *API) complete(r *http.Request, o *Order) error {
	var err error
	if o.Turn.Principal, err = a.submits(r, o.Said); err != nil {
		return err
	}
	if o.Turn.Workspace, err = who(r).Works(o.Turn.Workspace, a.desk.workspace); err != nil {
		return err
	}
	if err := a.desk.mayUndo(r.Context(), who(r), o.Turn); err != nil {
		return err
	}
	if tp := r.Header.Get("Traceparent"); o.Turn.Traceparent == "" && traceparent(tp) {
		o.Turn.Traceparent = tp
	}
	return nil
}

// run submits, and waits for the turn's end where that is asked for. It returns what is
// answered, and with which status.
func (a *API) run(r *http.Request, o Order) (int, submitted, error) {
	if o.Wait == 0 {
		t, err := a.desk.Submit(r.Context(), o.Key, o.Turn)
		if err != nil {
			return 0, submitted{}, about(t.Key, err)
		}
		if !t.Attached {
			return http.StatusAccepted, submittedOf(t, "submitted", o).overHTTP(o.Turn.CanAsk), nil
		}
		v, err := a.desk.Get(r.Context(), t.Key) // it may have ended long ago
		if err != nil {
			return 0, submitted{}, about(t.Key, err)
		}
		return a.outcome(r.Context(), t, v, o)
	}
	ctx, stop := a.until(r)
	defer stop()
	t, v, err := a.desk.Run(ctx, o.Key, o.Turn, o.Wait)
	if err != nil {
		return 0, submitted{}, about(t.Key, err)
	}
	return a.outcome(r.Context(), t, v, o)
}

// outcome is what is answered about a turn that was waited for, in the format of who has: one
// that was there already may have come in another.
func (a *API) outcome(ctx context.Context, t Ticket, v View, o Order) (int, submitted, error) {
	out := submittedOf(t, StateOf(v.Turn), o)
	if !v.Ended() {
		return http.StatusAccepted, out.overHTTP(v.Turn.Submitted.CanAsk), nil
	}
	m, err := a.desk.Messages(ctx, v, codec.Format(o.Turn.Format))
	if err != nil {
		return 0, out, err
	}
	out.tell(m)
	return http.StatusOK, out, nil
}

// answerSubmit answers a submission.
func answerSubmit(w http.ResponseWriter, status int, out submitted) {
	if status == http.StatusAccepted {
		accepted(w, out)
		return
	}
	ok(w, out)
}

func accepted(w http.ResponseWriter, s submitted) {
	w.Header().Set("Location", "/v1/turns/"+s.Trace+"/"+s.Turn)
	writeJSON(w, http.StatusAccepted, "application/json", s)
}

// StateOf is where a turn stands, in a word: submitted, running, parked,
// completed, abandoned, or imported for a recorded one with open calls.
func StateOf(t lifecycle.Turn) string {
	switch {
	case t.Ended != nil && t.Ended.Kind() == events.KindTurnAbandoned:
		return "abandoned"
	case t.Ended != nil:
		return "completed"
	case t.Submitted != nil && t.Submitted.Imported != "":
		return "imported"
	case t.Parked != nil:
		return "parked"
	case t.Owner.Boot != "":
		return "running"
	}
	return "submitted"
}

// turnView answers GET /v1/turns/{trace}/{turn}.
type turnView struct {
	Trace     string           `json:"trace"`
	Turn      string           `json:"turn"`
	State     string           `json:"state"`
	Principal events.Principal `json:"principal"`
	Format    string           `json:"format,omitempty"`
	Workspace string           `json:"workspace,omitempty"`
	Mode      string           `json:"mode,omitempty"`
	Placement string           `json:"placement,omitempty"`
	Imported  string           `json:"imported,omitempty"`
	Submitted time.Time        `json:"submitted_at"`
	Owner     *events.Owner    `json:"owner,omitempty"`
	Batches   [][]int          `json:"batches,omitempty"`
	Cancelled bool             `json:"cancel_requested,omitempty"`
	Broken    string           `json:"broken,omitempty"` // why the history is not one that this release writes
	Position  string           `json:"position"`         // of the last commit
	Calls     []callView       `json:"calls"`
}

// callView is one call of a turnView.
type callView struct {
	Call       int             `json:"call"`
	ProviderID string          `json:"provider_id,omitempty"`
	Tool       string          `json:"tool"`
	State      string          `json:"state"` // a phase, or the kind of its terminal
	Tier       events.Tier     `json:"tier,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Effects    events.Effects  `json:"effects,omitempty"`
	Resolved   events.Effects  `json:"resolved,omitempty"`
	Undone     *undoneView     `json:"compensated,omitempty"`
	Status     events.Status   `json:"status,omitempty"`
	Code       events.Code     `json:"code,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Path       string          `json:"path,omitempty"`
	Of         string          `json:"deduplicated_from,omitempty"`
	Cancelled  bool            `json:"cancel_requested,omitempty"`
	Whole      *events.BlobRef `json:"whole,omitempty"` // of an answer that a limit cut
	Stages     *events.Stages  `json:"stages,omitempty"`
}

// undoneView is who undid a call, and when.
type undoneView struct {
	By events.Principal `json:"by"`
	At time.Time        `json:"at"`
}

func viewTurn(v View) turnView {
	t, s := v.Turn, v.Turn.Submitted
	out := turnView{
		Trace: t.Key.Trace, Turn: t.Key.Turn, State: StateOf(t), Principal: s.Principal, Format: s.Format, Workspace: s.Workspace,
		Mode: s.Mode, Placement: s.Placement, Imported: s.Imported, Submitted: t.SubmittedAt, Cancelled: t.Cancel != nil, Broken: t.Broken,
		Position: v.Commits[len(v.Commits)-1].Position(0).String(), Calls: make([]callView, len(t.Calls)),
	}
	if t.Owner.Boot != "" {
		out.Owner = &t.Owner
	}
	if t.Planned != nil {
		out.Batches = t.Planned.Batches
	}
	for i, c := range t.Calls {
		out.Calls[i] = viewCall(c, s.Calls[i])
		if !c.Undone {
			continue
		}
		if e, at := compensatedIn(v, i); e != nil {
			out.Calls[i].Undone = &undoneView{e.By, at}
		}
	}
	return out
}

func viewCall(c *lifecycle.Call, raw events.RawCall) callView {
	out := callView{
		Call: c.Offset, ProviderID: raw.ProviderID, Tool: raw.Tool, State: string(c.Phase), Attempt: c.Attempt, Cancelled: c.Cancel != nil,
	}
	if c.Phase == lifecycle.PhaseNone {
		out.State = "submitted"
	}
	if c.Verdict != nil {
		out.Tier = c.Verdict.Tier
	}
	if c.Resolved != nil {
		out.Resolved = c.Resolved.Effects
	}
	if c.Terminal == nil {
		return out
	}
	out.State = string(c.Last)
	switch e := c.Terminal.(type) {
	case *events.Denied:
		out.Effects, out.Code, out.Reason, out.Path = events.EffectsNone, e.Code, e.Reason, e.Path
	case *events.Deduplicated:
		out.Of = e.Of
	}
	if o := c.Outcome; o != nil {
		out.Effects, out.Status, out.Stages = o.Effects, o.Result.Status, &o.Stages
		if e := o.Result.Error; e != nil {
			out.Code, out.Reason, out.Path = e.Code, e.Message, e.Path
		}
		if o.Result.Cut != nil {
			out.Whole = &o.Result.Cut.Whole
		}
	}
	return out
}

// getTurn is GET /v1/turns/{trace}/{turn}. With wait_ms it is answered as soon as the turn
// has ended, or as it stands then.
func (a *API) getTurn(w http.ResponseWriter, r *http.Request) error {
	v, err := a.turn(r)
	if err != nil {
		return err
	}
	okTagged(w, r, viewTurn(v))
	return nil
}

// turn reads the turn that a path names, once it has ended or wait_ms has passed.
func (a *API) turn(r *http.Request) (View, error) {
	key, err := turnOf(r)
	if err != nil {
		return View{}, err
	}
	wait, err := waitOf(r.URL.Query(), MaxWait)
	if err != nil {
		return View{}, err
	}
	if wait == 0 {
		return a.desk.Get(r.Context(), key)
	}
	ctx, stop := a.until(r)
	defer stop()
	return a.desk.Wait(ctx, key, wait)
}

// messagesView answers GET …/messages.
type messagesView struct {
	Trace    string            `json:"trace"`
	Turn     string            `json:"turn"`
	State    string            `json:"state"`
	Format   codec.Format      `json:"format"`
	Asked    json.RawMessage   `json:"assistant"` // the model's message that these answer, with the same ids
	Messages []json.RawMessage `json:"messages"`
}

func (a *API) getMessages(w http.ResponseWriter, r *http.Request) error {
	format := codec.Format(r.URL.Query().Get("format"))
	if format != "" && !slices.Contains(codec.Formats(), format) {
		return noFormat(format)
	}
	v, err := a.turn(r)
	if err != nil {
		return err
	}
	m, err := a.desk.Messages(r.Context(), v, format)
	if err != nil {
		return err
	}
	k := v.Turn.Key
	okTagged(w, r, messagesView{Trace: k.Trace, Turn: k.Turn, State: StateOf(v.Turn), Format: m.Format, Asked: m.Asked, Messages: m.Answered})
	return nil
}

// act is the body of a request that asks for an act.
type act struct {
	Principal Who             `json:"principal,omitzero"`
	Reason    string          `json:"reason,omitempty"`    // of a cancel
	Note      string          `json:"note,omitempty"`      // of an approval, a denial, a resolution
	Scope     string          `json:"scope,omitempty"`     // of an approval: call or session
	Hash      string          `json:"args_hash,omitempty"` // of the arguments that the person saw
	Asking    int             `json:"asking,omitempty"`    // which of the call's askings is answered; 0: the last one
	Args      json.RawMessage `json:"args,omitempty"`      // changed arguments
	Effects   events.Effects  `json:"effects,omitempty"`   // of a resolution: none or done
}

// replied answers a cancel.
type replied struct {
	Status string            `json:"status"`          // accepted or already_terminal
	State  events.Kind       `json:"state,omitempty"` // how it had ended already
	By     *events.Principal `json:"by,omitempty"`    // whose cancel counts
}

// answer is a cancel's, with its status.
func (r Reply) answer() (status int, out replied) {
	if r.Accepted {
		return http.StatusAccepted, replied{Status: "accepted", By: r.By}
	}
	return http.StatusOK, replied{Status: "already_terminal", State: r.Ended, By: r.By}
}

func reply(w http.ResponseWriter, r Reply) {
	status, out := r.answer()
	writeJSON(w, status, "application/json", out)
}

func (a *API) cancelTurn(w http.ResponseWriter, r *http.Request) error {
	key, err := turnOf(r)
	if err != nil {
		return err
	}
	var in act
	if err := a.decodeOptional(w, r, &in); err != nil {
		return err
	}
	by, err := acts(r, in.Principal)
	if err != nil {
		return err
	}
	out, err := a.desk.CancelTurn(r.Context(), key, by, in.Reason)
	if err == nil {
		reply(w, out)
	}
	return err
}

func (a *API) cancelCall(w http.ResponseWriter, r *http.Request) error {
	return a.actOn(w, r, func(call events.CallKey, by events.Principal, in act) error {
		out, err := a.desk.CancelCall(r.Context(), call, by, in.Reason)
		if err == nil {
			reply(w, out)
		}
		return err
	})
}

// actOn reads the call and the body of a request that asks for an act on a call, and says
// who does it.
func (a *API) actOn(w http.ResponseWriter, r *http.Request, do func(call events.CallKey, by events.Principal, in act) error) error {
	call, err := callOf(r)
	if err != nil {
		return err
	}
	var in act
	if err := a.decodeOptional(w, r, &in); err != nil {
		return err
	}
	by, err := acts(r, in.Principal)
	if err != nil {
		return err
	}
	return do(call, by, in)
}

func (a *API) resolve(w http.ResponseWriter, r *http.Request) error {
	return a.actOn(w, r, func(call events.CallKey, by events.Principal, in act) error {
		if in.Effects != events.EffectsNone && in.Effects != events.EffectsDone {
			return BadRequest(fmt.Sprintf("effects %q", in.Effects), "say none or done")
		}
		out, err := a.desk.Resolve(r.Context(), call, by, in.Effects, in.Note)
		if err != nil {
			return err
		}
		ok(w, out)
		return nil
	})
}

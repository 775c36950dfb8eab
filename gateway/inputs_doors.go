package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// answerBody is the body of a request that answers a tool.
type answerBody struct {
	Principal Who             `json:"principal,omitzero"`
	Asking    int             `json:"asking,omitempty"` // which of the call's askings is answered; 0: the last one, of which nothing can be accepted
	Answers   []givenAnswer   `json:"answers,omitempty"`
	Action    string          `json:"action,omitempty"`  // instead of answers: one for all that is asked
	Content   json.RawMessage `json:"content,omitempty"` // with action accept, where one form is asked
	Note      string          `json:"note,omitempty"`
}

// givenAnswer is one answer as a body has it.
type givenAnswer struct {
	ID      string          `json:"id"`
	Action  string          `json:"action"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
}

// accepts says whether a request is accepted in it.
func (in answerBody) accepts() bool {
	return in.Action == events.InputAccept || slices.ContainsFunc(in.Answers, func(g givenAnswer) bool { return g.Action == events.InputAccept })
}

// answering is what a body says, once it makes sense.
func (in answerBody) answering(by events.Principal) (Answering, error) {
	a := Answering{By: by, Action: in.Action, Note: in.Note}
	switch {
	case in.Asking < 0:
		return a, BadRequest(fmt.Sprintf("asking %d", in.Asking), "say which asking you answer, from 1")
	case len(in.Answers) > events.MaxInputRequests:
		return a, BadRequest(fmt.Sprintf("%d answers", len(in.Answers)), "give one to each request")
	case (len(in.Answers) == 0) == (in.Action == ""):
		return a, BadRequest("answers, or one action for all", "give an answer to each request as {id, action, content}, or one action: accept, decline or cancel")
	case len(in.Answers) > 0 && !isNull(in.Content):
		return a, BadRequest("answers, and a content beside them", "put the content into the answer that it belongs to")
	case in.Asking == 0 && in.accepts(): // a later asking may have the same requests, and mean something else
		return a, BadRequest("accept, and no asking", "say which asking you have read, from 1, as its page does; decline and cancel may leave it out, for the last one")
	}
	if !isNull(in.Content) {
		a.Content = in.Content
	}
	for _, g := range in.Answers {
		one := events.InputAnswer{ID: g.ID, Action: g.Action}
		if !isNull(g.Content) {
			one.Content = g.Content
		}
		a.Answers = append(a.Answers, one)
	}
	return a, nil
}

// take gives the answers of a body to a tool that has asked, over whichever door.
func (d *Desk) take(ctx context.Context, call events.CallKey, by events.Principal, in answerBody) (Answered, error) {
	a, err := in.answering(by)
	if err != nil {
		return Answered{}, err
	}
	return d.Answer(ctx, ApprovalID{Call: call, Asking: in.Asking, Input: true}, a)
}

// answerInput is POST …/answer.
func (a *API) answerInput(w http.ResponseWriter, r *http.Request) error {
	call, err := callOf(r)
	if err != nil {
		return err
	}
	var in answerBody
	if err := a.decodeOptional(w, r, &in); err != nil {
		return err
	}
	by, err := acts(r, in.Principal)
	if err != nil {
		return err
	}
	out, err := a.desk.take(r.Context(), call, by, in)
	if err == nil {
		ok(w, out)
	}
	return err
}

// answer gives a tool that has asked its answers.
func (d *NATSDoor) answer(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		natsKey
		answerBody
	}
	if err := r.decode(&in); err != nil {
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
	if _, err := d.may(ctx, r.who, access.Approve, call.TurnKey()); err != nil {
		return 0, nil, err
	}
	out, err := d.desk.take(ctx, call, by, in.answerBody)
	return http.StatusOK, out, err
}

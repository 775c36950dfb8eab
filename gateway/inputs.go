package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/projections"
)

// Answering is what a person gives a tool that has asked.
type Answering struct {
	By events.Principal // a person or a service: see lifecycle.MayDecide. An empty kind means person
	// Answers are one for each request, in any order; their Secrets count for nothing.
	Answers []events.InputAnswer
	// Action answers all requests alike, where there are no Answers: decline, cancel, or
	// accept, with Content for the one form among them.
	Action  string
	Content json.RawMessage
	Note    string // for the record
}

// What became of answers.
const (
	AnsweredNow     = "answered"
	AnsweredAlready = "already_answered" // somebody had given the same answers before
)

// Answered is what became of answers: whose count, and what they are. Its JSON form is
// what every door gives.
type Answered struct {
	Status  string               `json:"status"`
	ID      string               `json:"id"`
	Tool    string               `json:"tool"`
	By      events.Principal     `json:"by"`
	At      time.Time            `json:"at,omitzero"`
	Answers []events.InputAnswer `json:"answers"` // secrets are placeholders
	Note    string               `json:"note,omitempty"`
}

// FieldProblem is what is wrong with one field of an answer.
type FieldProblem struct {
	Request string `json:"request"`         // id of what was asked
	Field   string `json:"field,omitempty"` // of its form; "" where it is about all of it
	Why     string `json:"why"`
}

// unfit is a lifecycle.ErrAnswers that names the fields which are wrong.
type unfit struct{ fields []FieldProblem }

func (e unfit) Error() string {
	parts := make([]string, len(e.fields))
	for i, f := range e.fields {
		parts[i] = events.Visible(f.Request)
		if f.Field != "" {
			parts[i] += "/" + events.Visible(f.Field)
		}
		parts[i] += ": " + f.Why
	}
	return lifecycle.ErrAnswers.Error() + ", and the call still waits: " + strings.Join(parts, "; ")
}

func (e unfit) Is(target error) bool { return target == lifecycle.ErrAnswers }

// Answer gives a tool the answers that it has asked a person for. The first durable ones
// count: the same again is no error, and says whose they were. It returns
// lifecycle.ErrAnswers where they do not fit what was asked, with a FieldProblem for each
// field, and otherwise lifecycle.ErrDecider, ErrNoInput, ErrSuperseded, ErrExpired,
// ErrEnded, ErrCancelled, ErrNoCall or ErrNoTurn: the call waits on then.
func (d *Desk) Answer(ctx context.Context, id ApprovalID, a Answering) (Answered, error) {
	by := person(a.By)
	cmd := lifecycle.Answer{Call: id.Call.Offset, By: by, Round: id.Asking, Answers: a.Answers, Note: wholeText(a.Note)}
	v, err := d.fresh(ctx, id.Call.TurnKey())
	if err != nil {
		return Answered{}, err
	}
	// Who may not answer is told nothing of the form: act says so.
	if c := v.Turn.Call(id.Call.Offset); c != nil && c.Input != nil && lifecycle.MayDecide(by, v.Turn.Submitted.Principal) == nil {
		if cmd.Answers, err = a.answers(c.Input.Requests); err == nil {
			cmd.Answers, err = d.fitting(ctx, id.Call, c.Input.Requests, cmd.Answers)
		}
		if err != nil {
			return Answered{}, err
		}
	}
	t, already, err := d.actAnew(ctx, id.Call.TurnKey(), cmd)
	if err != nil {
		return Answered{}, err
	}
	return answeredBy(t, id, by, already), nil
}

// answers are one for each request, where one was given for all of them.
func (a Answering) answers(requests []events.InputRequest) ([]events.InputAnswer, error) {
	if len(a.Answers) > 0 || a.Action == "" {
		return a.Answers, nil
	}
	var out []events.InputAnswer
	for _, r := range requests {
		one := events.InputAnswer{ID: r.ID, Action: a.Action}
		if r.Kind != events.InputURL {
			one.Content = a.Content
		}
		if a.Action == events.InputAccept && len(requests) > 1 && len(a.Content) > 0 {
			return nil, fmt.Errorf("%w: %d things are asked, and one content is given: name each by its id", lifecycle.ErrAnswers, len(requests))
		}
		out = append(out, one)
	}
	return out, nil
}

// fitting are answers whose contents fit the forms that were asked, with the secrets
// taken out of them, whose values are kept.
func (d *Desk) fitting(ctx context.Context, call events.CallKey, requests []events.InputRequest, answers []events.InputAnswer) ([]events.InputAnswer, error) {
	out := slices.Clone(answers)
	forms := make([]lifecycle.Form, len(out))
	var wrong []FieldProblem
	for i := range out {
		a := &out[i]
		a.Secrets = nil
		at := slices.IndexFunc(requests, func(r events.InputRequest) bool { return r.ID == a.ID })
		if len(a.Content) == 0 || a.Action != events.InputAccept || at < 0 {
			continue // whether that is right, lifecycle says
		}
		args, err := lifecycle.Parse(wholeJSON(string(a.Content)))
		if err != nil {
			wrong = append(wrong, FieldProblem{Request: a.ID, Why: "its content is no JSON object that can be read"})
			continue
		}
		a.Content = args.JSON
		if requests[at].Kind != events.InputForm {
			continue
		}
		if forms[i], err = lifecycle.ReadForm(requests[at].Schema); err != nil {
			return nil, fmt.Errorf("%w: %w", lifecycle.ErrAnswers, err)
		}
		for _, f := range forms[i].Check(a.Content) {
			wrong = append(wrong, FieldProblem{a.ID, f.Field, f.Why})
		}
	}
	if len(wrong) > 0 {
		return nil, unfit{wrong}
	}
	for i := range out {
		if err := d.sealAnswer(ctx, call, &out[i], forms[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sealAnswer takes the secrets out of an answer: those that look like one, those whose
// field's name says so, and those that the form asks for as such.
func (d *Desk) sealAnswer(ctx context.Context, call events.CallKey, a *events.InputAnswer, f lifecycle.Form) error {
	if len(a.Content) == 0 {
		return nil
	}
	o := secrets.Sealing{ID: d.secretID}
	for _, field := range f.Fields {
		if field.Secret {
			o.Declared = append(o.Declared, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(field.Name))
		}
	}
	got := secrets.Seal(string(a.Content), o)
	switch {
	case got.Refused != nil:
		return unfit{[]FieldProblem{{Request: a.ID, Why: got.Refused.Reason}}}
	case len(got.Refs) > 0 && d.vault == nil:
		return unfit{[]FieldProblem{{Request: a.ID, Why: "it holds a secret, and this door has nowhere to keep it outside the log: answer at a node"}}}
	case len(got.Refs) > 0:
		if err := d.vault.Put(ctx, call, got.Refs, got.Values); err != nil {
			return err
		}
	}
	a.Content, a.Secrets = json.RawMessage(got.Args), got.Refs
	return nil
}

// answeredBy are the answers that count, for somebody who has given some: already says
// that they were given before.
func answeredBy(t lifecycle.Turn, id ApprovalID, by events.Principal, already bool) Answered {
	c := t.Call(id.Call.Offset)
	if c == nil || c.Answered == nil {
		return Answered{ID: id.String(), By: by}
	}
	out := Answered{
		Status: AnsweredNow, ID: projections.InputID(id.Call, c.Answered.Round), Tool: c.Tool, By: by,
		At: c.AnsweredAt, Answers: c.Answered.Answers, Note: c.Answered.Note,
	}
	if first := c.Answered.By; first != nil {
		out.By = *first
	}
	if already {
		out.Status = AnsweredAlready
	}
	return out
}

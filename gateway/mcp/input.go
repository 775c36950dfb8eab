package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// samplingKind is what a tool's request is called that wants a text from the client's model.
const samplingKind = "sampling/createMessage"

// atClient begins the name under which answers to a tool are recorded of whom nothing is
// known but that they came from an agent's client. It is the client program's, which the
// operator lets answer for people: nobody says that a person has seen the question.
const atClient = "client:"

// answerer is whose word an answer to a tool is that comes from the client; the zero
// Principal where it is nobody's.
func (c *calling) answerer() events.Principal {
	cfg := c.door.cfg
	switch who := c.person(); {
	case cfg.Inbox:
		return events.Principal{}
	case who != "":
		return events.Principal{ID: who, Kind: lifecycle.KindPerson, Via: events.ViaMCP}
	case cfg.AskClients:
		return events.Principal{ID: atClient + c.order.turn.Principal.ID, Kind: lifecycle.KindService, Via: events.ViaMCP}
	}
	return events.Principal{}
}

// input is the question that a call's tool asks before it can go on.
func (c *calling) input(back *backend, v gateway.View) *question {
	in := v.Turn.Call(0).Input
	id := gateway.ApprovalID{Call: c.key.Call(0), Asking: in.Round, Input: true}
	q := &question{id: id.String(), why: "its tool asks for something", until: in.Expires}
	by := c.answerer()
	if by.ID == "" {
		return q
	}
	prompt := make(sdk.InputRequestMap, len(in.Requests))
	for _, r := range in.Requests {
		p := c.inputPrompt(r)
		if p == nil {
			return q // a part of it cannot be asked here: all of it is asked at the inbox
		}
		prompt[r.ID] = p
	}
	q.prompt = prompt
	q.take = func(ctx context.Context, said sdk.InputResponseMap) error {
		a := gateway.Answering{By: by}
		for _, r := range in.Requests {
			one, err := readInput(r, said[r.ID])
			if err != nil {
				return err
			}
			a.Answers = append(a.Answers, one)
		}
		_, err := back.Desk.Answer(ctx, id, a)
		return err
	}
	return q
}

// inputPrompt is a tool's request as the client puts it before a person, or nil where the
// client cannot.
func (c *calling) inputPrompt(r events.InputRequest) sdk.InputRequest {
	caps := c.req.ClientCapabilities()
	message := fmt.Sprintf("The tool %s asks:\n\n%s", c.order.tool.Name, visible(r.Message))
	switch {
	case caps == nil || len(message) > maxPrompt:
		return nil
	case r.Kind == events.InputForm && c.forms():
		return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(events.WholeJSON(r.Schema))}
	case r.Kind == events.InputURL && caps.Elicitation != nil && caps.Elicitation.URL != nil:
		return &sdk.ElicitParams{Mode: "url", Message: message, URL: r.URL, ElicitationID: r.ID}
	case r.Kind == samplingKind:
		return sampling(caps, events.WholeJSON(r.Raw))
	}
	return nil
}

// paramsOf are the params of a request that may stand in its frame, or the request itself.
func paramsOf(raw json.RawMessage) json.RawMessage {
	var frame struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(raw, &frame) == nil && frame.Method != "" && len(frame.Params) > 0 {
		return frame.Params
	}
	return raw
}

// visible is a tool's text with everything visible that a terminal would obey or hide. Its
// lines stay lines.
func visible(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = events.Visible(l)
	}
	return strings.Join(lines, "\n")
}

// readInput is what a person has said to a tool's request.
func readInput(r events.InputRequest, said sdk.InputResponse) (events.InputAnswer, error) {
	out := events.InputAnswer{ID: r.ID}
	e, ok := said.(*sdk.ElicitResult)
	if !ok {
		return sampled(out, said)
	}
	out.Action = e.Action
	if e.Action != events.InputAccept || r.Kind != events.InputForm {
		return out, nil
	}
	content := e.Content
	if content == nil {
		content = map[string]any{}
	}
	if !exact(content) {
		return out, fmt.Errorf("%s: a number of 2^53 or beyond does not come through a client as it was meant: answer at the inbox", r.ID)
	}
	var err error
	out.Content, err = json.Marshal(content)
	return out, err
}

// exact says whether the numbers in content are those that were sent: the SDK reads them as
// float64, which keeps no integer from 2^53 on.
func exact(content any) bool {
	switch v := content.(type) {
	case float64:
		return v > -keepable && v < keepable
	case map[string]any:
		for _, x := range v {
			if !exact(x) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !exact(x) {
				return false
			}
		}
	}
	return true
}

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// maxPrompt is the length in bytes of the longest page that is put before a person at a
// client: nobody is asked about a part. Of longer ones the inbox asks.
const maxPrompt = 64 << 10

// sinceStateless is the first revision in which a server asks by its answer, and not by
// requests of its own.
const sinceStateless = "2026-07-28"

func (c *calling) stateless() bool { return newer(c.req) }

// question is something that a person is asked for, as a client puts it before them.
type question struct {
	id     string // of the asking, as the inbox names it
	hash   string // of what is asked about
	why    string // in a sentence, for the model
	until  time.Time
	prompt sdk.InputRequestMap // nil: this client cannot ask it
	// take takes what a person has said to the prompt. It is no answer where they have said
	// nothing.
	take func(ctx context.Context, said sdk.InputResponseMap) error
}

// people deals with a call that waits for a person. A result is the answer to the request;
// nil means: wait on.
func (c *calling) people(ctx context.Context, back *backend, v gateway.View) (*sdk.CallToolResult, error) {
	q, err := c.question(ctx, back, v)
	if err != nil || q == nil {
		c.since = time.Time{}
		return nil, err
	}
	if c.since.IsZero() {
		c.since = c.door.cfg.Now()
	}
	switch {
	case q.prompt == nil || c.asked[q.id]:
	case c.stateless():
		c.asked[q.id] = true
		if c.req.Params.RequestState == q.state() && len(c.req.Params.InputResponses) > 0 {
			err := q.take(ctx, c.req.Params.InputResponses)
			if !errors.Is(err, lifecycle.ErrAnswers) {
				c.took(q, err)
				return nil, nil
			}
			q.unfit(err)
		}
		if err := c.hold(ctx, back); err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{}, InputRequests: q.prompt, RequestState: q.state()}, nil
	default:
		c.asked[q.id] = true
		c.put(ctx, q)
	}
	if c.asking() || c.door.cfg.Now().Sub(c.since) < c.door.cfg.Patience {
		return nil, nil
	}
	if err := c.hold(ctx, back); err != nil {
		return nil, err
	}
	return c.pending(back, q), nil
}

// state is what a client gives back with its answers: which question, about what.
func (q *question) state() string { return q.id + " " + q.hash }

// hold sees to it that the same call again meets this one, from other sessions of the same
// principal too where none of theirs is held already: its mark goes into that cell.
func (c *calling) hold(ctx context.Context, back *backend) error {
	if c.marked && (c.order.held == "" || c.mark.cell == c.order.held) {
		return nil
	}
	cell := c.order.held
	if cell != "" {
		m, err := c.door.marked(ctx, back, cell)
		if err == nil && m.key() != c.key {
			open, err := c.door.stillOpen(ctx, back, m)
			switch {
			case err != nil:
				return err
			case open && c.marked:
				return nil
			case open:
				cell = c.order.mark
			}
		}
	} else {
		cell = c.order.mark
	}
	m, _, err := c.door.take(ctx, back, cell, c.key)
	if err != nil || m.key() != c.key {
		return err
	}
	before, had := c.mark, c.marked
	c.mark, c.marked = m, true
	if had {
		if err := c.door.unmark(ctx, before); err != nil && !errors.Is(err, errMoved) {
			return err
		}
	}
	return nil
}

// put puts a question before a person by a request of the server's own, for clients before
// 2026-07-28. Whoever answers first counts; where the answer comes from elsewhere, the
// question ends with the request.
func (c *calling) put(ctx context.Context, q *question) {
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
	c.wg.Go(func() {
		err := c.putOnce(ctx, q)
		for again := 0; again < maxUnfit && errors.Is(err, lifecycle.ErrAnswers) && ctx.Err() == nil; again++ {
			q.unfit(err)
			err = c.putOnce(ctx, q)
		}
		if ctx.Err() == nil {
			c.took(q, err)
		}
		c.mu.Lock()
		c.open--
		c.mu.Unlock()
		c.ear.ask() // to look whether it is answered, and how long is still to be waited
	})
}

// maxUnfit is how often a client is asked once more whose answers do not fit.
const maxUnfit = 3

// putOnce puts a question once, and takes what is said.
func (c *calling) putOnce(ctx context.Context, q *question) error {
	said := make(sdk.InputResponseMap)
	for id, r := range q.prompt {
		var err error
		if said[id], err = c.askClient(ctx, r); err != nil {
			return err
		}
	}
	return q.take(ctx, said)
}

// unfit has the question begin with what was wrong with the last answers to it.
func (q *question) unfit(err error) {
	for id, r := range q.prompt {
		if p, ok := r.(*sdk.ElicitParams); ok {
			again := *p
			again.Message = "This was not taken: " + visible(err.Error()) + "\n\n" + p.Message
			q.prompt[id] = &again
		}
	}
}

// askClient puts one request to the client, and waits for its answer.
func (c *calling) askClient(ctx context.Context, r sdk.InputRequest) (sdk.InputResponse, error) {
	if p, ok := r.(*sdk.ElicitParams); ok {
		return c.req.Session.Elicit(ctx, p)
	}
	return askModel(ctx, c.req.Session, r)
}

// asking says whether somebody at the client has a question before them.
func (c *calling) asking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open > 0
}

// took notes that a person's answer did not count: the inbox still has the question.
func (c *calling) took(q *question, err error) {
	if err != nil {
		c.door.cfg.Log.Warn("what was said at a client to a question did not count: it waits in the inbox", "asking", q.id, "err", err)
	}
}

// pending is the answer to a request whose call waits for a person for too long.
func (c *calling) pending(back *backend, q *question) *sdk.CallToolResult {
	where := cmp.Or(back.Where, "sluice-node inbox shows it")
	r := failure(fmt.Sprintf("This call waits for a person, as %s (%s), and has no answer yet. It is not for you to answer. For that person: %s. It waits until %s. "+
		"Ask for the same call with the same arguments again later: it is not made twice, and that is how its answer comes.",
		q.id, events.Visible(q.why), where, q.until.UTC().Format("2006-01-02 15:04:05 MST")))
	r.Meta = sdk.Meta{MetaTrace: c.key.Trace, MetaTurn: c.key.Turn}
	return r
}

// question is what the turn's call waits for a person for, or nil.
func (c *calling) question(ctx context.Context, back *backend, v gateway.View) (*question, error) {
	call := v.Turn.Call(0)
	switch {
	case call == nil:
		return nil, nil
	case call.Phase == lifecycle.PhaseAsking:
		return c.approval(ctx, back, v)
	case call.Phase == lifecycle.PhaseInput && call.Input != nil:
		return c.input(back, v), nil
	}
	return nil, nil
}

// person is whose word an answer at the client is, "" where it is nobody's.
func (c *calling) person() string { return c.door.cfg.Approver(c.order.turn.Principal) }

// forms says whether the client can put a form before a person, pages whether an address.
func (c *calling) forms() bool {
	caps := c.req.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// errNothingSaid says that a person has closed a question without an answer.
var errNothingSaid = errors.New("it was closed without an answer")

// approval is the question whether a call may be made.
func (c *calling) approval(ctx context.Context, back *backend, v gateway.View) (*question, error) {
	asked := v.Turn.Call(0).Asked
	id := gateway.ApprovalID{Call: c.key.Call(0), Asking: asked.Number()}
	q := &question{id: projections.PendingID(id.Call, id.Asking), hash: asked.Hash, why: asked.Why, until: asked.Expires}
	who := c.person()
	if who == "" || !c.forms() {
		return q, nil
	}
	page, err := back.Desk.Approval(ctx, id)
	if err != nil {
		return nil, err
	}
	if page.State != projections.ApprovalOpen || len(page.Visible) > maxPrompt || strings.Contains(page.Visible, "GET /v1/blobs/") {
		return q, nil
	}
	q.prompt = sdk.InputRequestMap{approvalPrompt: &sdk.ElicitParams{
		Mode: "form", RequestedSchema: json.RawMessage(approvalForm),
		Message: "May this call be made? Read all of it.\n\n" + page.Visible,
	}}
	q.take = func(ctx context.Context, said sdk.InputResponseMap) error {
		yes, note, err := readApproval(said)
		if err != nil {
			return err
		}
		_, err = back.Desk.Decide(ctx, id, gateway.Decision{
			Yes: yes, By: events.Principal{ID: who, Kind: lifecycle.KindPerson, Via: events.ViaMCP}, Hash: page.Hash, Note: note,
		})
		return err
	}
	return q, nil
}

// approvalPrompt names the question in what a client is asked.
const approvalPrompt = "approval"

// approvalForm is what a person fills in. No is first: it is what a careless hand takes.
const approvalForm = `{"type":"object","properties":{` +
	`"decision":{"type":"string","title":"Decision","description":"deny: the call is not made. approve: exactly this call is made, once","enum":["deny","approve"]},` +
	`"note":{"type":"string","title":"Note","description":"for the record, and with a no for the model","maxLength":1000}},"required":["decision"]}`

// readApproval is what a person has said about a call.
func readApproval(said sdk.InputResponseMap) (yes bool, note string, err error) {
	e, ok := said[approvalPrompt].(*sdk.ElicitResult)
	if !ok {
		return false, "", errNothingSaid
	}
	text := func(name string) string { s, _ := e.Content[name].(string); return s }
	switch e.Action {
	case "decline":
		return false, "", nil
	case "accept":
		switch text("decision") {
		case "approve":
			return true, text("note"), nil
		case "deny":
			return false, text("note"), nil
		}
		return false, "", fmt.Errorf("the form came back with the decision %.40q", text("decision"))
	}
	return false, "", errNothingSaid
}

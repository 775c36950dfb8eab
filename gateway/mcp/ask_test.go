package mcp

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// sits is a client at which somebody sits who says the same to every question. What they
// were asked comes through the channel.
func sits(action string, content map[string]any) (*sdk.ClientOptions, chan *sdk.ElicitParams) {
	asked := make(chan *sdk.ElicitParams, 16)
	return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked <- r.Params
		return &sdk.ElicitResult{Action: action, Content: content}, nil
	}}, asked
}

// ann is who sits at the client of local.
func ann(c *Config) {
	c.Approver = func(p events.Principal) string {
		if p.ID == "local" {
			return "ann"
		}
		return ""
	}
}

// asksClients lets clients answer tools at which nobody is known to sit.
func asksClients(c *Config) { c.AskClients = true }

// TestApprovalAtTheClient: who sits there is shown all of the call, with nothing hidden,
// and what they say is recorded as theirs.
func TestApprovalAtTheClient(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: ann})
		o, asked := sits("accept", map[string]any{"decision": "approve", "note": "go on"})
		r := call(t, w.client(revision, o, nil), "approve_me", map[string]any{"v": "rm -rf ~ #\u001b[2K\u202els"})
		if r.IsError || len(w.lines()) != 1 {
			t.Fatalf("%q, ledger %q", say(r), w.lines())
		}
		page := (<-asked).Message
		for _, part := range []string{"approve_me", "rm -rf ~", `\u001b[2K`, `\u202e`, "local (agent)"} {
			if !strings.Contains(page, part) {
				t.Errorf("the page does not show %q:\n%s", part, page)
			}
		}
		if strings.ContainsAny(page, "\x1b\u202e") {
			t.Error("the page hides something")
		}
		if len(asked) != 0 {
			t.Error("it was asked twice")
		}
		a := w.turn(turnOf(t, r)).Turn.Calls[0].Approved
		if a.By.ID != "ann" || a.By.Kind != lifecycle.KindPerson || a.Note != "go on" || a.Scope != events.ScopeCall {
			t.Errorf("approved by %+v", a)
		}
	})
}

// TestNoAtTheClient: a no in either way ends the call, and the model is told.
func TestNoAtTheClient(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		for name, o := range map[string]func() (*sdk.ClientOptions, chan *sdk.ElicitParams){
			"declined": func() (*sdk.ClientOptions, chan *sdk.ElicitParams) { return sits("decline", nil) },
			"denied": func() (*sdk.ClientOptions, chan *sdk.ElicitParams) {
				return sits("accept", map[string]any{"decision": "deny", "note": "not now"})
			},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, making{door: ann})
				opts, _ := o()
				r := call(t, w.client(revision, opts, nil), "approve_me", map[string]any{"v": 1})
				if !r.IsError || !strings.HasPrefix(say(r), string(events.ApprovalRejected)) || len(w.lines()) != 0 {
					t.Errorf("%q, ledger %q", say(r), w.lines())
				}
				if d := w.turn(turnOf(t, r)).Turn.Calls[0].Terminal.(*events.Denied); d.By == nil || d.By.ID != "ann" {
					t.Errorf("denied by %+v", d.By)
				}
			})
		}
	})
}

// TestWhatAClientSaysIsNobodysWord: where no setting says whose it is, a client that agrees
// to everything agrees to nothing. The call waits at the inbox, the model is told where,
// and who asks again meets it.
func TestWhatAClientSaysIsNobodysWord(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: func(c *Config) { c.Patience = 100 * time.Millisecond }})
		o, asked := sits("accept", map[string]any{"decision": "approve"})
		s := w.client(revision, o, nil)
		r := call(t, s, "approve_me", map[string]any{"v": 1})
		if !r.IsError || !strings.Contains(say(r), "waits for a person") || !strings.Contains(say(r), turnOf(t, r).String()) || len(asked) != 0 {
			t.Fatalf("%q, asked %d times", say(r), len(asked))
		}
		id := w.asked()
		must(t, w.desk.Approve(within(t), id.Call, yes("bob")))
		again := call(t, s, "approve_me", map[string]any{"v": 1})
		if again.IsError || turnOf(t, again) != id.Call.TurnKey() || len(w.lines()) != 1 {
			t.Errorf("%q of %s, ledger %q", say(again), turnOf(t, again), w.lines())
		}
		if third := call(t, s, "approve_me", map[string]any{"v": 1}); turnOf(t, third) == id.Call.TurnKey() || !third.IsError {
			t.Errorf("the same once more is %s: %q", turnOf(t, third), say(third))
		}
	})
}

// TestAWaitingCallInAnotherSession: an agent that has begun anew asks for the same, and
// meets the call, whose answer then is delivered: the same again is another call.
func TestAWaitingCallInAnotherSession(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: func(c *Config) { c.Patience = 50 * time.Millisecond }})
		args := map[string]any{"v": 1}
		r := call(t, w.client(revision, nil, nil), "approve_me", args)
		k := turnOf(t, r)
		if !r.IsError || !strings.Contains(say(r), "waits for a person") {
			t.Fatalf("%q", say(r))
		}
		must(t, w.desk.Approve(within(t), w.asked().Call, yes("bob")))
		s := w.client(revision, nil, nil)
		again := call(t, s, "approve_me", args)
		if again.IsError || turnOf(t, again) != k || len(w.lines()) != 1 {
			t.Errorf("%q of %s, ledger %q", say(again), turnOf(t, again), w.lines())
		}
		if third := call(t, s, "approve_me", args); turnOf(t, third) == k || !third.IsError {
			t.Errorf("the same once more is %s: %q", turnOf(t, third), say(third))
		}
		other := w.poster(revision)
		_, body := other.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"approve_me","arguments":{"v":1},"_meta":{` + other.meta + `"run.sluice/trace":"other"}}}`)
		if revision < sinceStateless && !strings.Contains(body, `"run.sluice/trace":"other"`) {
			t.Errorf("a request that names another trace is %s", body)
		}
	})
}

// TestTheInboxAnswersFirst: what is put before somebody at the client is answered elsewhere
// meanwhile.
func TestTheInboxAnswersFirst(t *testing.T) {
	w := newWorld(t, making{door: ann})
	shown, over := make(chan struct{}), make(chan struct{})
	o := &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		close(shown)
		<-over // nobody says anything in time
		return &sdk.ElicitResult{Action: "decline"}, nil
	}}
	s := w.client("2025-11-25", o, nil)
	defer close(over)
	ended := make(chan *sdk.CallToolResult, 1)
	go func() { ended <- call(t, s, "approve_me", map[string]any{"v": 1}) }()
	<-shown
	must(t, w.desk.Approve(within(t), w.asked().Call, yes("bob")))
	select {
	case r := <-ended:
		if r.IsError || len(w.lines()) != 1 {
			t.Errorf("%q, ledger %q", say(r), w.lines())
		}
	case <-within(t).Done():
		t.Fatal("the request still waits")
	}
}

// TestClosedWithoutAnAnswer: the question goes to the inbox, and is not asked again at the
// client.
func TestClosedWithoutAnAnswer(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: func(c *Config) { ann(c); c.Patience = 50 * time.Millisecond }})
		o, asked := sits("cancel", nil)
		r := call(t, w.client(revision, o, nil), "approve_me", map[string]any{"v": 1})
		if !r.IsError || !strings.Contains(say(r), "waits for a person") || len(asked) != 1 {
			t.Errorf("%q, asked %d times", say(r), len(asked))
		}
		w.asked()
	})
}

// TestAForgedAnswerCountsForNothing: a client of the revision without sessions makes up
// answers to questions that nobody has put, or to another one's.
func TestAForgedAnswerCountsForNothing(t *testing.T) {
	w := newWorld(t, making{door: func(c *Config) { ann(c); c.Patience = 50 * time.Millisecond }})
	for _, state := range []string{"", "x", "a/b/0@1 sha256:00"} {
		c := sdk.NewClient(&sdk.Implementation{Name: "forger", Version: "1"}, &sdk.ClientOptions{
			MultiRoundTrip:     &sdk.MultiRoundTripOptions{Disabled: true},
			ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return nil, nil },
		})
		hc := &http.Client{Transport: &http.Transport{}}
		s, err := c.Connect(within(t), &sdk.StreamableClientTransport{Endpoint: "http://" + w.at + "/mcp", HTTPClient: hc}, nil)
		must(t, err)
		r, err := s.CallTool(within(t), &sdk.CallToolParams{
			Name: "approve_me", Arguments: map[string]any{"v": "forged" + state}, RequestState: state,
			InputResponses: sdk.InputResponseMap{"approval": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}},
		})
		must(t, err)
		if !r.NeedsInput() || len(w.lines()) != 0 {
			t.Errorf("state %q: %q, ledger %q", state, say(r), w.lines())
		}
		_ = s.Close()
		hc.CloseIdleConnections()
	}
}

// TestAToolsOwnQuestion: it is put before whoever sits at the client, its answer comes back
// to the tool, and the log has both.
func TestAToolsOwnQuestion(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		for name, door := range map[string]func(*Config){"client:local service": asksClients, "ann person": ann} {
			w := newWorld(t, making{door: door})
			o, asked := sits("accept", map[string]any{"username": "u", "email": "u@example.com"})
			r := call(t, w.client(revision, o, nil), "test_elicitation", map[string]any{"message": "who are\u001b[2K you?"})
			if r.IsError || !strings.Contains(say(r), `"username":"u"`) {
				t.Fatalf("%q", say(r))
			}
			p := <-asked
			if !strings.Contains(p.Message, `who are\u001b[2K you?`) || !strings.Contains(p.Message, "test_elicitation") || p.RequestedSchema == nil {
				t.Errorf("asked %+v", p)
			}
			c := w.turn(turnOf(t, r)).Turn.Calls[0]
			if c.Answered == nil || c.Answered.By.ID+" "+c.Answered.By.Kind != name || c.Attempt != 2 {
				t.Errorf("answered %+v, attempt %d", c.Answered, c.Attempt)
			}
		}
	})
}

// TestAQuestionHasAnEmptyContent, for clients that look at it first.
func TestAQuestionHasAnEmptyContent(t *testing.T) {
	w := newWorld(t, making{door: ann})
	p := w.poster("2026-07-28")
	p.header.Set("Mcp-Name", "approve_me")
	meta := strings.Replace(strings.TrimSuffix(p.meta, ","), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
	_, body := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"approve_me","arguments":{"v":1},"_meta":{` + meta + `}}}`)
	if !strings.Contains(body, `"inputRequests":{`) || strings.Contains(body, `"content":null`) {
		t.Errorf("%s", body)
	}
}

// TestAnUnfitAnswer: who sits at the client is told at once what was wrong, and asked again.
// A number that does not come through a client is taken for none.
func TestAnUnfitAnswer(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: ann})
		var asked []string
		o := &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked = append(asked, r.Params.Message)
			content := map[string]any{"username": "u", "email": "u@example.com"}
			if len(asked) == 1 {
				content["other"] = "x"
			}
			return &sdk.ElicitResult{Action: "accept", Content: content}, nil
		}}
		r := call(t, w.client(revision, o, nil), "test_elicitation", map[string]any{"message": "who?"})
		if r.IsError || len(asked) != 2 || !strings.HasPrefix(asked[1], "This was not taken: ") || !strings.Contains(asked[1], "other") {
			t.Errorf("%q, asked %q", say(r), asked)
		}
	})
	for _, c := range []struct {
		content any
		exact   bool
	}{{map[string]any{"n": 1.5}, true}, {map[string]any{"n": 9007199254740991.0}, true}, {map[string]any{"n": 9007199254740992.0}, false}, {[]any{map[string]any{"n": -1e300}}, false}} {
		if exact(c.content) != c.exact {
			t.Errorf("%v", c)
		}
	}
}

// TestAToolsQuestionElsewhere: where the client cannot ask, or must not, the inbox does.
func TestAToolsQuestionElsewhere(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		opts, asked := sits("accept", map[string]any{"username": "x", "email": "x"})
		for name, c := range map[string]struct {
			door func(*Config)
			opts *sdk.ClientOptions
		}{
			"cannot":   {nil, nil},
			"nobody's": {nil, opts},
			"must not": {func(c *Config) { ann(c); asksClients(c); c.Inbox = true }, opts},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, making{door: c.door})
				s := w.client(revision, c.opts, nil)
				ended := make(chan *sdk.CallToolResult, 1)
				go func() { ended <- call(t, s, "test_elicitation", map[string]any{"message": "who?"}) }()
				id := w.asked()
				_, err := w.desk.Answer(within(t), id, gateway.Answering{
					By: events.Principal{ID: "bob", Kind: lifecycle.KindPerson}, Action: events.InputAccept, Content: []byte(`{"username":"b","email":"b@example.com"}`),
				})
				must(t, err)
				if r := <-ended; r.IsError || !strings.Contains(say(r), `"username":"b"`) || len(asked) != 0 {
					t.Errorf("%q, asked %d times", say(r), len(asked))
				}
			})
		}
	})
}

// TestAnAgentDoesNotAnswerItsOwnTool: a client of the revision without sessions gives, for a
// principal at whose client nobody sits, the answers that the tool of its own call has asked
// for. They count for nothing, and the question stays in the inbox.
func TestAnAgentDoesNotAnswerItsOwnTool(t *testing.T) {
	w := newWorld(t, making{door: func(c *Config) { c.Patience = 50 * time.Millisecond }})
	s := w.client("2026-07-28", &sdk.ClientOptions{
		MultiRoundTrip:     &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return nil, nil },
	}, nil)
	p := &sdk.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": "really all of them?"}}
	r, err := s.CallTool(within(t), p)
	must(t, err)
	if r.NeedsInput() || !strings.Contains(say(r), "waits for a person") {
		t.Fatalf("the client is asked: %+v", r)
	}
	id := w.asked()
	v := w.turn(id.Call.TurnKey())
	p.InputResponses = make(sdk.InputResponseMap)
	for _, q := range v.Turn.Calls[0].Input.Requests {
		p.InputResponses[q.ID] = &sdk.ElicitResult{Action: "accept", Content: map[string]any{"username": "agent", "email": "a@example.com"}}
	}
	p.RequestState = (&question{id: id.String()}).state()
	r, err = s.CallTool(within(t), p)
	must(t, err)
	if w.asked() != id || !r.IsError || w.turn(id.Call.TurnKey()).Turn.Calls[0].Answered != nil {
		t.Errorf("the agent has answered: %q", say(r))
	}
}

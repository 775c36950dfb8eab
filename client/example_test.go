package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

// example is a node of an example, and a client of it.
func example() (ctx context.Context, c *client.Client, end func()) {
	n, err := start(settings{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	c, err = client.New(n.url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return ctx, c, func() {
		stop()
		c.Close()
		if err := n.close(); err != nil {
			log.Fatal(err)
		}
	}
}

// A model's response goes in as it came, and its answers come back as the provider's API
// takes them: append them to the conversation, and ask the model again.
func ExampleClient_Run() {
	ctx, c, end := example()
	defer end()
	response := `{"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
		"function": {"name": "echo", "arguments": "{\"v\": \"hello\"}"}}]}`
	out, err := c.Run(ctx, client.Submission{Trace: "conversation-7", Message: json.RawMessage(response)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.State)
	for _, m := range out.Messages {
		fmt.Println(string(m))
	}
	// Output:
	// completed
	// {"role":"tool","tool_call_id":"call_1","name":"echo","content":"{\"status\":\"success\",\"text\":\"hello\",\"data\":\"hello\"}"}
}

// A submission is durable once Submit returns. The same ids again attach to the turn, so
// that a program which died behind it may simply say it again.
func ExampleClient_Submit() {
	ctx, c, end := example()
	defer end()
	s := client.Submission{Trace: "shop", Turn: "pay-17", Calls: []client.Call{{Tool: "charge", Args: map[string]any{"order": "17", "amount": 12}}}}
	for range 2 {
		out, err := c.Submit(ctx, s)
		fmt.Println(out.Key(), out.Attached, err)
	}
	turn, err := c.Wait(ctx, events.TurnKey{Trace: "shop", Turn: "pay-17"})
	fmt.Println(turn.State, turn.Calls[0].State, turn.Calls[0].Effects, err)
	// Output:
	// shop/pay-17 false <nil>
	// shop/pay-17 true <nil>
	// completed completed done <nil>
}

// A model's stream is relayed as it comes. Nothing runs before it has ended well.
func ExampleClient_SubmitStream() {
	ctx, c, end := example()
	defer end()
	stream := strings.NewReader(`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[]}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"echo","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"v\": 1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}

event: message_stop
data: {"type":"message_stop"}

`)
	out, err := c.SubmitStream(ctx, client.Submission{Format: client.Anthropic, Wait: time.Minute}, client.Stream{Body: stream})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.State, out.Stop)
	fmt.Println(string(out.Messages[0]))
	// Output:
	// completed tool_use
	// {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"{\"status\":\"success\",\"text\":\"1\",\"data\":1}"}]}
}

// What waits for a person comes one by one, the oldest first, and then as it is asked.
func ExampleClient_WatchApprovals() {
	ctx, c, end := example()
	defer end()
	key := events.TurnKey{Trace: "shop", Turn: "t1"}
	_, err := c.Submit(ctx, client.Submission{
		Trace: key.Trace, Turn: key.Turn, CanAsk: true, Calls: []client.Call{{Tool: "approve_me", Args: map[string]any{"v": map[string]any{"x": 1}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for a, err := range c.WatchApprovals(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.ID, a.Tool, a.Args.Text)
		d, err := c.Approve(ctx, a, client.Yes{By: &events.Principal{ID: "ann", Kind: "person"}, Note: "fine"})
		fmt.Println(d.Status, "by", d.By.ID, err)
		break
	}
	turn, err := c.Wait(ctx, key)
	fmt.Println(turn.Calls[0].State, err)
	// Output:
	// shop/t1/0@1 approve_me {"v":{"x":1}}
	// approved by ann <nil>
	// completed <nil>
}

// A person gives other arguments than the model asked for; they pass all gates again.
func ExampleClient_Approve() {
	ctx, c, end := example()
	defer end()
	_, err := c.Submit(ctx, client.Submission{
		Trace: "shop", Turn: "t1", CanAsk: true, Calls: []client.Call{{Tool: "approve_me", Args: map[string]any{"v": map[string]any{"x": 1000}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	ann := &events.Principal{ID: "ann", Kind: "person"}
	for a, err := range c.WatchApprovals(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		d, err := c.Approve(ctx, a, client.Yes{By: ann, Args: map[string]any{"v": map[string]any{"x": 10}}, Note: "at most ten"})
		fmt.Println(d.Status, d.ArgsHash != d.AskedHash, err)
		break
	}
	// Output: approved true <nil>
}

// A tool that has begun asks a person, and goes on with the answers.
func ExampleClient_Answer() {
	ctx, c, end := example()
	defer end()
	key := events.TurnKey{Trace: "shop", Turn: "t1"}
	_, err := c.Submit(ctx, client.Submission{
		Trace: key.Trace, Turn: key.Turn, CanAsk: true,
		Calls: []client.Call{{Tool: "ask", Args: map[string]any{"message": "Which seat?", "fields": []string{"row:integer"}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for a, err := range c.WatchApprovals(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range a.Requests {
			fmt.Println(a.Kind, r.Message, r.Fields[0].Name, r.Fields[0].Type)
		}
		_, err = c.Answer(ctx, a, client.InputAnswers{By: &events.Principal{ID: "ann", Kind: "person"}, Action: events.InputAccept, Content: map[string]any{"row": 4}})
		fmt.Println(err)
		break
	}
	turn, err := c.Wait(ctx, key)
	fmt.Println(turn.Calls[0].State, turn.Calls[0].Attempt, err)
	// Output:
	// input Which seat? row integer
	// <nil>
	// completed 2 <nil>
}

// The log from its beginning, each event once. With Follow it goes on with what comes, also
// over connections that break.
func ExampleClient_Events() {
	ctx, c, end := example()
	defer end()
	if _, err := c.Run(ctx, client.Submission{Trace: "shop", Turn: "t1", Calls: []client.Call{{Tool: "echo", Args: map[string]any{"v": 1}}}}); err != nil {
		log.Fatal(err)
	}
	for e, err := range c.Events(ctx, client.Query{Follow: true, Trace: "shop", Kinds: []string{"started", "completed", "turn_completed"}}) {
		if err != nil {
			log.Fatal(err)
		}
		if e.Notice != "" {
			fmt.Println("beware:", e.Notice)
			continue
		}
		body, err := e.Decode()
		if err != nil {
			log.Fatal(err)
		}
		switch b := body.(type) {
		case *events.Started:
			fmt.Println(e.Turn, e.Call, "attempt", b.Attempt)
		case *events.Completed:
			fmt.Println(e.Turn, e.Call, b.Result.Text.Text)
		}
		if e.Kind == events.KindTurnCompleted {
			break // keep e.Next() to go on there another time
		}
	}
	// Output:
	// shop/t1 0 attempt 1
	// shop/t1 0 1
}

// Problems tell what kind they are, and the next move.
func ExampleProblem() {
	ctx, c, end := example()
	defer end()
	_, err := c.Get(ctx, events.TurnKey{Trace: "shop", Turn: "none"})
	fmt.Println(errors.Is(err, client.NoTurn))
	var p *client.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code(), "-", p.Next)
	}
	// Output:
	// true
	// 404 no-turn - check the ids; GET /v1/traces shows what is there
}

// A running call is asked to end; its end says what became of it.
func ExampleClient_Cancel() {
	ctx, c, end := example()
	defer end()
	out, err := c.Submit(ctx, client.Submission{Trace: "shop", Turn: "t1", Calls: []client.Call{{Tool: "sleep", Args: map[string]any{"ms": 600_000}}}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.Cancel(ctx, out.Key(), client.Act{Reason: "not needed any more"})
	fmt.Println(r.Status, err)
	turn, err := c.Wait(ctx, out.Key())
	fmt.Println(turn.Calls[0].State, turn.Calls[0].Effects, err)
	// Output:
	// accepted <nil>
	// cancelled none <nil>
}

// What a completed call did is undone by a call of its own, once.
func ExampleClient_Compensate() {
	ctx, c, end := example()
	defer end()
	out, err := c.Run(ctx, client.Submission{Trace: "shop", Turn: "t1", Calls: []client.Call{{Tool: "reserve", Args: map[string]any{"item": "seat 4"}}}})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		u, err := c.Compensate(ctx, out.Key().Call(0), time.Minute, client.Act{By: &events.Principal{ID: "ann", Kind: "person"}, Reason: "wrong seat"})
		fmt.Println(u.Status, "by", u.By.ID, err)
	}
	// Output:
	// compensated by ann <nil>
	// already_compensated by ann <nil>
}

// Traces are found by words, tools and ends, and read as a timeline.
func ExampleClient_Traces() {
	ctx, c, end := example()
	defer end()
	for _, order := range []string{"A-1", "A-2"} {
		s := client.Submission{Trace: "order-" + order, Turn: "t1", Calls: []client.Call{{Tool: "echo", Args: map[string]any{"v": order}}}}
		if _, err := c.Run(ctx, s); err != nil {
			log.Fatal(err)
		}
	}
	for t, err := range c.Traces(ctx, client.TraceQuery{Text: `"A-2"`, Tools: []string{"echo"}, Statuses: []string{"completed"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Trace, t.Calls, t.Tools)
	}
	for m, err := range c.Timeline(ctx, "order-A-2") {
		if err != nil {
			log.Fatal(err)
		}
		if m.Call == 0 {
			fmt.Println(m.Call, m.Kind)
		}
	}
	// Output:
	// order-A-2 1 [echo]
	// 0 requested
	// 0 authorized
	// 0 started
	// 0 completed
}

// What was used, told apart by tool.
func ExampleClient_Usage() {
	ctx, c, end := example()
	defer end()
	if _, err := c.Run(ctx, client.Submission{Calls: []client.Call{{Tool: "echo", Args: map[string]any{"v": 1}}}}); err != nil {
		log.Fatal(err)
	}
	rows, _, err := c.Usage(ctx, client.UsageQuery{By: []string{"tool"}, Tools: []string{"echo"}})
	for _, r := range rows {
		if r.Tool != "" {
			fmt.Println(r.Tool, r.Calls, r.Ends["completed"], err)
		}
	}
	// Output: echo 1 1 <nil>
}

// The tools as a provider's API takes them, for the next request to the model.
func ExampleClient_Tools() {
	ctx, c, end := example()
	defer end()
	list, err := c.Tools(ctx, client.OpenAI)
	if err != nil {
		log.Fatal(err)
	}
	var tools []struct {
		Function struct{ Name string }
	}
	if err := json.Unmarshal(list, &tools); err != nil {
		log.Fatal(err)
	}
	for _, t := range tools {
		if t.Function.Name == "echo" {
			fmt.Println(t.Function.Name)
		}
	}
	// Output: echo
}

// A tool whose service is being repaired is switched off, and on again.
func ExampleClient_OpenBreaker() {
	ctx, c, end := example()
	defer end()
	ops := &events.Principal{ID: "ops", Kind: "person"}
	s, err := c.OpenBreaker(ctx, "fetch", 10*time.Minute, client.Act{By: ops, Reason: "maintenance"})
	fmt.Println(s.Status, err)
	list, err := c.Breakers(ctx)
	fmt.Println(list[0].Tool, list[0].State, list[0].Reason, err)
	s, err = c.ResetBreaker(ctx, "fetch", client.Act{By: ops})
	fmt.Println(s.Status, err)
	// Output:
	// open <nil>
	// fetch open maintenance <nil>
	// closed <nil>
}

// What the gates would say of a call is asked before a model makes it. Nothing runs.
func ExampleClient_Explain() {
	ctx, c, end := example()
	defer end()
	for _, args := range []any{map[string]any{"order": "17", "amount": 12}, map[string]any{"order": 17}} {
		x, err := c.Explain(ctx, client.Supposition{Tool: "charge", Args: args})
		fmt.Println(x.Decision, x.Tier, x.Gate, x.Code, x.Path, err)
	}
	// Output:
	// allow irreversible authorize   <nil>
	// deny  validate INVALID_PARAM /amount <nil>
}

// Who holds the slots of a limit, and how many there are.
func ExampleClient_Limits() {
	ctx, c, end := example()
	defer end()
	out, err := c.Submit(ctx, client.Submission{Trace: "shop", Turn: "t1", Calls: []client.Call{{Tool: "sleep", Args: map[string]any{"ms": 600_000}}}})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range c.Events(ctx, client.Query{Follow: true, Kinds: []string{"started"}}) {
		fmt.Println(e.Kind, err)
		break
	}
	list, err := c.Limits(ctx)
	fmt.Println(list[0].ID, list[0].Tool, list[0].Concurrency, err)
	for _, h := range list[0].Buckets[0].Holders {
		fmt.Println("held by", h.Call)
	}
	_, err = c.Cancel(ctx, out.Key(), client.Act{})
	fmt.Println(err)
	// Output:
	// started <nil>
	// naps sleep 64 <nil>
	// held by shop/t1/0
	// <nil>
}

// Who the caller is at a node that asks, and what that allows.
func ExampleClient_Whoami() {
	ctx, c, end := example()
	defer end()
	who, err := c.Whoami(ctx)
	fmt.Println(who.Via, who.May["submit"], err)
	// Output: loopback all <nil>
}

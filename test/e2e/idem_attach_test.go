package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// TestASubmissionAgainOnAnotherNode attaches to the turn that is there, whatever
// it is doing.
func TestASubmissionAgainOnAnotherNode(t *testing.T) {
	t.Parallel()
	c := muster(t, 3, unhurried...)
	c.together(t, []part{
		{"at the same instant on all nodes", attachAtOnce},
		{"while it runs, and after it has ended", attachWhileItRuns},
		{"while it waits for a person", attachWhileItWaits},
		{"written otherwise", attachWrittenOtherwise},
		{"the model fails after the effect, and the caller asks again", attachAfterFailure},
	})
	proven(t, c.nats.URL())
}

func attachAtOnce(t *testing.T, c *crew) {
	for i := range 15 {
		order := fmt.Sprint("at-once-", i)
		tu := turn{Trace: "at-once", Turn: fmt.Sprint("t", i), Calls: []call{charge(order, 1), {Tool: "reserve", Args: args{"item": order}}}, WaitMS: 60_000}
		all := make([]view, len(c.nodes))
		var wg sync.WaitGroup
		for k, n := range c.nodes {
			wg.Go(func() { all[k] = n.submit(tu) })
		}
		wg.Wait()
		fresh, texts := 0, map[string]bool{}
		for _, v := range all {
			if !v.Attached {
				fresh++
			}
			texts[v.State+asText(t, v.Messages)] = true
		}
		reserved := 0
		for _, e := range c.effects() {
			if e.Item == order {
				reserved++
			}
		}
		if fresh != 1 || len(texts) != 1 || c.charged(order) != 1 || reserved != 1 {
			t.Errorf("%s: %d made it, answers %v, charged %d times, reserved %d times", order, fresh, texts, c.charged(order), reserved)
		}
	}
}

// refusedAnew wants submissions with the ids of another one to be refused.
func (c *crew) refusedAnew(tu turn) {
	c.t.Helper()
	more, fewer, key, who, kind := tu, tu, tu, tu, tu
	more.Calls = append([]call{{Tool: "echo", Args: args{"v": 1}}}, tu.Calls...)
	fewer.Calls = tu.Calls[:len(tu.Calls)-1]
	key.Calls = append([]call{}, tu.Calls...)
	key.Calls[0].Key = "another"
	who.Principal = "mallory"
	kind.Calls = append([]call{}, tu.Calls...)
	kind.Calls[0], kind.Calls[1] = kind.Calls[1], kind.Calls[0]
	for what, other := range map[string]turn{"more calls": more, "fewer calls": fewer, "another key": key, "another principal": who, "another order": kind} {
		for i := range c.nodes {
			if status, body := c.node(i).ask(http.MethodPost, "/v1/turns", other); status != http.StatusConflict {
				c.t.Errorf("%s, node %d: %d %s", what, i, status, body)
			}
		}
	}
}

func attachWhileItRuns(t *testing.T, c *crew) {
	tu := turn{Trace: "attach-run", Turn: "t", Calls: []call{charge("attach-run", 1, "stall_ms", forever, "until", "attach-run"), {Tool: "echo", Args: args{"v": "end"}}}}
	if v := c.node(0).submit(tu); v.Attached {
		t.Errorf("the first one attached: %+v", v)
	}
	c.node(1).until("attach-run", "t", "started", "0")
	c.refusedAnew(tu)
	if v := c.node(2).submit(tu); !v.Attached || v.State == "completed" {
		t.Errorf("while it runs: %+v", v)
	}
	tu.WaitMS = 60_000
	var wg sync.WaitGroup
	during := make([]view, 3)
	for i := range during {
		wg.Go(func() { during[i] = c.node(i).submit(tu) })
	}
	c.write("attach-run", "")
	wg.Wait()
	after := c.node(1).submit(tu)
	for i, v := range append(during, after) {
		if !v.Attached || v.State != "completed" || asText(t, v.Messages) != asText(t, during[0].Messages) || len(v.Messages) != 2 {
			t.Errorf("%d: %+v", i, v)
		}
	}
	c.refusedAnew(tu)
	if k := c.charged("attach-run"); k != 1 {
		t.Errorf("charged %d times", k)
	}
	list := c.node(2).events("attach-run", "t")
	if a, b := len(of(list, "turn_submitted", "")), len(of(list, "turn_claimed", "")); a != 1 || b != 1 {
		t.Errorf("submitted %d times, claimed %d times", a, b)
	}
}

func attachWhileItWaits(t *testing.T, c *crew) {
	tu := turn{Trace: "attach-ask", Turn: "t", CanAsk: true, Calls: []call{ask("attach"), charge("attach-ask", 1)}}
	c.node(0).submit(tu)
	c.node(1).inbox("attach-ask", 1)
	poll(t, "the turn is parked", func() bool { return c.node(2).look("attach-ask", "t").State == "parked" })
	for i := range 3 {
		if v := c.node(i).submit(tu); !v.Attached {
			t.Errorf("node %d: %+v", i, v)
		}
	}
	c.refusedAnew(tu)
	c.node(1).post(c.node(2).inbox("attach-ask", 1)[0].path()+"/approve", nil)
	v := c.node(1).end("attach-ask", "t")
	for _, x := range v.Calls {
		x.is(t, "completed", "", "done")
	}
	if list := c.node(0).events("attach-ask", "t"); len(of(list, "approval_requested", "")) != 1 || c.agreed("attach") != 1 || c.charged("attach-ask") != 1 {
		t.Errorf("asked %d times: %+v", len(of(list, "approval_requested", "")), c.effects())
	}
}

// attachWrittenOtherwise: the same calls are the same in whatever order a caller's
// JSON has their members; what only looks alike is not.
func attachWrittenOtherwise(t *testing.T, c *crew) {
	tu := func(text string) turn {
		return turn{Trace: "attach-form", Turn: "t", Calls: []call{raw("charge", "", text), raw("echo", "", `{"v":{"b":1,"a":[9007199254740993]}}`)}}
	}
	first := c.node(0).run(tu(`{"order":"attach-form","amount":1}`))
	for i, text := range []string{`{"amount":1,"order":"attach-form"}`, `{ "order": "attach\u002dform", "amount": 1.0 }`, `{"order":"attach-form","amount":1e0}`} {
		if v := c.node(i).run(tu(text)); !v.Attached || asText(t, v.Messages) != asText(t, first.Messages) {
			t.Errorf("%s: %+v", text, v)
		}
	}
	for i, text := range []string{
		`{"order":"attach-form","amount":1.0000000000000000001}`, `{"order":"attach-form","amount":"1"}`, `{"order":"attach-form"}`, `{"order":"attach-form","amount":1,"key":""}`, `{"order":`,
	} {
		other := tu(`{}`)
		other.Calls[0].Args = text // as the text that a model wrote
		if status, body := c.node(i).ask(http.MethodPost, "/v1/turns", other); status != http.StatusConflict {
			t.Errorf("%s: %d %s", text, status, body)
		}
	}
	other := tu(`{"order":"attach-form","amount":1}`)
	other.Calls[1] = raw("echo", "", `{"v":{"b":1,"a":[9007199254740992]}}`)
	if status, body := c.node(1).ask(http.MethodPost, "/v1/turns", other); status != http.StatusConflict {
		t.Errorf("another large number: %d %s", status, body)
	}
	if k := c.charged("attach-form"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

// attachAfterFailure: the caller repeats the model's message, as it was and in a
// turn of its own.
func attachAfterFailure(t *testing.T, c *crew) {
	message := func(id string) json.RawMessage {
		return json.RawMessage(`{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"charge","arguments":"{\"order\":\"again\",\"amount\":7}"}}]}`)
	}
	tu := turn{Trace: "again", Turn: "t", Format: "openai", Message: message("call_0")}
	first := c.node(0).run(tu)
	for i := range 3 {
		if v := c.node(i).run(tu); !v.Attached || asText(t, v.Messages) != asText(t, first.Messages) {
			t.Errorf("node %d: %+v", i, v)
		}
		v := c.node(i).run(turn{Trace: "again", Turn: fmt.Sprint("u", i), Format: "openai", Message: message("call_0")})
		v.Calls[0].is(t, "deduplicated", "", "")
		var m struct {
			ID      string `json:"tool_call_id"`
			Content string
		}
		var content struct {
			Status, Text string
			Of           string `json:"deduplicated_from"`
		}
		if err := json.Unmarshal(v.Messages[0], &m); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(m.Content), &content); err != nil || content.Of != "again/t/0" || content.Status != "success" || m.ID != "call_0" {
			t.Errorf("node %d: the model is told %s, %v", i, m.Content, err)
		}
	}
	tu.Message = message("call_1") // the provider's id is part of what was submitted
	if status, body := c.node(1).ask(http.MethodPost, "/v1/turns", tu); status != http.StatusConflict {
		t.Errorf("another id: %d %s", status, body)
	}
	if k := c.charged("again"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

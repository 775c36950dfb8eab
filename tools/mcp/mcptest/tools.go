package mcptest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// tool is one tool of the server.
type tool struct {
	name, schema, hints, output string
	run                         func(c *running)
}

const none = `{"type":"object"}`

// all are the tools there are.
var all = []tool{
	{"echo", `{"type":"object","properties":{"v":{"description":"anything"}},"required":["v"],"additionalProperties":false}`, `{"readOnlyHint":true}`, "", func(c *running) { c.text(string(c.arg("v"))) }},
	{"sleep", `{"type":"object","properties":{"ms":{"type":"integer","description":"milliseconds"}},"additionalProperties":false}`, "", "", func(c *running) {
		select {
		case <-time.After(c.ms()):
			c.text("slept")
		case <-c.ctx.Done(): // whoever cancels wants no answer
		}
	}},
	{"late", `{"type":"object","properties":{"ms":{"type":"integer"}}}`, "", "", func(c *running) { // deaf to a cancel
		<-time.After(c.ms())
		c.text("late after all")
	}},
	{"held", none, "", "", func(c *running) { // answers once it is cancelled, and though it is
		<-c.ctx.Done()
		c.text("too late")
	}},
	{"charge", `{"type":"object","additionalProperties":false}`, "", "", func(c *running) {
		if !slices.Contains(Lines(c.s.o.Ledger), c.key()) { // one effect for one key
			c.s.ledger(c.key())
		}
		c.text("charged")
	}},
	{"crash", `{"type":"object","properties":{"how":{"type":"string"}}}`, "", "", crash},
	{"once", none, "", "", func(c *running) { // crashes the first time, by its journal
		first := !slices.Contains(Lines(c.s.o.Journal), "once")
		if c.s.note("once"); first {
			os.Exit(0)
		}
		c.text("alive")
	}},
	{"stall", none, "", "", func(c *running) { c.s.stalled.Store(true) }},
	{"flood", none, "", "", func(c *running) {
		for i := range 1_000 {
			c.put(map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": map[string]any{"level": "info", "data": i}})
			c.put(map[string]any{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
		}
		c.text("flooded")
	}},
	{"pester", none, "", "", func(c *running) {
		for i := range 200 {
			c.put(map[string]any{"jsonrpc": "2.0", "id": fmt.Sprint("p", i), "method": "roots/list"})
		}
		c.text("pestered")
	}},
	{"garbage", none, "", "", func(c *running) {
		c.raw("npm warn something\n{\"half\":\n\x1b[31mred\x1b[0m\n\n[]\n[1,2]\n")
		c.text("clean")
	}},
	{"verbatim", `{"type":"object","properties":{"message":{"type":"string","description":"its whole answer; ID stands for the request's"}}}`, "", "", func(c *running) {
		var text string
		_ = json.Unmarshal(c.arg("message"), &text)
		c.raw(strings.ReplaceAll(text, "ID", c.id) + "\n")
	}},
	{"huge", `{"type":"object","properties":{"bytes":{"type":"integer"}}}`, "", "", func(c *running) {
		var n int
		_ = json.Unmarshal(c.arg("bytes"), &n)
		c.text(strings.Repeat("x", n))
	}},
	{"fail", none, "", "", func(c *running) {
		c.result(map[string]any{"content": content("the disk is full"), "isError": true})
	}},
	{"perror", `{"type":"object","properties":{"code":{"type":"integer"},"message":{"type":"string"}}}`, "", "", func(c *running) {
		var code int
		var text string
		_, _ = json.Unmarshal(c.arg("code"), &code), json.Unmarshal(c.arg("message"), &text)
		c.fail(code, text, nil)
	}},
	{"ask", none, "", "", ask},
	{"visit", none, "", "", func(c *running) {
		if c.s.visited() {
			c.text("thank you")
			return
		}
		c.fail(-32042, "visit a page first", map[string]any{"elicitations": []any{map[string]any{"mode": "url", "elicitationId": "e1", "url": "https://example.com/consent", "message": "Agree there."}}})
	}},
	{"sampling", none, "", "", func(c *running) {
		c.result(map[string]any{"resultType": "input_required", "inputRequests": map[string]any{"x": map[string]any{"method": "sampling/createMessage", "params": map[string]any{}}}})
	}},
	{"busy", none, "", "", func(c *running) {
		c.result(map[string]any{"resultType": "input_required", "inputRequests": map[string]any{}, "requestState": "s"})
	}},
	{"odd", none, "", "", func(c *running) {
		c.result(map[string]any{"resultType": "task", "task": map[string]any{"taskId": "t"}})
	}},
	{"empty", none, "", "", func(c *running) { c.result(map[string]any{"content": []any{}}) }},
	{"nothing", none, "", "", func(c *running) { c.result(map[string]any{}) }},
	{"null", none, "", "", func(c *running) { c.result(nil) }},
	{"blank", none, "", "", func(c *running) { c.text("") }},
	{"kinds", none, "", "", func(c *running) { c.result(map[string]any{"content": kinds}) }},
	{"typed", `{"type":"object","properties":{"n":{}}}`, "", `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`, func(c *running) {
		data := json.RawMessage(`{"n":` + string(c.arg("n")) + `}`)
		c.result(map[string]any{"content": content(string(data)), "structuredContent": data})
	}},
	{"untyped", none, "", `{"type":"object"}`, func(c *running) { c.text("no structure") }},
	{"meta", none, "", "", func(c *running) { c.result(map[string]any{"content": []any{}, "structuredContent": c.params.Meta}) }},
	{"env", none, "", "", func(c *running) { c.text(strings.Join(os.Environ(), "\n")) }},
	{"cat", `{"type":"object","properties":{"path":{"type":"string"}}}`, "", "", func(c *running) {
		var path string
		_ = json.Unmarshal(c.arg("path"), &path)
		body, err := os.ReadFile(path)
		if err != nil {
			c.result(map[string]any{"content": content(err.Error()), "isError": true})
			return
		}
		c.text(string(body))
	}},
	{"dial", `{"type":"object","properties":{"to":{"type":"string"}}}`, "", "", func(c *running) {
		var to string
		_ = json.Unmarshal(c.arg("to"), &to)
		conn, err := net.Dial("tcp", to)
		if err != nil {
			c.result(map[string]any{"content": content(err.Error()), "isError": true})
			return
		}
		_ = conn.Close()
		c.text("connected")
	}},
	{"steps", none, "", "", func(c *running) {
		for _, p := range []float64{1, 2, 2, 1, 3} {
			c.put(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{"progressToken": c.params.Meta["progressToken"], "progress": p, "total": 3, "message": fmt.Sprint("step ", p)}})
		}
		c.text("done")
	}},
	{"change", `{"type":"object","properties":{"drop":{"type":"string"}}}`, "", "", change},
	{"elicits", none, "", "", func(c *running) {
		var said []string
		for _, m := range []string{"ping", "roots/list", "sampling/createMessage", "elicitation/create"} {
			said = append(said, m+" "+string(c.s.ask(c.ctx, c.put, m)))
		}
		c.text(strings.Join(said, "\n"))
	}},
}

// running is one call.
type running struct {
	s      *Server
	id     string
	ctx    context.Context
	params struct {
		Name      string                     `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
		Meta      map[string]any             `json:"_meta"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
		State     string                     `json:"requestState"`
	}
	put    func(any)
	raw    func(string)
	result func(any)
	fail   func(int, string, any)
}

func (s *Server) call(ctx context.Context, m message, put func(any), raw func(string), result func(any), fail func(int, string, any)) {
	c := &running{s: s, id: string(m.ID), ctx: ctx, put: put, raw: raw, result: result, fail: fail}
	if err := json.Unmarshal(m.Params, &c.params); err != nil {
		fail(-32602, err.Error(), nil)
		return
	}
	s.note("call %s %s %v", c.params.Name, m.ID, c.params.Meta["run.sluice/idempotency-key"])
	s.mu.Lock()
	listed := false
	for _, n := range s.names {
		listed = listed || n == c.params.Name
	}
	s.mu.Unlock()
	for _, t := range all {
		if t.name == c.params.Name && listed {
			t.run(c)
			return
		}
	}
	fail(-32602, "Unknown tool: "+c.params.Name, nil)
}

func (c *running) arg(name string) json.RawMessage {
	if v := c.params.Arguments[name]; v != nil {
		return v
	}
	return json.RawMessage("null")
}

func (c *running) ms() time.Duration {
	var n int
	_ = json.Unmarshal(c.arg("ms"), &n)
	return time.Duration(n) * time.Millisecond
}

func (c *running) key() string { return fmt.Sprint(c.params.Meta["run.sluice/idempotency-key"]) }

func (c *running) text(s string) { c.result(map[string]any{"content": content(s)}) }

func content(s string) []any { return []any{map[string]any{"type": "text", "text": s}} }

func (s *Server) ledger(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.o.Ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		_ = f.Close()
	}
}

func (s *Server) visited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.asked > 1
}

func crash(c *running) {
	var how string
	_ = json.Unmarshal(c.arg("how"), &how)
	fmt.Fprintln(os.Stderr, "mcptest: I crash now")
	switch how {
	case "kill":
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {} // it is on its way
	case "charge":
		c.s.ledger(c.key())
		os.Exit(1)
	}
	os.Exit(0)
}

// ask asks a person twice, and tells what was said.
func ask(c *running) {
	form := func(state, message string) {
		c.result(map[string]any{
			"resultType": "input_required", "requestState": state,
			"inputRequests": map[string]any{"who": map[string]any{"method": "elicitation/create", "params": map[string]any{
				"mode": "form", "message": message, "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
			}}},
		})
	}
	if c.params.State == "" {
		form("first", "Who are you?")
		return
	}
	c.text(fmt.Sprintf("%s: %s, key %s", c.params.State, c.params.Responses["who"], c.key()))
}

// change changes the list, and says so.
func change(c *running) {
	var drop string
	_ = json.Unmarshal(c.arg("drop"), &drop)
	c.s.mu.Lock()
	c.s.changes++
	var left []string
	for _, n := range c.s.names {
		if n != drop {
			left = append(left, n)
		}
	}
	c.s.names = left
	push := c.s.push
	c.s.mu.Unlock()
	if push != nil {
		push(map[string]any{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
	}
	c.text("changed")
}

var kinds = []any{
	map[string]any{"type": "text", "text": "a text"},
	map[string]any{"type": "image", "data": base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n")), "mimeType": "image/png"},
	map[string]any{"type": "audio", "data": "no base64!", "mimeType": "audio/wav"},
	map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
	map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///b.bin", "blob": base64.StdEncoding.EncodeToString([]byte{0, 1, 2})}},
	map[string]any{"type": "resource_link", "uri": "https://example.com/\x1b[2K", "name": "far away"},
	map[string]any{"type": "hologram"},
	"no object",
}

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/tools"
)

func toolNames(list []*sdk.Tool) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = t.Name
	}
	return out
}

// all lists every page.
func all(t *testing.T, s *sdk.ClientSession) []*sdk.Tool {
	t.Helper()
	var out []*sdk.Tool
	for tool, err := range s.Tools(within(t), nil) {
		must(t, err)
		out = append(out, tool)
	}
	return out
}

// TestListIsSortedAndSaysWhatToolsDo: the same for the same tools, with hints from tiers.
func TestListIsSortedAndSaysWhatToolsDo(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		s := w.client(revision, nil, nil)
		first, second := all(t, s), all(t, w.client(revision, nil, nil))
		a, err := json.Marshal(first)
		must(t, err)
		b, err := json.Marshal(second)
		must(t, err)
		if string(a) != string(b) || !slices.IsSorted(toolNames(first)) {
			t.Errorf("two lists differ, or are not sorted: %v", toolNames(first))
		}
		hints := map[string]string{"echo": "read", "reserve": "write", "counter": "destroy", "approve_me": "destroy", "bash": "destroy"}
		for _, tool := range first {
			h := tool.Annotations
			got := "destroy"
			switch {
			case h.ReadOnlyHint:
				got = "read"
			case h.DestructiveHint != nil && !*h.DestructiveHint:
				got = "write"
			}
			if want := hints[tool.Name]; want != "" && got != want {
				t.Errorf("%s: %s, want %s", tool.Name, got, want)
			}
			if tool.Name == "charge" && !h.IdempotentHint {
				t.Error("charge knows one order for one, and does not say so")
			}
		}
	})
}

// TestOnlyTheChosenAndTheAllowed: what the door does not show cannot be called; what one
// principal may not call is not shown to that one.
func TestOnlyTheChosenAndTheAllowed(t *testing.T) {
	w := newWorld(t, making{
		api: ring(t, "ann", "bob"),
		door: func(c *Config) {
			c.Tools = []string{"e*", "charge", "?il"}
			c.Allow = func(p string) []string {
				if p == "bob" {
					return []string{"echo"}
				}
				return nil
			}
		},
	})
	for who, want := range map[string]string{"ann": "charge echo nil", "bob": "echo"} {
		if got := strings.Join(toolNames(all(t, w.client("2026-07-28", nil, bearer(who)))), " "); got != want {
			t.Errorf("%s sees %s", who, got)
		}
	}
	if _, err := w.client("2026-07-28", nil, bearer("ann")).CallTool(within(t), &sdk.CallToolParams{Name: "counter", Arguments: map[string]any{"name": "x"}}); err == nil || len(w.lines()) != 0 {
		t.Errorf("a tool that is not shown was called: %v", err)
	}
	for pattern, fine := range map[string]bool{"*": true, "a?[bc]": true, "": false, "[": false, "a[": false} {
		if err := CheckTools([]string{pattern}); (err == nil) != fine {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// TestAToolWhoseCircuitIsOpen is not listed, and is no unknown one, also at a door that has
// never seen it otherwise.
func TestAToolWhoseCircuitIsOpen(t *testing.T) {
	w := newWorld(t, making{})
	_, err := w.desk.OpenCircuit(t.Context(), lifecycle.BreakerConfig{}, lifecycle.Circuit{Tool: "echo"}, time.Hour, events.Principal{ID: "op"}, "")
	must(t, err)
	d := New(t.Context(), Config{})
	t.Cleanup(d.Close)
	b := w.backend()
	must(t, d.Use(t.Context(), Backend{Desk: b.Desk, Tools: func(ctx context.Context) ([]Tool, error) {
		list, err := b.Tools(ctx)
		for i := range list {
			list[i].Off = list[i].Name == "echo"
		}
		return list, err
	}}))
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- d.Speak(t.Context(), Streams{In: inR, Out: outW}) }()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(within(t), &sdk.IOTransport{Reader: outR, Writer: inW}, nil)
	must(t, err)
	if names := toolNames(all(t, s)); slices.Contains(names, "echo") || !slices.Contains(names, "nil") {
		t.Errorf("the list is %q", names)
	}
	if r := call(t, s, "echo", map[string]any{"v": 1}); !r.IsError || !strings.HasPrefix(say(r), "CIRCUIT_OPEN: ") {
		t.Errorf("%q", say(r))
	}
	if _, err := s.CallTool(within(t), &sdk.CallToolParams{Name: "nowhere"}); err == nil {
		t.Error("there is no such tool")
	}
	_ = inW.Close()
	must(t, <-ended)
}

// TestPages: a list of a thousand tools comes in pages, each tool once.
func TestPages(t *testing.T) {
	var many []tools.Tool
	for i := range 1100 {
		many = append(many, tools.Tool{
			Spec: tools.Spec{Name: fmt.Sprintf("t%04d", i), Description: strings.Repeat("x", i), Schema: json.RawMessage(`{"type":"object"}`), Tier: events.Readonly},
			Run:  func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, nil },
		})
	}
	w := newWorld(t, making{tools: many, door: func(c *Config) { c.Tools = []string{"t[0-9]*"} }})
	s := w.client("2025-11-25", nil, nil)
	var got []string
	pages, cursor := 0, ""
	for {
		r, err := s.ListTools(within(t), &sdk.ListToolsParams{Cursor: cursor})
		must(t, err)
		if b, err := json.Marshal(r); err != nil || len(b) > 2*pageBytes || len(r.Tools) > pageTools {
			t.Errorf("a page of %d bytes and %d tools, %v", len(b), len(r.Tools), err)
		}
		got, pages = append(got, toolNames(r.Tools)...), pages+1
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	if len(got) != 1100 || !slices.IsSorted(got) || len(slices.Compact(got)) != 1100 || pages < 3 {
		t.Errorf("%d tools in %d pages", len(got), pages)
	}
	for _, bad := range []string{"x", "!", "YWZ0ZXIg", strings.Repeat("A", 5000)} {
		if _, err := s.ListTools(within(t), &sdk.ListToolsParams{Cursor: bad}); err == nil {
			t.Errorf("cursor %.20q is one", bad)
		}
	}
}

// TestClientsAreToldOfChanges: of tools that come, go and change.
func TestClientsAreToldOfChanges(t *testing.T) {
	w := newWorld(t, making{})
	told := make(chan struct{}, 64)
	s := w.client("2025-11-25", &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} }}, nil)
	heard := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-within(t).Done():
			t.Fatalf("nobody is told of a tool that %s", what)
		}
	}
	tool := w.effect("srv__new")
	must(t, w.registry.Provide("srv", []tools.Tool{tool}))
	heard("comes")
	if r := call(t, s, "srv__new", nil); r.IsError {
		t.Errorf("%q", say(r))
	}
	tool.Description = "has another one"
	must(t, w.registry.Provide("srv", []tools.Tool{tool}))
	heard("changes")
	must(t, w.registry.Provide("srv", nil))
	heard("goes")
	if slices.Contains(toolNames(all(t, s)), "srv__new") {
		t.Error("it is still shown")
	}
	if r := call(t, s, "srv__new", nil); !r.IsError || !strings.HasPrefix(say(r), string(events.UnknownTool)) {
		t.Errorf("it is called all the same: %q", say(r))
	}
}

// TestWhoHasNoListIsToldOfNone: at the streams a client hears of another list where it has
// one, and not of the first, which comes with the node behind the door.
func TestWhoHasNoListIsToldOfNone(t *testing.T) {
	w := newWorld(t, making{})
	inW, outR, ended := w.speak(Streams{})
	lines, told := bufio.NewScanner(outR), 0
	lines.Buffer(nil, 1<<20)
	ask := func(line string) {
		t.Helper()
		go func() { _, _ = io.WriteString(inW, line+"\n") }()
		for lines.Scan() {
			if !strings.Contains(lines.Text(), listChanged) {
				return
			}
			told++
		}
		t.Fatalf("no answer to %s: %v", line, lines.Err())
	}
	changes := func(name string) {
		t.Helper()
		must(t, w.registry.Provide(name, []tools.Tool{w.effect(name + "__new")}))
		_, _, err := w.door.refresh(t.Context())
		must(t, err)
	}
	ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	changes("a")
	ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if told != 0 {
		t.Error("it is told that a list has changed which it has not had")
	}
	changes("b")
	for told == 0 {
		ask(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	}
	_ = inW.Close()
	must(t, <-ended)
}

// TestWhoComesIn: nobody without a token, each in its own name, and no session of another's.
func TestWhoComesIn(t *testing.T) {
	w := newWorld(t, making{api: ring(t, "ann", "bob")})
	r := call(t, w.client("2026-07-28", nil, bearer("ann")), "echo", map[string]any{"v": 1})
	if p := w.turn(turnOf(t, r)).Turn.Submitted.Principal; p.ID != "ann" {
		t.Errorf("submitted by %+v", p)
	}
	s := w.client("2025-11-25", nil, bearer("ann"))
	post := func(h http.Header, body string) (int, string) {
		r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+w.at+"/mcp", strings.NewReader(body))
		must(t, err)
		r.Header = h
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(b)
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if code, _ := post(http.Header{}, list); code != http.StatusUnauthorized {
		t.Errorf("nobody: %d", code)
	}
	h := bearer("bob")
	h.Set(sessionHeader, s.ID())
	if code, body := post(h, list); code != http.StatusNotFound {
		t.Errorf("another's session: %d %s", code, body)
	}
	h = bearer("ann")
	h.Set(sessionHeader, s.ID())
	if code, body := post(h, list); code != http.StatusOK {
		t.Errorf("the own session: %d %s", code, body)
	}
	h = bearer("ann")
	h.Set("Origin", "https://evil.example")
	if code, _ := post(h, list); code != http.StatusForbidden {
		t.Errorf("another origin: %d", code)
	}
	h = bearer("ann")
	h.Set(visitHeader, "x")
	if code, body := post(h, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); code != http.StatusOK {
		t.Errorf("a made up visit: %d %s", code, body)
	}
	for _, body := range []string{"", "{", "[]", "null", `"x"`, `{"jsonrpc":"2.0"}`, strings.Repeat("[", 10_000), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`} {
		code, answer := post(bearer("ann"), body)
		if refused := code >= 400 && code < 500; !refused && (code != http.StatusOK || !strings.Contains(answer, `"error"`)) {
			t.Errorf("%.30q: %d %s", body, code, answer)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestManySessions: those of one principal are bounded, and those that have ended are none.
func TestManySessions(t *testing.T) {
	w := newWorld(t, making{api: ring(t, "ann", "bob")})
	who := access.Identity{Principal: events.Principal{ID: "ann"}}
	for i := range eachSessions {
		w.door.own(fmt.Sprint("gone", i), who)
	}
	w.client("2025-11-25", nil, bearer("ann")) // it makes room
	w.door.mu.Lock()
	left := len(w.door.owners)
	w.door.mu.Unlock()
	if left != 1 {
		t.Errorf("%d sessions are remembered", left)
	}
	for range eachSessions - 1 {
		w.client("2025-11-25", nil, bearer("ann"))
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, nil)
	hc := &http.Client{Transport: withHeader{bearer("ann"), &http.Transport{}}}
	defer hc.CloseIdleConnections()
	_, err := c.Connect(within(t), &sdk.StreamableClientTransport{Endpoint: "http://" + w.at + "/mcp", HTTPClient: hc, MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err == nil {
		t.Error("there is no bound")
	}
	w.client("2025-11-25", nil, bearer("bob"))
}

// TestAtStreams: a client at two streams, whose calls end with it.
func TestAtStreams(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		inW, outR, ended := w.speak(Streams{Principal: events.Principal{ID: "coder"}, Trace: "run-1", Workspace: w.dir})
		c := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil)
		s, err := c.Connect(within(t), &sdk.IOTransport{Reader: outR, Writer: inW}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
		must(t, err)
		k := turnOf(t, call(t, s, "echo", map[string]any{"v": 1}))
		if sub := w.turn(k).Turn.Submitted; k.Trace != "run-1" || sub.Principal.ID != "coder" || sub.Workspace != w.dir {
			t.Errorf("%s by %+v in %s", k, sub.Principal, sub.Workspace)
		}
		for i := range 5 {
			if r := call(t, s, "counter", map[string]any{"name": "n"}); say(r) != fmt.Sprintf("n is %d", i+1) {
				t.Errorf("%q", say(r))
			}
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 600_000}})
		}()
		until(t, "the call runs", func() bool { return w.running() == 1 })
		_ = inW.Close()
		_ = outR.Close()
		<-gone
		must(t, <-ended)
		until(t, "the call is cancelled", func() bool {
			ks := w.turns()
			v := w.turn(ks[len(ks)-1])
			return v.Ended() && v.Turn.Calls[0].Last == events.KindCancelled
		})
	})
}

// TestWhatAClientLeavesIsCancelled though its door closes as soon as it has gone: what runs,
// and what waits for a person.
func TestWhatAClientLeavesIsCancelled(t *testing.T) {
	for tool, stands := range map[string]func(*world){
		`{"name":"sleep","arguments":{"ms":600000}}`: func(w *world) { until(t, "it runs", func() bool { return w.running() == 1 }) },
		`{"name":"approve_me","arguments":{"v":1}}`:  func(w *world) { w.asked() },
	} {
		t.Run(tool, func(t *testing.T) {
			w := newWorld(t, making{})
			d := w.open(making{})
			inR, inW := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				err := d.Speak(t.Context(), Streams{In: inR, Out: unclosed{io.Discard}})
				d.Close()
				ended <- err
			}()
			for _, line := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + tool + `}`,
			} {
				_, err := io.WriteString(inW, line+"\n")
				must(t, err)
			}
			stands(w)
			must(t, inW.Close())
			must(t, <-ended)
			turn := w.turn(w.turns()[0]).Turn
			if _, why, asked := turn.Cancelled(turn.Call(0)); !asked || why != "its client has gone" {
				t.Errorf("its end is asked for: %v, %q", asked, why)
			}
			until(t, "the turn has ended", func() bool { return w.ended() == 1 })
		})
	}
}

// TestAnotherNodeTakesThePlace: requests in flight go on behind it.
func TestAnotherNodeTakesThePlace(t *testing.T) {
	w := newWorld(t, making{})
	gate := make(chan struct{})
	must(t, w.registry.Add(w.slowEffect("effect", gate)))
	w.known("effect")
	s := w.client("2025-11-25", nil, nil)
	ended := make(chan *sdk.CallToolResult, 1)
	go func() { ended <- call(t, s, "effect", nil) }()
	until(t, "the effect has happened", func() bool { return len(w.lines()) == 1 })
	must(t, w.door.Use(t.Context(), w.backend()))
	close(gate)
	if r := <-ended; r.IsError || len(w.lines()) != 1 {
		t.Errorf("%q, ledger %q", say(r), w.lines())
	}
}

// FuzzCursor: a stranger's cursor is a name or an error.
func FuzzCursor(f *testing.F) {
	f.Add(writeCursor("echo"))
	f.Add("YWZ0ZXIgY0") // another spelling of c's
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		name, err := readCursor(s)
		if err == nil && s != "" && (!events.ValidToolName(name) || writeCursor(name) != s) {
			t.Errorf("%q is read as %q", s, name)
		}
	})
}

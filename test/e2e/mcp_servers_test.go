package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-run/sluice/tools/mcp/mcptest"
	"github.com/sluice-run/sluice/tools/sandbox"
)

// scripted is a scripted MCP server of a test: its entry in the file of servers.
type scripted struct {
	o   mcptest.Options
	dir string
	own map[string]any // members of the entry beside those that start it
}

// script is a scripted server whose journal and ledger are its own.
func script(t *testing.T, o mcptest.Options, own map[string]any) *scripted {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Journal, o.Ledger = filepath.Join(dir, "journal"), filepath.Join(dir, "ledger")
	return &scripted{o: o, dir: dir, own: own}
}

// entry is the server's entry. This very program is the server: see TestMain.
func (s *scripted) entry(t *testing.T) map[string]any {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s.o)
	if err != nil {
		t.Fatal(err)
	}
	e := map[string]any{"command": self, "env": map[string]string{mcptest.Variable: string(text)}, "sandbox": map[string]any{"write": []string{s.dir}}}
	for name, v := range s.own {
		e[name] = v
	}
	return e
}

// noted counts the lines of the journal that begin so.
func (s *scripted) noted(prefix string) int {
	n := 0
	for _, line := range mcptest.Lines(s.o.Journal) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// serversFile writes a file of servers, and returns its path.
func serversFile(t *testing.T, path string, entries map[string]any) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "servers.json")
	}
	body, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err == nil {
		err = os.WriteFile(path, body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serversUp waits for the tools of all servers of a file: a node that starts waits for
// them only so long.
func (n *node) serversUp(file string) {
	n.t.Helper()
	var entries struct {
		Servers map[string]any `json:"mcpServers"`
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &entries)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	for name := range entries.Servers {
		poll(n.t, "the tools of "+name+" are there", func() bool {
			for tool := range n.tools() {
				if strings.HasPrefix(tool, name+"__") {
					return true
				}
			}
			return false
		})
	}
}

// do runs a turn of one call, and returns it with the message that its model reads.
func (n *node) do(tool string, a args) (callView, answer) {
	n.t.Helper()
	v := n.run(turn{Calls: []call{{Tool: tool, Args: a}}})
	return v.Calls[0], answers(n.t, v.Messages)[0]
}

func TestMCPServersToolsAreTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := script(t, mcptest.Options{Lie: true}, map[string]any{"tiers": map[string]string{"echo": "readonly", "once": "readonly", "held": "readonly", "sleep": "readonly"}})
	two := script(t, mcptest.Options{Revision: mcptest.Old}, nil)
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"one": one.entry(t), "two": two.entry(t)}))

	// Two servers with the same tools: each has its own, by any spelling.
	if list := n.tools(); !list["one__echo"] || !list["two__echo"] || list["echo"] != true {
		t.Fatalf("%v", list)
	}
	for _, tool := range []string{"one__echo", "one:echo", "one.echo", "two:echo"} {
		c, a := n.do(tool, args{"v": json.Number("9007199254740993")})
		if c.Tool != strings.NewReplacer(":", "__", ".", "__").Replace(tool) || c.State != "completed" || a.Content.Text != "9007199254740993" {
			t.Errorf("%s: %+v, %+v", tool, c, a)
		}
	}

	// The tier is the operator's word: that a tool calls itself readonly changes nothing.
	if c, _ := n.do("one__charge", args{}); c.Tier != "irreversible" || c.Effects != "done" {
		t.Errorf("%+v", c)
	}
	if c, _ := n.do("one__echo", args{"v": 1}); c.Tier != "readonly" || c.Effects != "none" {
		t.Errorf("%+v", c)
	}

	// A failure of the tool, a refusal of the protocol, and no output are told apart.
	c, a := n.do("two__fail", args{})
	c.is(t, "failed", "MCP_EXECUTION_ERROR", "done")
	if a.Answer != "failed" || a.Content.Error == nil || a.Content.Error.Message != "the disk is full" {
		t.Errorf("%+v", a)
	}
	c, _ = n.do("two__perror", args{"code": -32602, "message": "n must be positive"})
	c.is(t, "failed", "MCP_PARAM_ERROR", "none")
	c, _ = n.do("two__typed", args{"n": "one"})
	c.is(t, "failed", "MCP_EXECUTION_ERROR", "done")
	for _, tool := range []string{"empty", "nothing", "null", "blank"} {
		c, a := n.do("two__"+tool, args{})
		if c.State != "completed" || !strings.Contains(a.Content.Text, "no output") {
			t.Errorf("%s: %+v, %+v", tool, c, a)
		}
	}

	// What the node keeps to itself its servers do not see.
	for _, path := range []string{filepath.Join(p.data, "sluice.json"), filepath.Join(p.data, "jetstream")} {
		if c, a := n.do("two__cat", args{"path": path}); c.State != "failed" {
			t.Errorf("%s: %+v, %s", path, c, a.Content.Text)
		}
	}
}

// A server has what its entry grants, and no more.
func TestMCPServersAreContained(t *testing.T) {
	t.Parallel()
	if m, err := sandbox.Look(t.Context()); err != nil || !m.Holds() {
		t.Skipf("SKIPPED, and with it everything that this test would show: this machine cannot contain commands: %+v, %v", m.Lacks(), err)
	}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	go func() {
		for {
			c, err := listening.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	p := newPlace(t)
	p.write("mine.txt", "workspace")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	shut, open := script(t, mcptest.Options{}, nil), script(t, mcptest.Options{}, map[string]any{"network": true})
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"shut": shut.entry(t), "open": open.entry(t)}))
	at := args{"to": listening.Addr().String()}
	if c, a := n.do("shut__dial", at); c.State != "failed" {
		t.Errorf("%+v, %+v", c, a)
	}
	if c, a := n.do("open__dial", at); c.State != "completed" {
		t.Errorf("%+v, %+v", c, a)
	}
	if c, a := n.do("shut__cat", args{"path": secret}); c.State != "failed" {
		t.Errorf("%+v, %+v", c, a)
	}
	if c, a := n.do("shut__cat", args{"path": filepath.Join(p.work, "mine.txt")}); c.State != "completed" || a.Content.Text != "workspace" {
		t.Errorf("%+v, %+v", c, a)
	}
}

func TestMCPServerDiesUnderCalls(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	srv := script(t, mcptest.Options{}, map[string]any{"tiers": map[string]string{"once": "readonly"}})
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"srv": srv.entry(t)}))

	// What only reads is asked again of the server that was started again.
	if c, a := n.do("srv__once", args{}); c.State != "completed" || c.Attempt != 2 || a.Content.Text != "alive" {
		t.Errorf("%+v, %+v", c, a)
	}
	// Of anything else nobody knows.
	for _, how := range []string{"charge", "kill"} {
		c, a := n.do("srv__crash", args{"how": how})
		c.is(t, "failed", "MCP_NETWORK_ERROR", "possible")
		if a.Answer != "unknown" || c.Attempt != 1 {
			t.Errorf("%+v, %+v", c, a)
		}
	}
	if charged := mcptest.Lines(srv.o.Ledger); len(charged) != 1 {
		t.Errorf("%v", charged)
	}
	if c, _ := n.do("srv__echo", args{"v": 1}); c.State != "completed" {
		t.Errorf("%+v", c)
	}
}

func TestMCPCancelIsToldAndTheLateAnswerKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	srv, brief := script(t, mcptest.Options{}, nil), script(t, mcptest.Options{}, map[string]any{"limits": map[string]any{"wall": "4s"}})
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"srv": srv.entry(t), "brief": brief.entry(t)}))

	held := n.submit(turn{Calls: []call{{Tool: "srv__held"}}})
	other := n.submit(turn{Calls: []call{{Tool: "srv__sleep", Args: args{"ms": 1000}}}})
	poll(t, "both calls are at the server", func() bool { return srv.noted("call ") == 2 })
	n.post("/v1/turns/"+held.Trace+"/"+held.Turn+"/calls/0/cancel", nil)
	if v := n.end(held.Trace, held.Turn); v.Calls[0].State != "cancelled" || v.Calls[0].Effects != "possible" {
		t.Errorf("%+v", v.Calls[0])
	}
	if v := n.end(other.Trace, other.Turn); v.Calls[0].State != "completed" {
		t.Errorf("the other call: %+v", v.Calls[0])
	}
	late := func(v view) {
		t.Helper()
		poll(t, "the late answer is in the log", func() bool {
			list := of(n.events(v.Trace, v.Turn), "late_result", "0")
			return len(list) == 1 && strings.Contains(string(list[0].Data), "too late")
		})
	}
	late(held)

	v := n.run(turn{Calls: []call{{Tool: "brief__held"}}})
	v.Calls[0].is(t, "timed_out", "MCP_TIMEOUT", "possible")
	late(v)
	for _, s := range []*scripted{srv, brief} {
		if s.noted("cancelled ") != 1 || s.noted("list") != 1 || s.noted("end of input") != 0 {
			t.Errorf("%v", mcptest.Lines(s.o.Journal))
		}
	}
}

func TestMCPInputIsAskedOfAPerson(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	srv := script(t, mcptest.Options{}, map[string]any{"tiers": map[string]string{"ask": "readonly"}})
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"srv": srv.entry(t)}))

	v := n.submit(turn{CanAsk: true, Calls: []call{{Tool: "srv__ask", Key: "k1"}}})
	n.until(v.Trace, v.Turn, "input_requested", "0")
	path := "/v1/turns/" + v.Trace + "/" + v.Turn + "/calls/0/answer"
	n.kill() // nothing of it is in memory alone
	n = p.serve("--mcp-servers", serversFile(t, "", map[string]any{"srv": srv.entry(t)}))
	status, body := n.ask(http.MethodPost, path, map[string]any{"asking": 1, "answers": []any{map[string]any{"id": "who", "action": "accept", "content": map[string]any{"name": "Ada"}}}})
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	v = n.end(v.Trace, v.Turn)
	got := answers(t, n.messages(v.Trace, v.Turn, "json"))[0]
	if v.Calls[0].State != "completed" || !strings.HasPrefix(got.Content.Text, `first: {"action":"accept","content":{"name":"Ada"}}, key `) {
		t.Errorf("%+v, %+v", v.Calls[0], got)
	}
	var keys []string
	for _, line := range mcptest.Lines(srv.o.Journal) {
		if rest, ok := strings.CutPrefix(line, "call ask "); ok {
			_, key, _ := strings.Cut(rest, " ")
			keys = append(keys, key)
		}
	}
	if len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
		t.Errorf("one call, and these keys: %v", keys)
	}
}

func TestMCPServersAreReadAnew(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, two := script(t, mcptest.Options{}, nil), script(t, mcptest.Options{Tools: []string{"echo"}}, nil)
	file := serversFile(t, "", map[string]any{"one": one.entry(t)})
	n := p.serve("--mcp-servers", file)
	v := n.run(turn{Calls: []call{{Tool: "one__echo", Args: args{"v": 1}}}})
	before := n.messages(v.Trace, v.Turn, "openai")

	if c, _ := n.do("one__change", args{"drop": "blank"}); c.State != "completed" {
		t.Errorf("%+v", c)
	}
	poll(t, "what the server dropped is gone", func() bool { return !n.tools()["one__blank"] })

	serversFile(t, file, map[string]any{"two": two.entry(t)})
	n.signal(syscall.SIGHUP)
	poll(t, "the new server is there, and the old one gone", func() bool { l := n.tools(); return l["two__echo"] && !l["one__echo"] })
	if c, _ := n.do("one__echo", args{"v": 1}); c.State != "denied" || c.Code != "UNKNOWN_TOOL" {
		t.Errorf("%+v", c)
	}
	// What was is told as it was: that takes no registry.
	if after := n.messages(v.Trace, v.Turn, "openai"); fmt.Sprintf("%s", after) != fmt.Sprintf("%s", before) {
		t.Errorf("%s\nwas %s", after, before)
	}

	if err := os.WriteFile(file, []byte(`{"mcpServers":{"two":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n.signal(syscall.SIGHUP)
	poll(t, "a broken file is told", func() bool { return strings.Contains(n.log.String(), "was not read anew") })
	if c, _ := n.do("two__echo", args{"v": 1}); c.State != "completed" {
		t.Errorf("%+v", c)
	}
}

func TestMCPServersAreChecked(t *testing.T) {
	t.Parallel()
	srv := script(t, mcptest.Options{Tools: []string{"echo", "charge"}}, map[string]any{"tiers": map[string]string{"echo": "readonly"}, "autoApprove": []string{"charge"}})
	file := serversFile(t, "", map[string]any{"srv": srv.entry(t)})
	out := must(t, "mcpservers", "check", "--mcp-servers", file)
	for _, want := range []string{"srv  up  mcptest 1  2026-07-28", "readonly      srv__echo: the operator's word", "irreversible  srv__charge: no word of the operator's"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out := must(t, "mcpservers", "list", "--mcp-servers", file); !strings.Contains(out, "srv") || strings.Contains(out, mcptest.Variable) {
		t.Error(out)
	}
	bad := serversFile(t, "", map[string]any{"gone": map[string]any{"command": "no-such-program-there"}})
	if s := verb(t, "", "mcpservers", "check", "--mcp-servers", bad); s.code != 1 || !strings.Contains(s.out, "no-such-program-there") {
		t.Errorf("%+v", s)
	}
	away := filepath.Join(t.TempDir(), "server.sh")
	if err := os.WriteFile(away, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unseen := serversFile(t, "", map[string]any{"unseen": map[string]any{"command": "/bin/sh", "args": []string{away}}})
	m, err := sandbox.Look(t.Context())
	if s := verb(t, "", "mcpservers", "check", "--mcp-servers", unseen); s.code != 1 || err == nil && m.Holds() != strings.Contains(s.out, "so not "+away+": name what it needs in sandbox.read") {
		t.Errorf("%+v", s)
	}
	open := script(t, mcptest.Options{}, map[string]any{"sandbox": map[string]any{"off": true}})
	free := serversFile(t, "", map[string]any{"free": open.entry(t)})
	if s := verb(t, "", "serve", "--require-sandbox", "--mcp-servers", free, "--data", t.TempDir(), "--http", "none"); s.code != 2 || !strings.Contains(s.err, "is not contained") {
		t.Errorf("%+v", s)
	}
	wrong := serversFile(t, "", map[string]any{"a__b": map[string]any{"command": "x"}})
	for _, args := range [][]string{{"mcpservers", "check", "--mcp-servers", wrong}, {"mcpservers", "list"}} {
		if s := verb(t, "", args...); s.code != 2 || strings.Contains(s.err, "mcpservers check") {
			t.Errorf("%v: %+v", args, s)
		}
	}
	if s := verb(t, "", "serve", "--mcp-servers", wrong, "--data", t.TempDir(), "--http", "none"); s.code != 2 || !strings.Contains(s.err, "__") {
		t.Errorf("%+v", s)
	}
}

// A circuit is one tool's of one server: what fails on one is no evidence against its
// namesake on another.
func TestMCPCircuitsAreByServerAndTool(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, two := script(t, mcptest.Options{}, nil), script(t, mcptest.Options{}, nil)
	n := p.serve("--breaker-failures", "2", "--mcp-servers", serversFile(t, "", map[string]any{"one": one.entry(t), "two": two.entry(t)}))
	for range 2 {
		c, _ := n.do("one__crash", args{})
		c.is(t, "failed", "MCP_NETWORK_ERROR", "possible")
	}
	c, _ := n.do("one__crash", args{})
	c.is(t, "denied", "CIRCUIT_OPEN", "none")
	if list := n.tools(); list["one__crash"] || !list["two__crash"] || !list["one__echo"] {
		t.Errorf("%v", list)
	}
	c, _ = n.do("two__crash", args{})
	c.is(t, "failed", "MCP_NETWORK_ERROR", "possible")
	for range 3 { // what the model gets wrong, and what the tool says, is no evidence
		c, _ = n.do("one__fail", args{})
		c.is(t, "failed", "MCP_EXECUTION_ERROR", "done")
	}
}

// An approval is of the tool as it was: once its server describes it differently, a yes to
// the old one is none.
func TestMCPApprovalIsVoidOnceTheToolChanges(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	srv := script(t, mcptest.Options{}, map[string]any{"tiers": map[string]string{"echo": "approval"}})
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"srv": srv.entry(t)}))
	v := n.submit(turn{CanAsk: true, Calls: []call{{Tool: "srv__echo", Args: args{"v": 1}}}})
	n.inbox(v.Trace, 1)
	if c, _ := n.do("srv__change", args{}); c.State != "completed" {
		t.Fatalf("%+v", c)
	}
	poll(t, "the changed list is there", func() bool {
		_, list := n.ask(http.MethodGet, "/v1/tools?format=openai", nil)
		return bytes.Contains(list, []byte("Changed 1 times."))
	})
	path := "/v1/turns/" + v.Trace + "/" + v.Turn + "/calls/0/approve"
	n.ask(http.MethodPost, path, args{"asking": 1}) // the yes is to what was shown first
	poll(t, "it is asked again", func() bool {
		return len(of(n.events(v.Trace, v.Turn), "approval_requested", "0")) == 2
	})
	if srv.noted("call echo") != 0 {
		t.Error("it ran by a yes to another tool")
	}
	poll(t, "the yes to what it is now runs it", func() bool {
		n.ask(http.MethodPost, path, args{"asking": 2})
		return n.look(v.Trace, v.Turn).State == "completed"
	})
	if srv.noted("call echo") != 1 {
		t.Errorf("%v", mcptest.Lines(srv.o.Journal))
	}
}

// Over HTTP, too: headers from the environment, a server that goes away and comes back.
func TestMCPServerOverHTTP(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{mcptest.Old, mcptest.New} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			srv := script(t, mcptest.Options{Revision: revision}, nil)
			inner := mcptest.Make(srv.o)
			var away atomic.Bool
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case away.Load():
					http.Error(w, "gone", http.StatusBadGateway)
				case r.Header.Get("Authorization") != "Bearer s3cret":
					http.Error(w, "who?", http.StatusUnauthorized)
				default:
					inner.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(at.Close) // behind the node's end: its streams last until then
			p := newPlace(t)
			n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"far": map[string]any{
				"type": "http", "url": at.URL + "/mcp", "headers": map[string]string{"Authorization": "Bearer ${MCP_TOKEN:-s3cret}"},
				"tiers": map[string]string{"echo": "readonly", "sleep": "readonly"},
			}}))
			if c, a := n.do("far__echo", args{"v": 1}); c.State != "completed" || a.Content.Text != "1" {
				t.Fatalf("%+v, %+v", c, a)
			}
			reads := n.submit(turn{Calls: []call{{Tool: "far__sleep", Args: args{"ms": forever}}}})
			writes := n.submit(turn{Calls: []call{{Tool: "far__held"}}})
			poll(t, "both calls are there", func() bool { return srv.noted("call sleep")+srv.noted("call held") == 2 })
			away.Store(true)
			at.CloseClientConnections()
			v := n.end(writes.Trace, writes.Turn)
			v.Calls[0].is(t, "failed", "MCP_NETWORK_ERROR", "possible")
			n.until(reads.Trace, reads.Turn, "retrying", "0")
			away.Store(false)
			n.ask(http.MethodPost, "/v1/turns/"+reads.Trace+"/"+reads.Turn+"/cancel", nil)
			n.end(reads.Trace, reads.Turn)
			poll(t, "it is back", func() bool {
				c, _ := n.do("far__echo", args{"v": 2})
				return c.State == "completed"
			})
		})
	}
}

// A node that is killed takes its servers with it, and what they have started.
func TestMCPServersEndWithTheirNode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	beat := filepath.Join(t.TempDir(), "beat")
	srv := script(t, mcptest.Options{Beat: beat}, nil)
	e := srv.entry(t)
	e["sandbox"] = map[string]any{"write": []string{srv.dir, filepath.Dir(beat)}}
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"srv": e}))
	poll(t, "what it has started beats", func() bool { return len(mcptest.Lines(beat)) > 2 })
	n.kill()
	last := -1
	poll(t, "the beat has stopped", func() bool {
		now := len(mcptest.Lines(beat))
		stopped := now == last
		last = now
		if !stopped {
			return false
		}
		for range 40 { // far longer than a beat takes
			<-time.After(5 * time.Millisecond)
		}
		return len(mcptest.Lines(beat)) == now
	})
}

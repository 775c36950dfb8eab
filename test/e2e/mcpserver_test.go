package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mcpRequest is a tools/call of the revision without sessions.
func mcpRequest(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"}}}}`, id, tool, args)
}

var mcpHeaders = map[string]string{
	"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
}

// mcpAnswer is the answer to a tools/call.
type mcpAnswer struct {
	Result struct {
		IsError bool
		Content []struct{ Text string }
		Meta    map[string]any `json:"_meta"`
	}
	Error json.RawMessage
}

func (a mcpAnswer) text() string {
	var out []string
	for _, c := range a.Result.Content {
		out = append(out, c.Text)
	}
	return strings.Join(out, "\n")
}

// askMCP sends a call and waits for its answer.
func (n *node) askMCP(id int, tool, args string) mcpAnswer {
	n.place.t.Helper()
	r, err := http.NewRequestWithContext(n.place.t.Context(), http.MethodPost, n.HTTP+"/mcp", strings.NewReader(mcpRequest(id, tool, args)))
	if err != nil {
		n.place.t.Fatal(err)
	}
	for name, v := range mcpHeaders {
		r.Header.Set(name, v)
	}
	r.Header.Set("Mcp-Name", tool)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.place.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	_, data, ok := strings.Cut(string(body), "data: ")
	var a mcpAnswer
	if err != nil || !ok || json.NewDecoder(strings.NewReader(data)).Decode(&a) != nil {
		n.place.t.Fatalf("%v: %s", err, body)
	}
	return a
}

// loseMCP sends a call over a connection of its own, and cuts that once lost says so.
func (n *node) loseMCP(id int, tool, args string, lost func() bool) {
	n.place.t.Helper()
	at := strings.TrimPrefix(n.HTTP, "http://")
	conn, err := net.Dial("tcp", at)
	if err != nil {
		n.place.t.Fatal(err)
	}
	defer conn.Close()
	body := mcpRequest(id, tool, args)
	head := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nMcp-Name: %s\r\nContent-Length: %d\r\n", at, tool, len(body))
	for name, v := range mcpHeaders {
		head += name + ": " + v + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"+body); err != nil {
		n.place.t.Fatal(err)
	}
	poll(n.place.t, "the call has had its effect", lost)
}

// charges are how many the ledger has, which is not there before the first.
func (p *place) charges() int {
	b, err := os.ReadFile(p.ledger)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
	return strings.Count(string(b), `"tool":"charge"`)
}

// TestMCPALostRequestChargesOnce: the connection dies in the middle of a charge; the same
// request comes again, to the same node, and to the node that comes after its SIGKILL.
func TestMCPALostRequestChargesOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--mcp-linger", "30s")
	charged := func(want int) func() bool { return func() bool { return p.charges() == want } }

	n.loseMCP(1, "charge", `{"order":"a","amount":1,"stall_ms":1500}`, charged(1))
	a := n.askMCP(2, "charge", `{"order":"a","amount":1,"stall_ms":1500}`)
	if a.Result.IsError || a.Result.Meta["run.sluice/again"] != true || p.charges() != 1 {
		t.Errorf("%s, %v, %d charges", a.text(), a.Result.Meta, p.charges())
	}

	n.loseMCP(3, "charge", `{"order":"b","amount":2,"stall_ms":60000}`, charged(2))
	n.kill()
	n = p.serve()
	b := n.askMCP(4, "charge", `{"order":"b","amount":2,"stall_ms":60000}`)
	if b.Result.IsError || b.Result.Meta["run.sluice/again"] != true || p.charges() != 2 {
		t.Errorf("after the node's death: %s, %v, %d charges", b.text(), b.Result.Meta, p.charges())
	}
	n.stop()
}

// speaker is `sluice-node mcp` as an agent starts it.
type speaker struct {
	t *testing.T
	*process
	in  *os.File
	out *bufio.Reader
	id  int
}

// speak starts one that may run a node itself, and shakes hands.
func (p *place) speak(args ...string) *speaker {
	p.t.Helper()
	return p.speakWith(append([]string{"--workspace", p.work, "--ledger", p.ledger, "--fixtures"}, args...)...)
}

// speakWith starts one with these settings, and shakes hands.
func (p *place) speakWith(args ...string) *speaker {
	p.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	s := &speaker{t: p.t, in: w}
	s.process = launch(p.t, r, true, filepath.Join(bin, "sluice-node"),
		append([]string{"mcp", "--data", p.data}, args...)...)
	_ = r.Close()
	s.out = bufio.NewReader(s.process.out)
	p.t.Cleanup(func() {
		_ = w.Close()
		if p.t.Failed() {
			p.t.Logf("its log:\n%s", tail(s.log.String(), 4000))
		}
	})
	if a := s.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`); len(a.Error) > 0 {
		p.t.Fatalf("%s", a.Error)
	}
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *speaker) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// ask asks, and waits for the answer.
func (s *speaker) ask(method, params string) mcpAnswer {
	s.t.Helper()
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.id, method, params))
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			s.t.Fatalf("%s: %v", method, err)
		}
		var m struct{ ID int }
		var a mcpAnswer
		if json.Unmarshal(line, &m) == nil && m.ID == s.id && json.Unmarshal(line, &a) == nil {
			return a
		}
	}
}

// call calls a tool.
func (s *speaker) call(tool, args string) mcpAnswer {
	s.t.Helper()
	return s.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// TestMCPAtStreams: the first agent's process runs the node, the second goes through it,
// and takes its place when the first agent has gone.
func TestMCPAtStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.speak()
	if a := first.call("counter", `{"name":"x"}`); a.text() != "x is 1" {
		t.Fatalf("%+v", a)
	}
	second := p.speak("--principal", "coder")
	if a := second.call("counter", `{"name":"x"}`); a.text() != "x is 2" {
		t.Fatalf("%+v", a)
	}
	_ = first.in.Close()
	if code := first.wait(t); code != 0 {
		t.Errorf("the first ends with %d: %s", code, first.log.String())
	}
	if a := second.call("counter", `{"name":"x"}`); a.text() != "x is 3" {
		t.Errorf("%+v", a)
	}
	trace, _ := second.call("echo", `{"v":1}`).Result.Meta["run.sluice/trace"].(string)
	out := must(t, "tail", "--data", p.data, "--from", "start", "--follow=false", "--json", "--trace", trace)
	if !strings.Contains(out, `"coder"`) {
		t.Errorf("the log does not say who called: %s", tail(out, 1000))
	}
	_ = second.in.Close()
	if code := second.wait(t); code != 0 {
		t.Errorf("the second ends with %d: %s", code, second.log.String())
	}
}

// TestMCPStreamsThatEnd: what waits for a person as the agent goes is withdrawn, by the process
// that goes through a node, and by the one that is the node.
func TestMCPStreamsThatEnd(t *testing.T) {
	t.Parallel()
	for _, through := range []bool{true, false} {
		t.Run(fmt.Sprintf("through a node %v", through), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			speak := p.speak
			if through {
				p.serve()
				speak = p.speakWith
			}
			agent := speak("--principal", "coder")
			if a := agent.call("echo", `{"v":1}`); a.Result.IsError {
				t.Fatalf("%+v", a)
			}
			agent.say(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"approve_me","arguments":{"v":"x"}}}`)
			poll(t, "it waits for a person", func() bool { return strings.Contains(must(t, "inbox", "--data", p.data), "approve_me by coder") })
			_ = agent.in.Close()
			if code := agent.wait(t); code != 0 {
				t.Errorf("it ends with %d: %s", code, agent.log.String())
			}
			if out := must(t, "tail", "--data", p.data, "--from", "start", "--follow=false"); !strings.Contains(out, "by coder: its client has gone") {
				t.Errorf("its end is not asked for:\n%s", tail(out, 1000))
			}
			if !through {
				p.serve()
			}
			poll(t, "nobody is asked any more", func() bool { return !strings.Contains(must(t, "inbox", "--data", p.data), "approve_me") })
		})
	}
}

// TestCodingAgentExample: the example's servers are ones that the node can read, and its
// command line is one.
func TestCodingAgentExample(t *testing.T) {
	t.Setenv("TRACKER_TOKEN", "t")
	if out := must(t, "mcpservers", "list", "--mcp-servers", "../../examples/coding-agent/servers.json"); !strings.Contains(out, "files") || !strings.Contains(out, "tracker") {
		t.Errorf("%s", out)
	}
	body, err := os.ReadFile("../../examples/coding-agent/mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(body, &c); err != nil || c.Servers["sluice"].Command != "sluice-node" {
		t.Fatalf("%v: %s", err, body)
	}
	if out := must(t, append(c.Servers["sluice"].Args, "--help")...); !strings.Contains(out, "--mcp-servers") {
		t.Errorf("%s", out)
	}
}

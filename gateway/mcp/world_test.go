package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fixture"
)

func TestMain(m *testing.M) {
	leaks.Main(m, append(leaks.OfServers, leaks.OfActors)...)
}

// patience is how long a fact may take that must come.
const patience = 60 * time.Second

// lax lets everything through: these tests are not about policy.
type lax struct{}

func (lax) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Allow, Policies: []string{"lax"}, Version: "lax"}
}
func (lax) Version() string { return "lax" }

// world is a node in memory with a door at HTTP.
type world struct {
	t        testing.TB
	log      *memlog.Log
	bus      bus.Bus
	registry *tools.Registry
	node     *actors.Node
	desk     *gateway.Desk
	door     *Door
	at       string // where the door listens
	down     func() // closes it, and waits
	ledger   string
	dir      string
}

// making is how a world is made.
type making struct {
	door  func(*Config)
	api   func(*gateway.APIConfig)
	tools []tools.Tool // beside the fixtures
}

func newWorld(t testing.TB, m making) *world {
	t.Helper()
	w := &world{t: t, log: memlog.New(memlog.Config{}), dir: t.TempDir()}
	w.ledger = filepath.Join(w.dir, "ledger.jsonl")
	list, err := fixture.Tools(fixture.Config{Ledger: w.ledger})
	must(t, err)
	w.registry, err = tools.NewRegistry(append(list, m.tools...)...)
	must(t, err)
	w.bus = w.log.View("node")
	t.Cleanup(func() { _ = w.log.Close() })
	log := slog.New(slog.NewTextHandler(testLog{}, nil))
	w.node, err = actors.New(actors.Config{
		Bus: w.bus, Registry: w.registry, Authorizer: lax{}, Boot: "b" + ulid.Make().String(), Workspace: t.TempDir(), Drain: time.Second, Log: log,
	})
	must(t, err)
	must(t, w.node.Start(t.Context()))
	w.desk = gateway.NewDesk(gateway.DeskConfig{Bus: w.bus, Workspace: w.dir, Poll: 200 * time.Millisecond, Log: log})
	w.desk.Start(t.Context())
	w.door = w.open(m)
	c := gateway.APIConfig{Desk: w.desk, MCP: w.door, Log: log}
	if m.api != nil {
		m.api(&c)
	}
	w.serve(c)
	t.Cleanup(w.close)
	return w
}

// open makes a door before the world's node.
func (w *world) open(m making) *Door {
	c := Config{Look: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(testLog{}, nil))}
	if m.door != nil {
		m.door(&c)
	}
	d := New(w.t.Context(), c)
	must(w.t, d.Use(w.t.Context(), w.backend()))
	return d
}

// speak has the door speak as s says, at pipes: into in goes what a client says, out of out
// comes what it hears, and ended tells how it has ended.
func (w *world) speak(s Streams) (in *io.PipeWriter, out *io.PipeReader, ended <-chan error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s.In, s.Out = inR, outW
	end := make(chan error, 1)
	go func() {
		end <- w.door.Speak(w.t.Context(), s)
		_ = outW.Close()
	}()
	return inW, outR, end
}

func (w *world) backend() Backend {
	return Backend{Desk: w.desk, Tools: func(context.Context) ([]Tool, error) {
		var out []Tool
		for _, t := range w.registry.List() {
			out = append(out, Tool{Name: t.Name, Description: t.Description, Schema: t.Schema, Tier: t.Tier, Varies: t.TierOf != nil, Keyed: t.Key != nil})
		}
		return out, nil
	}}
}

func (w *world) close() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := w.node.Stop(ctx); err != nil {
		w.t.Errorf("the node's end: %v", err)
	}
	w.door.Close()
	w.down()
	w.desk.Stop()
}

// serve opens an HTTP door.
func (w *world) serve(c gateway.APIConfig) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	w.at = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	api := gateway.NewAPI(c)
	go func() { ended <- api.Serve(ctx, l, time.Second) }()
	w.down = func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Errorf("the door's end: %v", err)
		}
	}
}

type testLog struct{}

func (testLog) Write(p []byte) (int, error) {
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		return os.Stderr.Write(p)
	}
	return len(p), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within is a context that ends when a fact has not come that had to.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	return ctx
}

// until waits for a fact.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, tick := within(t), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it has not come to pass: %s", what)
		}
	}
}

// lines are those of the ledger.
func (w *world) lines() []string {
	b, err := os.ReadFile(w.ledger)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// revisions are those that the door speaks: by a handshake, and without one.
var revisions = []string{"2025-11-25", "2026-07-28"}

// client is an SDK client of the world's door.
func (w *world) client(revision string, o *sdk.ClientOptions, header http.Header) *sdk.ClientSession {
	w.t.Helper()
	// Each has connections of its own, so that none is left behind.
	hc := &http.Client{Transport: withHeader{header, &http.Transport{}}}
	c := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, o)
	s, err := c.Connect(within(w.t), &sdk.StreamableClientTransport{Endpoint: "http://" + w.at + "/mcp", HTTPClient: hc}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	must(w.t, err)
	w.t.Cleanup(func() {
		_ = s.Close()
		hc.CloseIdleConnections()
	})
	return s
}

type withHeader struct {
	h    http.Header
	next *http.Transport
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, v := range h.h {
		r.Header[name] = v
	}
	return h.next.RoundTrip(r)
}

func (h withHeader) CloseIdleConnections() { h.next.CloseIdleConnections() }

// say is what a result says, all its texts together.
func say(r *sdk.CallToolResult) string {
	var out []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			out = append(out, t.Text)
		}
	}
	return strings.Join(out, "\n")
}

// call calls a tool and wants an answer.
func call(t *testing.T, s *sdk.ClientSession, tool string, args any) *sdk.CallToolResult {
	t.Helper()
	r, err := s.CallTool(within(t), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// turnOf is the turn that a result is of.
func turnOf(t *testing.T, r *sdk.CallToolResult) events.TurnKey {
	t.Helper()
	k := events.TurnKey{}
	k.Trace, _ = r.Meta[MetaTrace].(string)
	k.Turn, _ = r.Meta[MetaTurn].(string)
	must(t, k.Check())
	return k
}

// turn reads a turn, and holds it against the laws.
func (w *world) turn(k events.TurnKey) gateway.View {
	w.t.Helper()
	v, err := w.desk.Get(within(w.t), k)
	must(w.t, err)
	var cs []events.Commit
	for _, s := range v.Commits {
		cs = append(cs, s.Commit)
	}
	for _, b := range lifecycle.Laws(cs) {
		w.t.Errorf("law: %s", b)
	}
	return v
}

// asked waits until something waits for a person.
func (w *world) asked() gateway.ApprovalID {
	w.t.Helper()
	var id gateway.ApprovalID
	until(w.t, "something waits for a person", func() bool {
		list, err := w.desk.Inbox(within(w.t))
		must(w.t, err)
		if len(list) == 1 {
			id = gateway.ApprovalID{Call: list[0].Call, Asking: list[0].Asking, Input: list[0].Kind == projections.PendingInput}
		}
		return len(list) == 1
	})
	return id
}

// raw is a request of the revision without sessions, as bytes over a connection of its
// own that a test can cut.
type raw struct {
	conn net.Conn
	body chan string // what has come back, once it has ended
}

// send sends a tools/call. id is the message's.
func (w *world) send(id int, tool, args, meta string) *raw {
	w.t.Helper()
	if meta != "" {
		meta = "," + meta
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}%s}}}`, id, tool, args, meta)
	conn, err := net.Dial("tcp", w.at)
	must(w.t, err)
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", tool, len(body), body)
	must(w.t, err)
	r := &raw{conn: conn, body: make(chan string, 1)}
	go func() {
		b, _ := io.ReadAll(conn)
		r.body <- string(b)
	}()
	w.t.Cleanup(func() { _ = conn.Close() })
	return r
}

// cut cuts the connection, and waits until nothing reads from it any more.
func (r *raw) cut() {
	_ = r.conn.Close()
	<-r.body
}

// answer is the answer that came back.
func (r *raw) answer(t *testing.T) *sdk.CallToolResult {
	t.Helper()
	var text string
	select {
	case text = <-r.body:
	case <-within(t).Done():
		t.Fatal("there is no answer")
	}
	_, data, ok := strings.Cut(text, "data: ")
	if !ok {
		t.Fatalf("no answer: %s", text)
	}
	var m struct {
		Result *sdk.CallToolResult
		Error  json.RawMessage
	}
	must(t, json.NewDecoder(strings.NewReader(data)).Decode(&m))
	if m.Result == nil {
		t.Fatalf("an error: %s", m.Error)
	}
	return m.Result
}

// ring is two agents and their tokens.
func ring(t *testing.T, names ...string) func(*gateway.APIConfig) {
	t.Helper()
	f := keys.File{}
	for _, n := range names {
		f.Principals = append(f.Principals, keys.Principal{ID: n, Roles: []access.Role{access.Submitter}, Tokens: []keys.Token{{SHA256: keys.Digest(tokenOf(n))}}})
	}
	r, err := f.Ring()
	must(t, err)
	return func(c *gateway.APIConfig) { c.Keys = func() *keys.Ring { return r } }
}

func tokenOf(name string) string { return "sluice_test-token-of-" + name }

func bearer(name string) http.Header {
	return http.Header{"Authorization": {"Bearer " + tokenOf(name)}}
}

// effect is an irreversible tool that writes a line.
func (w *world) effect(name string) tools.Tool {
	open := make(chan struct{})
	close(open)
	return w.slowEffect(name, open)
}

// slowEffect is one that then waits at a gate.
func (w *world) slowEffect(name string, gate <-chan struct{}) tools.Tool {
	return tools.Tool{
		Spec: tools.Spec{Name: name, Description: "has an effect", Schema: json.RawMessage(`{"type":"object"}`), Tier: events.Irreversible},
		Run: func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			f, err := os.OpenFile(w.ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return events.Result{}, err
			}
			defer f.Close()
			if _, err := fmt.Fprintf(f, "%s %s\n", name, in.Args); err != nil {
				return events.Result{}, err
			}
			select {
			case <-gate:
			case <-ctx.Done():
				return events.Result{}, ctx.Err()
			}
			return events.Result{Status: events.Success, Text: events.Body{Text: "it was done"}}, nil
		},
	}
}

// known waits until the door has heard of a tool.
func (w *world) known(tool string) {
	until(w.t, "the door knows "+tool, func() bool { _, ok := w.door.tool(tool); return ok })
}

// turns are all turns of the log, in their order.
func (w *world) turns() []events.TurnKey {
	w.t.Helper()
	var out []events.TurnKey
	err := w.bus.Read(within(w.t), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		for _, r := range s.Commit.Records {
			if r.Event.Kind() == events.KindTurnSubmitted {
				out = append(out, s.Commit.Turn)
			}
		}
		return nil
	})
	must(w.t, err)
	return out
}

// ended is how many turns have ended, running how many run.
func (w *world) ended() (n int) {
	for _, k := range w.turns() {
		if w.turn(k).Ended() {
			n++
		}
	}
	return n
}

func (w *world) running() (n int) {
	for _, k := range w.turns() {
		if c := w.turn(k).Turn.Call(0); c != nil && c.Phase == lifecycle.PhaseStarted {
			n++
		}
	}
	return n
}

// waiting is how many requests wait for a call's end.
func (w *world) waiting() (n int) {
	w.door.mu.Lock()
	defer w.door.mu.Unlock()
	for _, e := range w.door.ears {
		n += len(e)
	}
	return n
}

// reopen puts another door in the place of the world's.
func (w *world) reopen(m making) {
	w.down()
	w.door = w.open(m)
	w.serve(gateway.APIConfig{Desk: w.desk, MCP: w.door})
}

func yes(who string) gateway.Approval {
	return gateway.Approval{By: events.Principal{ID: who, Kind: lifecycle.KindPerson}}
}

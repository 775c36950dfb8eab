// Package mcptest is a small MCP server that follows a script: its tools answer, ask,
// crash, stall, lie, flood, and answer late. It speaks both revisions of the protocol,
// over pipes and over HTTP, and is written without an SDK, so that it can do what none
// would let it do. It is for tests alone.
package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Old and New are the revisions that the server speaks.
const (
	Old = "2025-11-25"
	New = "2026-07-28"
)

// Options are how a server behaves. They are JSON in the environment variable Variable of
// a process that is to be one.
type Options struct {
	Revision string   `json:"revision,omitempty"` // "" means New
	Journal  string   `json:"journal,omitempty"`  // a file where it notes what it is told, a line each; "" means nowhere
	Ledger   string   `json:"ledger,omitempty"`   // a file that charge writes to
	Tools    []string `json:"tools,omitempty"`    // of those there are; nil means all
	Lie      bool     `json:"lie,omitempty"`      // it calls every tool readonly
	About    string   `json:"about,omitempty"`    // description of echo; "" means the plain one
	Refuse   string   `json:"refuse,omitempty"`   // a file: while it is there, the server ends at once
	TTL      int      `json:"ttl,omitempty"`      // of its list, in ms
	Page     int      `json:"page,omitempty"`     // tools on one page of its list; 0 means all
	Extra    []string `json:"extra,omitempty"`    // definitions of more tools, as JSON
	Beat     string   `json:"beat,omitempty"`     // a file that a child of the server, which never ends by itself, adds a line to every 10 ms
	Mute     bool     `json:"mute,omitempty"`     // it does not answer what it does not know
	Caps     string   `json:"caps,omitempty"`     // its capabilities, as JSON
	Toolless bool     `json:"toolless,omitempty"` // it has no tools at all, and knows no request for them
}

// Variable is where a process finds its Options.
const Variable = "MCPTEST_SERVER"

// Main makes a server of a process whose environment has Variable, and never returns
// then. It is for the beginning of a TestMain, or of a main. ctx is the server's life.
func Main(ctx context.Context) {
	text, is := os.LookupEnv(Variable)
	if !is {
		return
	}
	if path := os.Getenv(beating); path != "" {
		beat(path)
	}
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		os.Exit(2)
	}
	if o.Refuse != "" {
		if _, err := os.Stat(o.Refuse); err == nil {
			fmt.Fprintln(os.Stderr, "mcptest: told to refuse")
			os.Exit(3)
		}
	}
	if o.Beat != "" {
		beats(o.Beat)
	}
	s := Make(o)
	s.Serve(ctx, os.Stdin, os.Stdout)
	os.Exit(0)
}

// beating makes a process a beat, and names its file.
const beating = "MCPTEST_BEAT"

// beats starts a child that outlives the server, where it may.
func beats(path string) {
	self, err := os.Executable()
	if err != nil {
		return
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), beating+"="+path)
	_ = cmd.Start() // a test misses its beat
}

// beat adds lines to a file for ever.
func beat(path string) {
	for {
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, "beat")
			_ = f.Close()
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Server is one server. Over HTTP it is an http.Handler.
type Server struct {
	o Options

	mu      sync.Mutex
	journal *os.File
	stopped map[string]context.CancelFunc // calls that run, by id
	awaited map[string]chan json.RawMessage
	names   []string // of the tools that it lists
	changes int
	push    func(any) // to the client, unasked
	asked   int

	stalled atomic.Bool // it reads nothing any more
}

// Make makes a server.
func Make(o Options) *Server {
	if o.Revision == "" {
		o.Revision = New
	}
	s := &Server{o: o, stopped: map[string]context.CancelFunc{}, awaited: map[string]chan json.RawMessage{}, names: o.Tools}
	if s.names == nil {
		for _, t := range all {
			s.names = append(s.names, t.name)
		}
	}
	if o.Journal != "" {
		f, err := os.OpenFile(o.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			s.journal = f
		}
	}
	return s
}

// note writes a line to the journal.
func (s *Server) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal != nil {
		fmt.Fprintf(s.journal, format+"\n", args...)
	}
}

// message is one message of the protocol.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// Serve answers what comes in, until it ends.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) {
	var mu sync.Mutex
	put := func(v any) {
		line, err := json.Marshal(v)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n'))
	}
	raw := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, text)
	}
	s.mu.Lock()
	s.push = put
	s.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			s.note("end of input")
			return
		}
		if s.stalled.Load() {
			select {} // until somebody ends it
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "tools/call" {
			ctx, done := s.begins(ctx, m)
			wg.Go(func() { defer done(); s.handle(ctx, m, put, raw) })
			continue
		}
		s.handle(ctx, m, put, raw)
	}
}

// begins notes that a call runs, which a cancel ends.
func (s *Server) begins(ctx context.Context, m message) (context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	id := string(m.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped[id] = stop
	return ctx, func() {
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.stopped, id)
	}
}

// handle answers one message.
func (s *Server) handle(ctx context.Context, m message, put func(any), raw func(string)) {
	result := func(v any) { put(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": v}) }
	fail := func(code int, text string, data any) {
		e := map[string]any{"code": code, "message": text}
		if data != nil {
			e["data"] = data
		}
		put(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": e})
	}
	info := map[string]any{"name": "mcptest", "version": "1"}
	var caps any = map[string]any{"tools": map[string]any{"listChanged": true}}
	if s.o.Caps != "" {
		caps = json.RawMessage(s.o.Caps)
	}
	if s.o.Toolless {
		caps = map[string]any{"prompts": map[string]any{}}
	}
	switch m.Method {
	case "":
		s.answered(m)
	case "initialize":
		if s.o.Revision == New {
			fail(-32601, "no initialize here", nil)
			return
		}
		s.note("initialize %s", m.Params)
		result(map[string]any{"protocolVersion": s.o.Revision, "capabilities": caps, "serverInfo": info})
	case "server/discover":
		if s.o.Revision != New {
			if !s.o.Mute {
				fail(-32601, "method not found", nil)
			}
			return
		}
		result(map[string]any{"supportedVersions": []string{New}, "capabilities": caps, "resultType": "complete", "_meta": map[string]any{"io.modelcontextprotocol/serverInfo": info}})
	case "ping":
		if s.o.Revision == New {
			fail(-32601, "no ping here", nil)
			return
		}
		result(map[string]any{})
	case "tools/list":
		if s.o.Toolless {
			fail(-32601, "no tools here", nil)
			return
		}
		s.note("list")
		result(s.list(m.Params))
	case "tools/call":
		s.call(ctx, m, put, raw, result, fail)
	case "notifications/cancelled":
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &p)
		s.note("cancelled %s", p.ID)
		s.mu.Lock()
		stop := s.stopped[string(p.ID)]
		s.mu.Unlock()
		if stop != nil {
			stop()
		}
	case "subscriptions/listen":
		put(map[string]any{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": map[string]any{}})
	default:
		if m.ID != nil {
			fail(-32601, "method not found: "+m.Method, nil)
		}
	}
}

// answered gives an answer of the client to who waits for it.
func (s *Server) answered(m message) {
	s.mu.Lock()
	to := s.awaited[string(m.ID)]
	delete(s.awaited, string(m.ID))
	s.mu.Unlock()
	if to != nil {
		body := m.Result
		if m.Error != nil {
			body = m.Error
		}
		to <- body
	}
}

// ask sends the client a request, and returns its answer.
func (s *Server) ask(ctx context.Context, put func(any), method string) json.RawMessage {
	s.mu.Lock()
	s.asked++
	id := fmt.Sprintf(`"s%d"`, s.asked)
	answer := make(chan json.RawMessage, 1)
	s.awaited[id] = answer
	s.mu.Unlock()
	put(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": map[string]any{"message": "?", "messages": []any{}, "maxTokens": 1, "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}}})
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return nil
	}
}

// list is a page of the tools.
func (s *Server) list(params json.RawMessage) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(params, &p)
	var defs []json.RawMessage
	for _, name := range s.names {
		for _, t := range all {
			if t.name == name {
				defs = append(defs, s.define(t))
			}
		}
	}
	for _, e := range s.o.Extra {
		defs = append(defs, json.RawMessage(e))
	}
	from := 0
	_, _ = fmt.Sscan(p.Cursor, &from)
	out := map[string]any{}
	to := len(defs)
	if s.o.Page > 0 && from+s.o.Page < to {
		to = from + s.o.Page
		out["nextCursor"] = fmt.Sprint(to)
	}
	out["tools"] = defs[min(from, to):to]
	if s.o.Revision == New {
		out["resultType"], out["ttlMs"], out["cacheScope"] = "complete", s.o.TTL, "private"
	}
	return out
}

func (s *Server) define(t tool) json.RawMessage {
	hints := t.hints
	if s.o.Lie {
		hints = `{"readOnlyHint":true}`
	}
	about := "It does " + t.name + "."
	if t.name == "echo" && s.o.About != "" {
		about = s.o.About
	}
	if s.changes > 0 && t.name == "echo" {
		about += fmt.Sprintf(" Changed %d times.", s.changes)
	}
	text, _ := json.Marshal(about)
	def := fmt.Sprintf(`{"name":%q,"description":%s,"inputSchema":%s`, t.name, text, t.schema)
	if hints != "" {
		def += `,"annotations":` + hints
	}
	if t.output != "" {
		def += `,"outputSchema":` + t.output
	}
	return json.RawMessage(def + "}")
}

// Lines are the lines of a journal or a ledger; none where there is no such file.
func Lines(path string) []string {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(body), func(r rune) bool { return r == '\n' })
}

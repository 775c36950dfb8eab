package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// TestMain checks for goroutines that are left, and is the server that tests start.
func TestMain(m *testing.M) {
	mcptest.Main(context.Background())
	leaks.Main(m)
}

// patience is how long a fact may take to come that must come.
const patience = time.Minute

// world is a host with one server, and a registry.
type world struct {
	t        testing.TB
	o        mcptest.Options
	registry *tools.Registry
	host     *Host
	spec     Server
	late     chan tools.Report
	log      *journal
}

// journal is a log that tests look at.
type journal struct {
	t     testing.TB
	lines chan string
}

func (j *journal) Write(p []byte) (int, error) {
	select {
	case j.lines <- string(p):
	default:
	}
	return len(p), nil
}

// begin starts a server with its behaviour, as a process, and waits until it was tried.
func begin(t testing.TB, o mcptest.Options, edit ...func(*world, *Server, *Config)) *world {
	t.Helper()
	dir := t.TempDir()
	if o.Journal == "" {
		o.Journal = filepath.Join(dir, "journal")
	}
	if o.Ledger == "" {
		o.Ledger = filepath.Join(dir, "ledger")
	}
	w := &world{t: t, o: o, registry: &tools.Registry{}, late: make(chan tools.Report, 16), log: &journal{t, make(chan string, 10_000)}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	w.spec = Server{Name: "srv", Command: self, Env: map[string]string{mcptest.Variable: string(script), "GORACE": "atexit_sleep_ms=0"}}
	cfg := Config{Provide: w.registry.Provide, Workspace: dir, Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	cfg.Times.Relist, cfg.Times.Close = 10*time.Millisecond, 10*time.Second
	for _, e := range edit {
		e(w, &w.spec, &cfg)
	}
	w.host = NewHost(t.Context(), cfg)
	t.Cleanup(w.host.Stop)
	w.host.Apply([]Server{w.spec})
	w.tried()
	return w
}

func (w *world) tried() {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	w.host.Tried(ctx)
	if ctx.Err() != nil {
		w.t.Fatalf("the server was not tried: %+v", w.host.Status())
	}
}

// tool is a registered tool.
func (w *world) tool(name string) tools.Tool {
	w.t.Helper()
	tool, ok := w.registry.Lookup("srv__" + name)
	if !ok {
		w.t.Fatalf("no tool %s: %+v", name, w.host.Status())
	}
	return tool
}

// call makes one attempt.
func (w *world) call(name, args string, edit ...func(*tools.Invocation)) tools.Report {
	w.t.Helper()
	return w.callWithin(w.t.Context(), name, args, edit...)
}

func (w *world) callWithin(ctx context.Context, name, args string, edit ...func(*tools.Invocation)) tools.Report {
	w.t.Helper()
	return w.run(ctx, w.tool(name), args, edit...)
}

func (w *world) run(ctx context.Context, tool tools.Tool, args string, edit ...func(*tools.Invocation)) tools.Report {
	in := tools.Invocation{Call: events.TurnKey{Trace: "t", Turn: "u"}.Call(0), Attempt: 1, Tool: tool.Name, Args: json.RawMessage(args)}
	for _, e := range edit {
		e(&in)
	}
	return tools.Execute(ctx, tool, in, tools.Options{
		Late: func(r tools.Report) { w.late <- r },
		Keep: func(data []byte, media string) (events.BlobRef, error) {
			return events.BlobRef{Digest: fmt.Sprintf("keeps %x", data), Size: int64(len(data)), Media: media}, nil
		},
	})
}

// until waits for a fact.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(5 * time.Millisecond); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come: %s", what)
		}
		<-tick.C
	}
}

// noted says how many lines of the journal begin so.
func (w *world) noted(prefix string) int {
	n := 0
	for _, line := range mcptest.Lines(w.o.Journal) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func (w *world) names() (out []string) {
	for _, tool := range w.registry.List() {
		out = append(out, tool.Name)
	}
	return out
}

func (w *world) state() Status { return w.host.Status()[0] }

// both runs a test in each revision.
func both(t *testing.T, test func(t *testing.T, revision string)) {
	for _, r := range []string{mcptest.Old, mcptest.New} {
		t.Run(r, func(t *testing.T) { test(t, r) })
	}
}

func tierOf(tier events.Tier) func(*world, *Server, *Config) {
	return func(_ *world, s *Server, _ *Config) { s.Tiers = map[string]events.Tier{"*": tier} }
}

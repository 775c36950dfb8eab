// Command mcp measures what Sluice adds to a call of an MCP server: the same server is
// called directly and through a node, by turns, by one client program on one machine. It
// prints a table for docs/benchmarks.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	node      = flag.String("node", "bin/sluice-node", "the program that is measured")
	pairs     = flag.Int("pairs", 1500, "pairs of calls of each row")
	modes     = flag.String("modes", "barrier always interval=1s", "sync modes, separated by blanks")
	revisions = flag.String("revisions", "2025-11-25 2026-07-28", "revisions of the protocol, separated by blanks")
	calls     = flag.String("calls", "read act", "kinds of calls, separated by blanks")
	profile   = flag.String("profile", "", "keep the node's data and log here, for a look at what it did")
	serve     = flag.String("serve-upstream", "", "be the server that is called, at this address; the program starts itself so")
)

func main() {
	flag.Parse()
	run := bench
	if *serve != "" {
		run = upstream
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "bench: error: %v\n", err)
		os.Exit(1)
	}
}

type in struct {
	V string `json:"v" jsonschema:"comes back"`
}

// upstream is the server: a tool that reads and one that acts, both of which do nothing.
func upstream(context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
	say := func(_ context.Context, _ *mcp.CallToolRequest, v in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: v.V}}}, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "read", Description: "reads", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, say)
	mcp.AddTool(s, &mcp.Tool{Name: "act", Description: "acts"}, say)
	get := func(*http.Request) *mcp.Server { return s }
	kept, brief := mcp.NewStreamableHTTPHandler(get, nil), mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	l, err := net.Listen("tcp", *serve)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return (&http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			brief.ServeHTTP(w, r)
			return
		}
		kept.ServeHTTP(w, r)
	})}).Serve(l)
}

// started is a program that says in its first line where it is.
type started struct {
	cmd  *exec.Cmd
	line string
}

func start(log *os.File, name string, args ...string) (*started, error) {
	s := &started{cmd: exec.Command(name, args...)}
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	s.line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s says nothing: %w", name, err), s.stop())
	}
	return s, nil
}

func (s *started) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait() // a signal is how it ends
	return nil
}

func bench(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	up, err := start(os.Stderr, self, "-serve-upstream", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = up.stop() }()
	direct := "http://" + strings.TrimSpace(up.line) + "/mcp"
	fmt.Printf("| sync | revision | call | direct p50 | p99 | through Sluice p50 | p99 | added p50 | p99 |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, mode := range strings.Fields(*modes) {
		if err := withNode(ctx, mode, direct); err != nil {
			return fmt.Errorf("sync %s: %w", mode, err)
		}
	}
	return nil
}

// withNode measures one sync mode.
func withNode(ctx context.Context, mode, direct string) error {
	dir := *profile
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "bench-mcp-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"up": map[string]any{
		"type": "http", "url": direct, "tiers": map[string]string{"read": "readonly", "act": "irreversible"},
	}}})
	if err != nil {
		return err
	}
	file, work := filepath.Join(dir, "servers.json"), filepath.Join(dir, "work")
	if err := errors.Join(os.WriteFile(file, servers, 0o600), os.MkdirAll(work, 0o700)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "node.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	n, err := start(log, *node, "serve", "--json", "--data", filepath.Join(dir, "data-"+mode), "--workspace", work, "--http", "127.0.0.1:0",
		"--sync", mode, "--mcp-servers", file, "--log-level", "warn", "--fixtures")
	if err != nil {
		return err
	}
	defer func() {
		_ = n.stop()
		used, calls := n.cmd.ProcessState.UserTime()+n.cmd.ProcessState.SystemTime(), len(strings.Fields(*revisions))*len(strings.Fields(*calls))*(*pairs+*pairs/10)
		fmt.Fprintf(os.Stderr, "sync %s: the node used %.2f ms of processor time a call, its start included\n", mode, float64(used.Microseconds())/1000/float64(calls))
	}()
	var greeting struct{ HTTP string }
	if err := json.Unmarshal([]byte(n.line), &greeting); err != nil {
		return err
	}
	for _, revision := range strings.Fields(*revisions) {
		for _, tool := range strings.Fields(*calls) {
			if err := compare(ctx, mode, revision, tool, direct, greeting.HTTP+"/mcp"); err != nil {
				return fmt.Errorf("%s, %s: %w", revision, tool, err)
			}
		}
	}
	return nil
}

// session is a client's session with one server.
func session(ctx context.Context, at, revision string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: at}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
}

// compare measures one row: pairs of a direct call and one through Sluice, in changing
// order, after some that do not count.
func compare(ctx context.Context, mode, revision, tool, direct, through string) error {
	a, err := session(ctx, direct, revision)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := session(ctx, through, revision)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := ready(ctx, b, "up__"+tool); err != nil {
		return err
	}
	var ta, tb, added []time.Duration
	for i := range *pairs + *pairs/10 {
		args := map[string]any{"v": fmt.Sprintf("%s %d", revision, i)}
		one := func() (time.Duration, error) { return timed(ctx, a, tool, args) }
		two := func() (time.Duration, error) { return timed(ctx, b, "up__"+tool, args) }
		var x, y time.Duration
		if i%2 == 0 {
			x, err = one()
			if err == nil {
				y, err = two()
			}
		} else {
			y, err = two()
			if err == nil {
				x, err = one()
			}
		}
		if err != nil {
			return err
		}
		if i >= *pairs/10 {
			ta, tb, added = append(ta, x), append(tb, y), append(added, y-x)
		}
	}
	kind := map[string]string{"read": "readonly", "act": "irreversible"}[tool]
	fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", mode, revision, kind, at(ta, 50), at(ta, 99), at(tb, 50), at(tb, 99), at(added, 50), at(added, 99))
	return nil
}

// ready waits until the node has the tool.
func ready(ctx context.Context, s *mcp.ClientSession, tool string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 400 {
		list, err := s.ListTools(ctx, nil)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == tool }) {
			return nil
		}
		<-tick.C
	}
	return fmt.Errorf("the node does not get %s", tool)
}

// timed is how long one call takes.
func timed(ctx context.Context, s *mcp.ClientSession, tool string, args map[string]any) (time.Duration, error) {
	begin := time.Now()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	took := time.Since(begin)
	if err == nil && r.IsError {
		text, merr := json.Marshal(r.Content)
		err = errors.Join(fmt.Errorf("%s: %s", tool, text), merr)
	}
	return took, err
}

// at is a percentile in milliseconds.
func at(d []time.Duration, percent int) string {
	d = slices.Sorted(slices.Values(d))
	return fmt.Sprintf("%.2f ms", float64(d[min(len(d)-1, len(d)*percent/100)].Microseconds())/1000)
}

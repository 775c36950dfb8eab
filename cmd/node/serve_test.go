package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// verb is one run of the command in this process.
type verb struct {
	t     *testing.T
	lines *bufio.Scanner
	out   *io.PipeReader
	err   bytes.Buffer
	stop  context.CancelFunc
	code  int
	wg    sync.WaitGroup
}

// start runs a verb until it ends or stop is called.
func start(t *testing.T, args ...string) *verb {
	t.Helper()
	return startWith(t, strings.NewReader(""), args...)
}

// startWith is start for a verb that reads.
func startWith(t *testing.T, in io.Reader, args ...string) *verb {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	v := &verb{t: t, lines: bufio.NewScanner(r), out: r, stop: cancel}
	v.lines.Buffer(nil, 1<<20)
	v.wg.Go(func() {
		v.code = run(ctx, args, in, w, &v.err)
		_ = w.Close()
	})
	t.Cleanup(func() { v.end() })
	return v
}

// end stops the verb and returns its exit code.
func (v *verb) end() int {
	v.stop()
	_, _ = io.Copy(io.Discard, v.out)
	v.wg.Wait()
	return v.code
}

// until reads lines up to one that holds the part, and returns it.
func (v *verb) until(part string) string {
	v.t.Helper()
	for v.lines.Scan() {
		if strings.Contains(v.lines.Text(), part) {
			return v.lines.Text()
		}
	}
	v.stop()
	v.wg.Wait()
	v.t.Fatalf("no line with %q; exit %d\n%s", part, v.code, v.err.String())
	return ""
}

// node starts a node and returns what it says when it is ready.
func startNode(t *testing.T, args ...string) (v *verb, dir string, ready map[string]any) {
	t.Helper()
	dir = t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	v = start(t, append([]string{"serve", "--json", "--data", filepath.Join(dir, "data"), "--workspace", work, "--http", "127.0.0.1:0", "--fixtures"}, args...)...)
	if err := json.Unmarshal([]byte(v.until(`"event":"ready"`)), &ready); err != nil {
		t.Fatal(err)
	}
	return v, dir, ready
}

// serveAgain starts a node where startNode had started one.
func serveAgain(t *testing.T, dir string) (ready map[string]any) {
	t.Helper()
	v := start(t, "serve", "--json", "--data", filepath.Join(dir, "data"), "--workspace", filepath.Join(dir, "work"), "--http", "127.0.0.1:0", "--fixtures")
	if err := json.Unmarshal([]byte(v.until(`"event":"ready"`)), &ready); err != nil {
		t.Fatal(err)
	}
	return ready
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// post submits a turn over HTTP, and returns the answer.
func post(t *testing.T, at any, body string) string {
	t.Helper()
	resp, err := http.Post(at.(string)+"/v1/turns", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s: %s, %v", resp.Status, out, err)
	}
	return string(out)
}

// TestAnAgentIsAnsweredAtTheStreams, and nothing else is said there.
func TestAnAgentIsAnsweredAtTheStreams(t *testing.T) {
	dir := t.TempDir()
	in, says := io.Pipe()
	v := startWith(t, in, "mcp", "--data", filepath.Join(dir, "data"), "--workspace", dir, "--fixtures")
	for _, c := range []struct{ says, part string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, `"serverInfo":{"name":"sluice"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"name":"echo"`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"v":42}}}`, `"text":"42"`},
	} {
		if _, err := io.WriteString(says, c.says+"\n"); err != nil {
			t.Fatal(err)
		}
		for { // a line of its own is each message
			if !v.lines.Scan() || !json.Valid(v.lines.Bytes()) {
				said := v.lines.Text()
				v.end()
				t.Fatalf("it says %q: %s", said, v.err.String())
			}
			if strings.Contains(v.lines.Text(), c.part) {
				break
			}
		}
	}
	_ = says.Close()
	_, _ = io.Copy(io.Discard, v.out)
	v.wg.Wait()
	if v.code != 0 {
		t.Errorf("exit %d: %s", v.code, v.err.String())
	}
}

func TestTailFollowsFromAnotherProcess(t *testing.T) {
	n, dir, ready := startNode(t)
	tail := start(t, "tail", "--data", filepath.Join(dir, "data"), "--from", "start", "--kind", "completed", "--json")
	for _, v := range []string{"one", "two"} {
		post(t, ready["http"], `{"wait_ms":20000,"calls":[{"tool":"echo","args":{"v":"`+v+`"}}]}`)
		line := tail.until(`"type":"run.sluice.completed.v1"`)
		if !strings.Contains(line, v) || !strings.Contains(line, `"tool":"echo"`) {
			t.Errorf("%s: %s", v, line)
		}
	}
	if code := tail.end(); code != 0 {
		t.Errorf("tail: %d, %s", code, tail.err.String())
	}
	if code := n.end(); code != 0 {
		t.Errorf("serve: %d, %s", code, n.err.String())
	}
}

func TestTailEndsWithItsReader(t *testing.T) {
	n, dir, ready := startNode(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	var errw bytes.Buffer
	go func() {
		done <- run(t.Context(), []string{"tail", "--data", filepath.Join(dir, "data"), "--from", "start"}, strings.NewReader(""), w, &errw)
		_ = w.Close()
	}()
	const echo = `{"wait_ms":20000,"calls":[{"tool":"echo","args":{"v":1}}]}`
	post(t, ready["http"], echo)
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || !strings.Contains(line, "turn_submitted") {
		t.Errorf("%q, %v", line, err)
	}
	_ = r.Close()
	post(t, ready["http"], echo)
	if code := <-done; code != 0 || errw.Len() > 0 {
		t.Errorf("%d, %s", code, errw.String())
	}
	n.end()
}

func TestEverySyncModeServes(t *testing.T) {
	for _, mode := range []string{"barrier", "always", "interval=50ms"} {
		n, dir, ready := startNode(t, "--sync", mode)
		if ready["sync"] != mode {
			t.Errorf("%s: %v", mode, ready["sync"])
		}
		post(t, ready["http"], `{"wait_ms":20000,"calls":[{"tool":"echo","args":{"v":1}}]}`)
		var out, errw bytes.Buffer
		args := []string{"submit", "--json", "--data", filepath.Join(dir, "data"), "-"}
		if code := run(t.Context(), args, strings.NewReader(`[{"tool":"echo","args":{"v":2}}]`), &out, &errw); code != 0 {
			t.Errorf("%s: %d, %s", mode, code, errw.String())
		}
		if code := n.end(); code != 0 {
			t.Errorf("%s: %d, %s", mode, code, n.err.String())
		}
	}
}

func TestAPlainNATSClientHearsCompletions(t *testing.T) {
	n, _, ready := startNode(t, "--listen-nats", "127.0.0.1:0")
	nc, err := nats.Connect(ready["nats"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	heard := make(chan *nats.Msg, 8)
	if _, err := nc.ChanSubscribe("sluice.live.completed.>", heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	post(t, ready["http"], `{"trace":"tr","turn":"tu","wait_ms":20000,"calls":[{"tool":"echo","args":{"v":1}}]}`)
	m := <-heard
	var ce struct{ SpecVersion, Type, Subject, Tool string }
	if err := json.Unmarshal(m.Data, &ce); err != nil || ce.SpecVersion != "1.0" || ce.Subject != "tr/tu/0" || m.Subject != "sluice.live.completed.echo.tr.tu.0" {
		t.Errorf("%s: %s, %v", m.Subject, m.Data, err)
	}
	n.end()
}

func TestADrainingNodeGivesItsTurnsToTheNextStart(t *testing.T) {
	n, dir, ready := startNode(t, "--drain", "50ms")
	post(t, ready["http"], `{"trace":"tr","turn":"tu","calls":[{"tool":"deaf_sleep","args":{"ms":300}},{"tool":"echo","args":{"v":1}}]}`)
	tail := start(t, "tail", "--data", filepath.Join(dir, "data"), "--from", "start", "--kind", "started")
	tail.until("deaf_sleep")
	tail.end()
	if code := n.end(); code != 0 {
		t.Errorf("serve: %d, %s", code, n.err.String())
	}
	var out, errw bytes.Buffer
	in := `[{"tool":"deaf_sleep","args":{"ms":300}},{"tool":"echo","args":{"v":1}}]`
	args := []string{"submit", "--data", filepath.Join(dir, "data"), "--workspace", filepath.Join(dir, "work"), "--fixtures", "--trace", "tr", "--turn", "tu", "-"}
	if code := run(t.Context(), args, strings.NewReader(in), &out, &errw); code != 0 || strings.Count(out.String(), `"answer":"success"`) != 2 {
		t.Errorf("%d, %s, %s", code, out.String(), errw.String())
	}
}

package npm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/test/model"
	"github.com/sluice-run/sluice/test/npm"
	"github.com/sluice-run/sluice/test/ports"
	"github.com/sluice-run/sluice/test/proc"
)

// patience is how long anything may take that has to come about by itself.
const patience = 2 * time.Minute

// bin is the folder of the programs under test.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-npm-")
	if err == nil {
		bin = dir
		defer os.RemoveAll(dir)
		err = build("sluice-node", "../../cmd/node", "agent", "../../examples/go")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return leaks.Run(m)
}

// build makes bin/NAME of each folder, without the race detector: what runs here is to be
// as quick as it is.
func build(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, pairs[i]), pairs[i+1])
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pairs[i+1], err, out)
		}
	}
	return nil
}

// clean is an environment without settings of the developer's own.
func clean(more ...string) []string {
	var out []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		own := strings.HasPrefix(name, "SLUICE_") || strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "ANTHROPIC_") ||
			strings.HasPrefix(name, "GOOGLE_") || strings.HasPrefix(name, "GEMINI_") || name == "MODEL" || strings.HasSuffix(strings.ToLower(name), "_proxy")
		if !own {
			out = append(out, e)
		}
	}
	return append(out, more...)
}

// house is a node with its own folders, which can be killed and started again.
type house struct {
	*client.Client
	t           *testing.T
	dir, url    string
	work, books string        // workspace, and ledger of the fixtures
	node        *proc.Program // nil while it does not run
	log         proc.Text
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, url: "http://" + ports.Loopback(free[0]), work: filepath.Join(dir, "work"), books: filepath.Join(dir, "ledger.jsonl")}
	if err := os.Mkdir(h.work, 0o755); err != nil {
		t.Fatal(err)
	}
	if h.Client, err = client.New(h.url, client.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Client.Close()
		h.kill()
		if t.Failed() {
			said := h.log.String()
			t.Logf("the node's log:\n%s", said[max(0, len(said)-6000):])
		}
	})
	h.start()
	return h
}

// start starts the node, and returns once it is ready.
func (h *house) start() {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "sluice-node"), "serve", "--json", "--data", filepath.Join(h.dir, "data"), "--workspace", h.work,
		"--ledger", h.books, "--fixtures", "--http", strings.TrimPrefix(h.url, "http://"), "--listen-nats", "none")
	cmd.Env, cmd.Stderr = clean(), &h.log
	out, err := cmd.StdoutPipe()
	if err == nil {
		h.node, err = proc.Start(cmd)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, `"ready"`) {
		h.t.Fatalf("the node does not get ready: %q, %v\n%s", line, err, h.log.String())
	}
}

// kill ends the node as a crash would, and waits until it is gone.
func (h *house) kill() {
	if h.node != nil {
		h.node.Kill()
		h.node = nil
	}
}

func (h *house) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.work, name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// ledger is what the tools with effects have done, a line for each time.
func (h *house) ledger() string {
	raw, err := os.ReadFile(h.books)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return string(raw)
}

// agent is a program that asks the model and has its calls run by the node.
type agent struct {
	name string   // of the test
	api  string   // path of the model's API, as it is asked
	cmd  []string // the program, and its arguments
	dir  string
	ids  bool // its provider's ids are unique, and calls have them
}

// begin starts the agent with a question; what it says comes from the function that is returned,
// which waits for its end.
func (h *house) begin(t *testing.T, a agent, m *model.Server, trace string, more ...string) (wait func() string) {
	t.Helper()
	end := h.launch(t, a, m, trace, more...)
	return func() string {
		t.Helper()
		said, err := end()
		if err != nil {
			for _, r := range m.Requests() {
				if r.Error != "" {
					t.Logf("the model refused %s: %s", r.Path, r.Error)
				}
			}
			t.Fatalf("the agent ends with %v:\n%s", err, said)
		}
		return said
	}
}

// launch is begin for an agent that may fail.
func (h *house) launch(t *testing.T, a agent, m *model.Server, trace string, more ...string) (wait func() (string, error)) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	args := append(append(a.cmd[1:len(a.cmd):len(a.cmd)], "--trace", trace), append(more, "Go on about "+trace+".")...)
	cmd := exec.CommandContext(ctx, a.cmd[0], args...)
	cmd.Dir = a.dir
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = clean("SLUICE_URL="+h.url, "OPENAI_BASE_URL="+m.URL+"/v1", "OPENAI_API_KEY=none", "ANTHROPIC_BASE_URL="+m.URL, "ANTHROPIC_API_KEY=none",
		"GOOGLE_GEMINI_BASE_URL="+m.URL, "GEMINI_API_KEY=none", "MODEL=scripted")
	var said proc.Text
	cmd.Stdout, cmd.Stderr = &said, &said
	run, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return func() (string, error) {
		err := run.Wait()
		return said.String(), err
	}
}

// newest are releases of the SDKs that need a newer Node.js than the examples do.
var newest = map[string][]string{
	"openai-sdk":    {"openai@7.59.0"},
	"anthropic-sdk": {"@anthropic-ai/sdk@1.14.0"},
	"gemini-sdk":    {"@google/genai@3.3.0"},
	"vercel-ai":     {"ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92"},
}

// agents are the examples in Node.js: with the packages that their folders name or, by the name
// of the folder, with others.
func agents(t *testing.T, node string, packages map[string][]string) []agent {
	t.Helper()
	examples := filepath.Join("..", "..", "examples")
	beside := []string{filepath.Join(examples, "sluice.js"), filepath.Join(examples, "agent.js")}
	program := func(name, folder, file, api string, ids bool) agent {
		dir := npm.Place(t, filepath.Join(examples, folder), beside, packages[folder]...)
		return agent{name: name, api: api, cmd: []string{node, file}, dir: dir, ids: ids}
	}
	return []agent{
		program("openai chat", "openai-sdk", "chat.js", "/v1/chat/completions", false),
		program("openai responses", "openai-sdk", "responses.js", "/v1/responses", true),
		program("anthropic", "anthropic-sdk", "agent.js", "/v1/messages", true),
		program("gemini", "gemini-sdk", "agent.js", "/models/scripted", true),
		program("vercel ai", "vercel-ai", "agent.js", "/v1/chat/completions", false),
	}
}

// goAgent is the example in Go.
func goAgent(t *testing.T) agent {
	return agent{name: "go", api: "/v1/chat/completions", cmd: []string{filepath.Join(bin, "agent")}, dir: t.TempDir()}
}

// pythonAgent is the example in Python, which needs no packages.
func pythonAgent(t *testing.T) agent {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, and with it the example in Python: no Python 3.9 or newer here: %v %s", err, out)
	}
	file, err := filepath.Abs(filepath.Join("..", "..", "examples", "python", "agent.py"))
	if err != nil {
		t.Fatal(err)
	}
	return agent{name: "python", api: "/v1/chat/completions", cmd: []string{"python3", "-B", file}, dir: t.TempDir()}
}

// answersOf are the answers that stand in what a model was sent, whatever its form, in order:
// every JSON object of ours among its texts.
func answersOf(messages []json.RawMessage) []answer {
	var out []answer
	for _, raw := range messages {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			find(v, &out)
		}
	}
	return out
}

// answer is the content of an answer to a call.
type answer struct {
	Status, Text string
	Data         json.RawMessage
	Error        *struct{ Code, Message string }
}

// code is the answer in a word: its status, and the code where there is one.
func (a answer) code() string {
	if a.Error != nil {
		return a.Status + " " + a.Error.Code
	}
	return a.Status
}

func find(v any, out *[]answer) {
	switch v := v.(type) {
	case string:
		var a answer
		if strings.HasPrefix(v, `{"status":`) && json.Unmarshal([]byte(v), &a) == nil {
			*out = append(*out, a)
		}
	case []any:
		for _, e := range v {
			find(e, out)
		}
	case map[string]any:
		for _, name := range []string{"content", "output", "parts", "functionResponse", "response", "error"} {
			find(v[name], out)
		}
	}
}

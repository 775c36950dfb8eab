package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ephemeral is what is another each time.
var ephemeral = []struct{ is, shown string }{
	{`open for .*`, "open for …"}, {`(?m)^(  expires  ).*`, "$1…"}, {`(?m)^(asked       ).*`, "$1…"}, {`cedar-[0-9a-f]{12}`, "cedar-…"},
}

// TestApprovalsDocument: the commands of docs/approvals.md say what it says.
func TestApprovalsDocument(t *testing.T) {
	t.Parallel()
	document(t, "approvals.md", ask("2"), "approve")
}

// TestInputsDocument: the commands of docs/inputs.md say what it says.
func TestInputsDocument(t *testing.T) {
	t.Parallel()
	document(t, "inputs.md", call{Tool: "ask", Args: args{"message": "Who signs?", "fields": []string{"name", "size:s|l", "pin:password?"}}}, "answer")
}

// document runs the commands of the first console of a document, while a call waits for
// a person that the verb answers.
func document(t *testing.T, name string, waits call, answers string) {
	t.Helper()
	body, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	_, console, _ := strings.Cut(string(body), "```console\n")
	console, _, _ = strings.Cut(console, "```")
	p := newPlace(t)
	n := p.serve()
	n.submit(turn{Trace: "demo", Turn: "t1", CanAsk: true, Calls: []call{waits}})
	n.inbox("demo", 1)
	commands := strings.Split("\n"+console, "\n$ sluice-node ")[1:]
	for _, one := range commands {
		line, want, _ := strings.Cut(one, "\n")
		var words []string
		for i, part := range strings.Split(strings.ReplaceAll(line, "--data data", "--data "+p.data), "'") {
			if i%2 == 1 {
				words = append(words, part)
				continue
			}
			words = append(words, strings.Fields(part)...)
		}
		s := verb(t, "", words...)
		got := s.out + s.err
		for _, e := range ephemeral {
			got = regexp.MustCompile(e.is).ReplaceAllString(got, e.shown)
		}
		if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
			t.Errorf("$ sluice-node %s\n(- the document, + what it is)\n%s", line, diff)
		}
		if strings.HasPrefix(line, answers) && s.code == 0 {
			n.end("demo", "t1")
		}
	}
	if len(commands) < 4 {
		t.Errorf("only %d commands were found in the document", len(commands))
	}
}

// TestTheInboxIsFollowed: what waits already, what is asked, and how it is answered, each
// once, over the death of the node, too.
func TestTheInboxIsFollowed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	n.submit(turn{Trace: "f", Turn: "a", CanAsk: true, Calls: []call{ask(1)}})
	n.inbox("f", 1)
	w := launch(t, nil, true, filepath.Join(bin, "sluice-node"), "inbox", "--follow", "--json", "--data", p.data)
	lines := bufio.NewScanner(w.out)
	lines.Buffer(nil, 1<<20)
	want := func(id, state string) {
		t.Helper()
		var got page
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || got.ID != id || got.State != state {
			t.Fatalf("followed %s, want %s %s", lines.Text(), id, state)
		}
	}
	want("f/a/0@1", "open")
	n.submit(turn{Trace: "f", Turn: "b", CanAsk: true, Calls: []call{{Tool: "echo", Args: args{"v": 1}}, ask(2)}})
	want("f/b/1@1", "open")
	n.post("/v1/turns/f/a/calls/0/approve", args{"principal": "ann"})
	want("f/a/0@1", "approved")
	n.kill()
	n = p.serve()
	n.post("/v1/turns/f/b/calls/1/deny", args{"principal": "ann"})
	want("f/b/1@1", "denied")
	n.submit(turn{Trace: "f", Turn: "c", CanAsk: true, Calls: []call{ask(3)}})
	want("f/c/0@1", "open")
	n.post("/v1/turns/f/c/cancel", nil)
	want("f/c/0@1", "withdrawn")
	w.signal(syscall.SIGINT)
	if code := w.wait(t); code != 0 {
		t.Errorf("exit %d", code)
	}
}

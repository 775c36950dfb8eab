package e2e

import (
	"os"
	"regexp"
	"strings"
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
	body, err := os.ReadFile("../../docs/approvals.md")
	if err != nil {
		t.Fatal(err)
	}
	_, console, _ := strings.Cut(string(body), "```console\n")
	console, _, _ = strings.Cut(console, "```")
	p := newPlace(t)
	n := p.serve()
	n.submit(turn{Trace: "demo", Turn: "t1", CanAsk: true, Calls: []call{ask("2")}})
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
		if strings.HasPrefix(line, "approve") && s.code == 0 {
			n.end("demo", "t1")
		}
	}
	if len(commands) < 5 {
		t.Errorf("only %d commands were found in the document", len(commands))
	}
}

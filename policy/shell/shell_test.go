package shell

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// example is one line of the table in testdata.
type example struct {
	decision Decision
	rule     string
	line     string
	row      int
}

// table reads policy/testdata/shell.txt.
func table(t testing.TB) []example {
	t.Helper()
	raw, err := os.ReadFile("../testdata/shell.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for i, row := range strings.Split(string(raw), "\n") {
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		parts := strings.SplitN(row, " | ", 3)
		if len(parts) != 3 {
			t.Fatalf("shell.txt:%d: want decision | rule | line", i+1)
		}
		line := parts[2]
		if len(line) > 1 && line[0] == '"' && line[len(line)-1] == '"' {
			if unquoted, err := strconv.Unquote(line); err == nil {
				line = unquoted
			}
		}
		out = append(out, example{Decision(parts[0]), parts[1], line, i + 1})
	}
	return out
}

func TestTable(t *testing.T) {
	examples := table(t)
	if len(examples) < 200 {
		t.Errorf("%d examples, want 200", len(examples))
	}
	for _, e := range examples {
		a := Classify(e.line)
		if a.Decision != e.decision || !slices.Contains(a.Policies, e.rule) {
			t.Errorf("shell.txt:%d: %q is %s by %v, want %s by %s", e.row, e.line, a.Decision, a.Policies, e.decision, e.rule)
		}
		if a.Reads != (a.Decision == Allow) {
			t.Errorf("shell.txt:%d: reads is %t, decision %s", e.row, a.Reads, a.Decision)
		}
		if !oneSentence(a.Reason) {
			t.Errorf("shell.txt:%d: %q is not one sentence", e.row, a.Reason)
		}
	}
}

// Every rule has an example that it decides, as strictly as it says.
func TestEveryRuleHasAnExample(t *testing.T) {
	decided := map[string]Decision{}
	for _, e := range table(t) {
		decided[e.rule] = e.decision
	}
	ids := map[string]bool{}
	for _, r := range rules {
		if ids[r.ID] {
			t.Errorf("%s stands twice", r.ID)
		}
		ids[r.ID] = true
		if decided[r.ID] != r.Says {
			t.Errorf("%s says %s: no such line in shell.txt", r.ID, r.Says)
		}
		if !oneSentence(r.sentence("what. Who? \x1b[2K")) {
			t.Errorf("%s: %q is not one sentence", r.ID, r.Why)
		}
	}
	for id := range decided {
		if !ids[id] {
			t.Errorf("shell.txt names %s, which is no rule", id)
		}
	}
}

var sentenceEnd = regexp.MustCompile(`[.!?](\s|$)`)

func oneSentence(s string) bool {
	return len(sentenceEnd.FindAllString(s, -1)) == 1 && strings.HasSuffix(s, ".") && !strings.ContainsAny(s, "\n\x1b")
}

// The words of a command that is not understood as reading may all be names of files.
func TestNames(t *testing.T) {
	for line, want := range map[string][]string{
		"cat a | grep b c":               nil,
		"rm -rf a 'b c'":                 {"a", "b c"},
		"cp --target-directory=d a":      {"a", "d"},
		"dd if=a of=b":                   {"a", "b", "if=a", "of=b"},
		"cat --odd a":                    {"a"},
		"cat a; sed -i s/x/y/ b":         {"b", "s/x/y/"},
		"timeout 5 frob x=y":             {"5", "frob", "x=y", "y"},
		"curl https://example.com/ -o a": {"a"},
		"frob *.go":                      nil,
	} {
		a := Classify(line)
		if !slices.Equal(a.Names, want) {
			t.Errorf("%q: %q, want %q", line, a.Names, want)
		}
	}
}

// Every finding is there once, in the order of the line, and the decision is the
// strictest of them.
func TestFindings(t *testing.T) {
	a := Scope{Network: true}.Classify("mv a b; rm c; mv d e; curl https://example.com/")
	var got []string
	for _, f := range a.Findings {
		got = append(got, f.Rule+" "+string(f.Decision))
	}
	if want := []string{"shell.move-copy ask", "shell.remove deny", "shell.network ask"}; !slices.Equal(got, want) || a.Decision != Deny || a.Reason != a.Findings[1].Reason {
		t.Errorf("%q, want %q: %+v", got, want, a)
	}
	for _, r := range Rules() {
		if r.Rule == "" || r.Decision == "" || r.Reason == "" {
			t.Errorf("%+v", r)
		}
	}
	if n := len(Rules()); n != len(rules) {
		t.Errorf("%d rules of %d", n, len(rules))
	}
}

package shell

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the generated parts of docs/shell.md anew")

// page is the documentation, a part of which is made of the tables.
const page = "../../docs/shell.md"

// The documentation says what the tables say.
func TestDocumentation(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(raw)
	for name, part := range map[string]string{
		"commands": commandsTable(), "git": gitTable(), "rules": rulesTable(), "transcript": transcriptTable(t), "examples": examplesTable(t), "find": wordsOf(findTests),
		"environment": environmentTable(), "tests": wordsOf(testOperators), "wrappers": wrappersTable(),
	} {
		from, to := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->"
		head, rest, ok := strings.Cut(want, from)
		_, tail, ok2 := strings.Cut(rest, to)
		if !ok || !ok2 {
			t.Fatalf("%s has no part %s", page, name)
		}
		want = head + from + "\n" + part + "\n" + to + tail
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(raw) {
		t.Errorf("%s differs from the tables: run go test ./policy/shell -run Documentation -rewrite, and explain the difference", page)
	}
}

// cell is a text in a table of Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", "⏎", "<", "&lt;").Replace(s)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "|", "\\|") + "`"
}

// notation is how a set of flags is written in the tables.
func (s flagSet) notation() string {
	var plain, with []string
	for _, f := range slices.Sorted(maps.Keys(s.short)) {
		if mark := marks[s.short[f]]; mark == "" {
			plain = append(plain, string(f))
		} else {
			with = append(with, "-"+string(f)+mark)
		}
	}
	if s.number {
		plain = append(plain, "#")
	}
	var out []string
	if len(plain) > 0 {
		out = append(out, "-"+strings.Join(plain, ""))
	}
	out = append(out, with...)
	for _, f := range slices.Sorted(maps.Keys(s.long)) {
		if f != "help" && f != "version" {
			out = append(out, "--"+f+marks[s.long[f]])
		}
	}
	return strings.Join(out, " ")
}

var (
	marks = map[takes]string{value: ":", pathname: "@", optional: "=", pair: "%"}
	kinds = map[operands]string{
		paths: "files", text: "texts", none: "none", one: "one file, behind all flags", pattern: "a pattern, then files", program: "a program, then files",
	}
)

func commandsTable() string {
	var b strings.Builder
	b.WriteString("| command | operands | flags |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		r := readers[name]
		if r.flags.short == nil {
			continue // described in the text
		}
		notes := kinds[r.operands]
		if r.loose {
			notes += "; no flag does harm"
		}
		if r.flags.apart {
			notes += "; each flag by itself"
		}
		if r.follows != nil {
			notes += "; follows links with " + strings.Join(r.follows, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, notes, code(r.flags.notation()))
	}
	return b.String()
}

func gitTable() string {
	var b strings.Builder
	b.WriteString("| subcommand | first word | flags |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(gitCommands)) {
		g := gitCommands[name]
		verbs := strings.Join(slices.Sorted(maps.Keys(g.verbs)), ", ")
		if g.bare {
			verbs += ", or flags alone"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, verbs, code(g.flags.notation()))
	}
	return b.String()
}

func wrappersTable() string {
	var b strings.Builder
	b.WriteString("| wrapper | flags | a line with it |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(wrappers)) {
		what := "is asked about"
		if wrappers[name].same {
			what = "is judged by the command behind it"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, code(wrappers[name].flags.notation()), what)
	}
	return b.String()
}

func rulesTable() string {
	var b strings.Builder
	b.WriteString("| rule | says | its sentence |\n|---|---|---|\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.ID, r.Says, cell(strings.Replace(r.Why, "%s", "…", 1)))
	}
	return b.String()
}

func examplesTable(t *testing.T) string {
	by, total := map[string]int{}, 0
	for _, e := range table(t) {
		by[e.rule]++
		total++
	}
	var b strings.Builder
	b.WriteString("| rule | examples |\n|---|---|\n")
	for _, r := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", r, by[r])
	}
	fmt.Fprintf(&b, "| all | %d |\n", total)
	return b.String()
}

func environmentTable() string {
	var b strings.Builder
	b.WriteString("```text\n")
	vars := Quiet()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !strings.HasPrefix(name, "GIT_CONFIG_KEY_") && !strings.HasPrefix(name, "GIT_CONFIG_VALUE_") {
			fmt.Fprintf(&b, "%s=%s\n", name, vars[name])
		}
	}
	for _, kv := range quietGit {
		fmt.Fprintf(&b, "git: %s=%s\n", kv[0], kv[1])
	}
	return b.String() + "```\n"
}

func wordsOf[V any](m map[string]V) string {
	return code(strings.Join(slices.Sorted(maps.Keys(m)), " ")) + "\n"
}

// transcriptTable is what is decided of the shell lines of a recorded session.
func transcriptTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| line | decision | rule | reason |\n|---|---|---|---|\n")
	lines := recorded(t)
	if len(lines) < 6 {
		t.Fatalf("%d shell lines in the recording: %q", len(lines), lines)
	}
	for _, line := range lines {
		a := Classify(line)
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", code(line), a.Decision, strings.Join(a.Policies, "`, `"), cell(a.Reason))
	}
	return b.String()
}

// recorded are the shell lines of a coding agent's session.
func recorded(t *testing.T) []string {
	t.Helper()
	packed, err := os.ReadFile("../../test/data/coding_marshmallow.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var session struct {
		Messages []struct {
			Calls []struct {
				Function struct{ Name, Arguments string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &session); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range session.Messages {
		for _, c := range m.Calls {
			var args struct{ Command string }
			if c.Function.Name == "bash" {
				if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
					t.Fatal(err)
				}
				lines = append(lines, args.Command)
			}
		}
	}
	return lines
}

// The recorded session's lines are decided as somebody careful would: looking is
// allowed, a person is asked before what others wrote runs, and nothing is deleted.
func TestRecordedSession(t *testing.T) {
	want := []string{
		"allow shell.read ls -F", "ask shell.install pip install -e .[dev]", "ask shell.script python reproduce.py", "allow shell.read ls -F",
		"ask shell.script python reproduce.py", "deny shell.remove rm reproduce.py",
	}
	var got []string
	for _, line := range recorded(t) {
		a := Classify(line)
		got = append(got, fmt.Sprintf("%s %s %s", a.Decision, strings.Join(a.Policies, ","), line))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package fs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
)

func project(t testing.TB) *bench {
	return newBench(t, map[string]string{
		"main.go": "package main\n\nfunc main() {\n\trun()\n}\n", "run.go": "package main\n\nfunc run() {}\n", "run_test.go": "package main\n\nfunc TestRun() { run() }\n",
		"web/app.js": "run();\r\nRUN();\r\n", "web/app.min.js": "run()\n", "docs/a.md": "# run\n", "node_modules/x/run.js": "run()\n", ".gitignore": "node_modules/\n*.min.js\n",
		".git/HEAD": "run\n", "bin": "run\x00\n", "latin": "caf\xe9 run\n", ".hidden/run.go": "// run\n",
	})
}

func TestGrep(t *testing.T) {
	b := project(t)
	b.link("run.go", "link.go")
	for name, c := range map[string]struct {
		args m
		want string
	}{
		"files": {m{"pattern": `\brun\b`}, ".hidden/run.go\ndocs/a.md\nlatin\nmain.go\nrun.go\nrun_test.go\nweb/app.js"},
		"content": {
			m{"pattern": `run\(\)`, "output_mode": "content", "glob": "*.go"},
			"main.go:4:\trun()\nrun.go:3:func run() {}\nrun_test.go:3:func TestRun() { run() }",
		},
		"count":       {m{"pattern": "run", "output_mode": "count", "ignore_case": true, "type": "js"}, "web/app.js:2\n[2 matching lines in 1 files]"},
		"context":     {m{"pattern": "^func", "output_mode": "content", "path": "main.go", "context": 1}, "main.go-2-\nmain.go:3:func main() {\nmain.go-4-\trun()"},
		"before":      {m{"pattern": "run", "output_mode": "content", "path": "main.go", "before": 1}, "main.go-3-func main() {\nmain.go:4:\trun()"},
		"after":       {m{"pattern": "main", "output_mode": "content", "path": "main.go", "after": 1}, "main.go:1:package main\nmain.go-2-\nmain.go:3:func main() {\nmain.go-4-\trun()"},
		"gap":         {m{"pattern": "package|}$", "output_mode": "content", "path": "main.go", "after": 1}, "main.go:1:package main\nmain.go-2-\n--\nmain.go:5:}"},
		"between":     {m{"pattern": "^func", "output_mode": "content", "type": "go", "before": 1, "glob": "run*"}, "run.go-2-\nrun.go:3:func run() {}\n--\nrun_test.go-2-\nrun_test.go:3:func TestRun() { run() }"},
		"crlf":        {m{"pattern": `\);$`, "output_mode": "content"}, "web/app.js:1:run();\nweb/app.js:2:RUN();"},
		"not":         {m{"pattern": "run", "glob": "!*.go"}, "docs/a.md\nlatin\nweb/app.js"},
		"glob path":   {m{"pattern": "run", "glob": "web/**/*.js"}, "web/app.js"},
		"sub":         {m{"pattern": "run", "path": "web"}, "web/app.js"},
		"no ignore":   {m{"pattern": "run", "no_ignore": true, "type": "js"}, "node_modules/x/run.js\nweb/app.js\nweb/app.min.js"},
		"named":       {m{"pattern": "run", "path": "node_modules"}, "node_modules/x/run.js"},
		"page":        {m{"pattern": "run", "head_limit": 2, "offset": 1}, "docs/a.md\nlatin\n[files 2-3 of 7; go on with offset 3, or narrow it down]"},
		"past":        {m{"pattern": "run", "offset": 9}, "[there are 7 files: offset 9 is past the end]"},
		"nothing":     {m{"pattern": "zzz", "path": "docs"}, "[nothing matches zzz]"},
		"nothing yet": {m{"pattern": "x/run", "glob": "*.zig"}, "[nothing matches x/run]\n[2 entries that .gitignore names were skipped; no_ignore: true looks there, too]"},
		"binary":      {m{"pattern": "run", "path": "bin"}, "[nothing matches run]\n[1 binary files were not searched]"},
		"bytes":       {m{"pattern": "run", "path": "latin", "output_mode": "content"}, "latin:1:caf\ufffd run"},
		"multiline":   {m{"pattern": `main\(\) \{.*?\}`, "multiline": true, "output_mode": "content"}, "main.go:3:func main() {\nmain.go:4:\trun()\nmain.go:5:}"},
		"one line":    {m{"pattern": `main\(\) \{.*?\}`}, "[nothing matches main\\(\\) \\{.*?\\}]\n[2 entries that .gitignore names were skipped; no_ignore: true looks there, too]\n[1 binary files were not searched]"},
		"count multi": {m{"pattern": `run\(\);\r\nRUN`, "multiline": true, "output_mode": "count"}, "web/app.js:1\n[1 matching lines in 1 files]"},
		"empty match": {m{"pattern": `$^`, "output_mode": "count", "path": "main.go"}, "main.go:1\n[1 matching lines in 1 files]"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the same again, to the byte
				if diff := cmp.Diff(c.want, b.ok(GrepName, c.args).Text.Text); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestGrepRefusals(t *testing.T) {
	b := project(t)
	for _, c := range []struct {
		args  m
		words []string
		path  string
	}{
		{m{"pattern": "("}, []string{"missing closing )", "backslash"}, "/pattern"},
		{m{"pattern": `(?=x)`}, []string{"RE2"}, "/pattern"},
		{m{"pattern": ""}, []string{"4096"}, "/pattern"},
		{m{"pattern": "x", "glob": "[a"}, []string{"not closed"}, "/glob"},
		{m{"pattern": "x", "glob": "../*"}, []string{".."}, "/glob"},
		{m{"pattern": "x", "type": "klingon"}, []string{"go", "py"}, "/type"},
	} {
		if e := b.fails(events.InvalidParam, c.words, GrepName, c.args); e.Path != c.path {
			t.Errorf("%v: path %s", c.args, e.Path)
		}
	}
}

func TestGrepIsBounded(t *testing.T) {
	files := map[string]string{"long": strings.Repeat("x", 100_000) + "\n"}
	for i := range 30 {
		files[fmt.Sprintf("d/%02d", i)] = strings.Repeat(strings.Repeat("y", 100)+"\n", 100)
	}
	b := newBench(t, files)
	r := b.ok(GrepName, m{"pattern": "y", "output_mode": "content", "head_limit": 2000})
	if len(r.Text.Text) > maxText || r.Status != events.Partial || r.Stats.More["matches"] != 3000 {
		t.Errorf("%d bytes, %s, %v", len(r.Text.Text), r.Status, r.Stats)
	}
	r = b.ok(GrepName, m{"pattern": "x", "output_mode": "content"})
	if len(r.Text.Text) > 3000 || !strings.Contains(r.Text.Text, "98000 bytes of this line") {
		t.Errorf("%.50q…", r.Text.Text[len(r.Text.Text)-100:])
	}
	tool, _ := b.reg.Lookup(GrepName)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Run(ctx, b.invocation(GrepName, m{"pattern": "y"})); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Grep finds exactly the lines that the expression matches.
func TestGrepAgainstTheObvious(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[ab \t]{0,5}`), 1, 12).Draw(rt, "lines")
		pattern := rapid.StringMatching(`\^?(a|b|\.|a\*|b\+|\\s|\[\^a\]){1,3}\$?`).Draw(rt, "pattern")
		around := rapid.IntRange(0, 3).Draw(rt, "around")
		b := newBench(t, map[string]string{"f": strings.Join(lines, "\n") + "\n"})
		re := regexp.MustCompile(pattern)
		near := func(i int) bool {
			for j := max(0, i-around); j <= min(len(lines)-1, i+around); j++ {
				if re.MatchString(lines[j]) {
					return true
				}
			}
			return false
		}
		var want []string
		last := -1
		for i, l := range lines {
			sign := "-"
			if re.MatchString(l) {
				sign = ":"
			}
			if !near(i) {
				continue
			}
			if last >= 0 && i > last+1 && around > 0 {
				want = append(want, "--")
			}
			want = append(want, fmt.Sprintf("f%s%d%s%s", sign, i+1, sign, l))
			last = i
		}
		text := strings.Join(want, "\n")
		if want == nil {
			text = fmt.Sprintf("[nothing matches %s]", pattern)
		}
		got := b.ok(GrepName, m{"pattern": pattern, "path": "f", "output_mode": "content", "context": around}).Text.Text
		if diff := cmp.Diff(text, got); diff != "" {
			rt.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func BenchmarkGrep(b *testing.B) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("d%d/f%d.go", i%10, i)] = strings.Repeat("\tif err := run(ctx, name); err != nil {\n\t\treturn err\n\t}\n", 300)
	}
	w := newBench(b, files)
	tool, _ := w.reg.Lookup(GrepName)
	for name, pattern := range map[string]string{"literal": "nowhere", "class": `\w+Handler\(`} {
		in := w.invocation(GrepName, m{"pattern": pattern})
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tool.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*200/b.Elapsed().Seconds(), "files/s")
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	w := newBench(b, map[string]string{"f": strings.Repeat("some line\n", 500) + "x=0\n"})
	for i := 0; b.Loop(); i++ {
		if _, err := w.try(EditName, m{"path": "f", "old_string": fmt.Sprintf("x=%d\n", i), "new_string": fmt.Sprintf("x=%d\n", i+1)}); err != nil {
			b.Fatal(err)
		}
	}
}

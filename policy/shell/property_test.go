package shell

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

// single are the examples on one line that end where a command ends, so that
// another command can follow.
func single(t testing.TB) []example {
	var out []example
	for _, e := range table(t) {
		if strings.ContainsAny(e.line, "\n#\\") || e.rule == "shell.syntax" || e.rule == "shell.empty" || strings.HasSuffix(e.line, "&") {
			continue
		}
		out = append(out, e)
	}
	return out
}

// What is not allowed alone is not allowed in company, and the company of a
// denied line is denied.
func TestCompanyNeverHelps(t *testing.T) {
	lines := single(t)
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(lines).Draw(t, "first")
		b := rapid.SampledFrom(lines).Draw(t, "second")
		op := rapid.SampledFrom([]string{"; ", " && ", " || ", " | ", " & ", "\n"}).Draw(t, "operator")
		both := a.line + op + b.line
		least := max(a.decision.rank(), b.decision.rank())
		if got := Classify(both); got.Decision.rank() < least {
			t.Fatalf("%q is %s, its parts are %s and %s", both, got.Decision, a.decision, b.decision)
		}
	})
}

// Blanks between words decide nothing.
func TestBlanksDecideNothing(t *testing.T) {
	lines := single(t)
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(lines).Draw(t, "line")
		if strings.ContainsAny(e.line, "'\"\t") {
			return // blanks inside quotes are text
		}
		blank := rapid.SampledFrom([]string{"  ", "\t", " \t "})
		var b strings.Builder
		for _, r := range e.line {
			if r == ' ' {
				b.WriteString(blank.Draw(t, "blank"))
				continue
			}
			b.WriteRune(r)
		}
		line := blank.Draw(t, "before") + b.String() + blank.Draw(t, "after")
		if got, want := Classify(line), Classify(e.line); got.Decision != want.Decision || !reflect.DeepEqual(got.Policies, want.Policies) {
			t.Fatalf("%q is %s by %v, %q is %s by %v", line, got.Decision, got.Policies, e.line, want.Decision, want.Policies)
		}
	})
}

// Wrapping a line never makes it milder.
func TestWrappingNeverHelps(t *testing.T) {
	lines := single(t)
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(lines).Draw(t, "line")
		form := rapid.SampledFrom([]string{"(%)", "{ %; }", "if %; then %; fi", "while %; do ls; done", "ls | { %; }"}).Draw(t, "form")
		line := strings.ReplaceAll(form, "%", e.line)
		if got := Classify(line); got.Decision.rank() < e.decision.rank() {
			t.Fatalf("%q is %s, %q is %s", line, got.Decision, e.line, e.decision)
		}
	})
}

// The commands of an analysis are lines of their own, judged no milder than the
// allowed line they came from.
func TestCommandsReadBack(t *testing.T) {
	for _, e := range table(t) {
		a := Classify(e.line)
		if a.Decision != Allow {
			continue
		}
		for _, cmd := range a.Commands {
			if got := Classify(cmd); got.Decision != Allow {
				t.Errorf("%q is allowed, its command %q is %s by %v", e.line, cmd, got.Decision, got.Policies)
			}
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, e := range table(f) {
		f.Add(e.line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a := Classify(line)
		if again := Classify(line); !reflect.DeepEqual(a, again) {
			t.Fatalf("%q: %+v, then %+v", line, a, again)
		}
		if a.Reason == "" || len(a.Policies) == 0 || !oneSentence(a.Reason) {
			t.Fatalf("%q: no reason of one sentence: %+v", line, a)
		}
		if net := (Scope{Network: true, Workspace: "/w"}).Classify(line); a.Decision == Allow && net.Decision != Allow {
			t.Fatalf("%q: a wider scope is stricter: %+v", line, net)
		}
		if a.Decision == Allow {
			checkAllowed(t, line)
		}
	})
}

// checkAllowed looks at an allowed line's tree by other means.
func checkAllowed(t *testing.T, line string) {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		t.Fatalf("%q is allowed and does not parse: %v", line, err)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			switch n.Op {
			case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
			case syntax.DplOut:
				if w := n.Word.Lit(); len(w) != 1 {
					t.Fatalf("%q is allowed and writes", line)
				}
			default:
				t.Fatalf("%q is allowed and writes", line)
			}
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp, *syntax.FuncDecl, *syntax.Assign:
			t.Fatalf("%q is allowed and holds a %T", line, n)
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				t.Fatalf("%q is allowed and sets variables", line)
			}
		}
		return true
	})
}

// BenchmarkClassify300 judges lines of some 300 characters, of several shapes.
func BenchmarkClassify300(b *testing.B) {
	shapes := map[string]string{
		"reading":  "git log --oneline -n 20 -- src/main.go | grep -n 'some pattern' | sort -u | head -5 && ",
		"writing":  "cp -r src/main.go build/out.go && mkdir -p build/x && echo done > build/log.txt; touch a; ",
		"one":      "grep -rn --include='*.go' --exclude-dir=vendor 'some pattern to look for in all of it' src cmd docs ",
		"words":    "cat a.go b.go c.go d.go e.go f.go g.go h.go ",
		"wrapped":  "timeout 5 nice -n 5 command grep -c x a.txt; xargs -0 -n 1 env A=1 ls; ",
		"hostile":  "$(id) `id`; r\"\"m -rf ~; eval x; bash -c 'x'; X=1 ${Y:-rm} z; find . -exec rm {} +; ",
		"nested":   "if test -f a; then (cd src && { ls; pwd; }); else ! cat b; fi; ",
		"quotes":   `echo "it's $? \"a\"" 'b c' d\ e "f"'g'h; `,
		"one text": "echo 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; ",
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		line := strings.Repeat(shapes[name], (299+len(shapes[name]))/len(shapes[name])) + "ls"
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Classify(line)
			}
		})
	}
}

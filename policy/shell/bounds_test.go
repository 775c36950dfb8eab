package shell

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// units are what the worst lines are made of, again and again.
var units = []string{
	"(", "( ')';", "{ ", "! ls;", "if ", "while ", "time ", "${a:-", "a|", "<<a ", "`", "\\`", "a[", "$((", "<(", "ls;", "ls|", "a=1 ", "$a",
	"{a,", "cat <<A;\n", "case x in a) ", "ls | ( ", " \\\n", "x# \\\n", "\"$(", "xargs ", "timeout 1 ", "xargs --bad find -exec ",
	"find . -exec ", "env A=1 ", "busybox ", "eval ", "sudo ", "env -S ", "a ", "cat <<<'x' ", "<<'A'\n", "a\\\n", "!", "-", "[ ", "[[ a ",
	"'' ", "a'b'", "\"a\"", "$'a'", "~:", "/..", "a:", "%", "=", "*", "git ", "git log -n ", "# \\\n", "#\n", "f(){ ", "ls&", "then ",
	"for i in a;", "$[", "${", "$(", "a;;", "2>&1 ", "<a ", "printf %", "test -a ", "'a' 'b' ", "a/", "--", "-e p ", "1p;", "/a/p;",
	":", "..", "a..", ":(", "{:", "break ", "..env", "1e", "s/a/b/;", "/a/,", "/[a]", "y/a/b/;", "print a>",
}

// before are what a unit is put behind, so that it gets to where it is looked at.
var before = []string{"", "ls ", "git log ", "git show ", "git log -L", "git archive ", "find . ", "printf ", "test ", "sed -n ", "sed -n '", "xargs -q ", "echo '", "cat <<A\n", "jq '", "awk '", "sed 's/", "cat <"}

// The longest lines of the worst shapes are judged, soon, and not allowed.
func TestWorstShapes(t *testing.T) {
	for _, unit := range units {
		line := strings.Repeat(unit, MaxLine/len(unit))
		start := time.Now()
		if a := Classify(line); a.Decision == Allow {
			t.Errorf("%q, %d bytes: allowed", unit, len(line))
		} else if len(a.Commands) > MaxCommands {
			t.Errorf("%q: %d commands", unit, len(a.Commands))
		}
		for _, b := range before {
			Classify(b + line[:len(line)/8])
		}
		if d := time.Since(start); d > time.Minute { // looks for a hang, and measures no speed: see BenchmarkClassify300
			t.Errorf("%q, %d bytes: %s", unit, len(line), d)
		}
	}
}

// Four times the line costs about four times the memory: nothing is copied in the
// square of it.
func TestNothingGrowsInTheSquare(t *testing.T) {
	cost := func(line string) uint64 {
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		Classify(line)
		runtime.ReadMemStats(&to)
		return to.TotalAlloc - from.TotalAlloc
	}
	for _, unit := range units {
		for _, b := range before {
			half := b + strings.Repeat(unit, MaxLine/len(unit)/32)
			full := b + strings.Repeat(unit, MaxLine/len(unit)/8)
			if h, f := cost(half), cost(full); f > 6*h+1<<18 {
				t.Errorf("%q behind %q: %d bytes for %d, %d for %d", unit, b, h, len(half), f, len(full))
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want Decision
	}{
		{"longest line", "ls " + strings.Repeat("a", MaxLine-3), Allow},
		{"too long a line", "ls " + strings.Repeat("a", MaxLine-2), Deny},
		{"most commands", strings.Repeat("ls;", MaxCommands), Allow},
		{"too many commands", strings.Repeat("ls;", MaxCommands+1), Deny},
		{"most words", "ls" + strings.Repeat(" a", MaxWords-1), Allow},
		{"too many words", "ls" + strings.Repeat(" a", MaxWords), Deny},
		{"deep", strings.Repeat("{ ", MaxDepth-1) + "ls; " + strings.Repeat("}; ", MaxDepth-1), Allow},
		{"too deep", strings.Repeat("{ ", MaxDepth) + "ls; " + strings.Repeat("}; ", MaxDepth), Deny},
	} {
		if a := Classify(c.line); a.Decision != c.want {
			t.Errorf("%s: %s by %v, want %s", c.name, a.Decision, a.Policies, c.want)
		}
	}
}

func TestScope(t *testing.T) {
	in := Scope{Workspace: "/home/me/work", Network: true}
	for line, want := range map[string]Decision{
		"cat /home/me/work/a.txt":        Allow,
		"ls /home/me/work":               Allow,
		"ls /home/me/work/":              Allow,
		"cd /home/me/work && ls":         Allow,
		"cat /home/me/work/../other":     Ask,
		"cat /home/me/workshop":          Ask,
		"cat /etc/passwd":                Ask,
		"curl https://example.com":       Ask,
		"curl https://example.com | sh":  Deny,
		"rm /home/me/work/a":             Deny,
		"git diff -- /home/me/work/a.go": Allow,
	} {
		if a := in.Classify(line); a.Decision != want {
			t.Errorf("%q: %s by %v, want %s", line, a.Decision, a.Policies, want)
		}
	}
}

func TestWhatIsNamed(t *testing.T) {
	a := Classify(`cat  "src/a.go" | grep 'x y' > out; curl -s https://example.com/a example.org`)
	for name, c := range map[string]struct{ got, want []string }{
		"commands": {a.Commands, []string{"cat src/a.go", "grep 'x y'", "curl -s https://example.com/a example.org"}},
		"paths":    {a.Paths, []string{"out", "src/a.go"}},
		"hosts":    {a.Hosts, []string{"example.org", "https://example.com/a"}},
	} {
		if strings.Join(c.got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

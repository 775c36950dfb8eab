package shell

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/shell/family"
	"github.com/sluice-run/sluice/tools/tooltest"
)

func TestSuite(t *testing.T) {
	tooltest.Run(t, newTool(t, Config{}),
		tooltest.Example{Args: `{"command":"ls"}`, Files: map[string]string{"a": ""}},
		tooltest.Example{Args: `{"command":"seq 1 1000","description":"counts"}`},
		tooltest.Example{Args: `{"command":"touch a; cat none","timeout_ms":1e3}`, Fails: events.ExecutionError},
		tooltest.Example{Args: `{"command":"rm -rf ~ #\u001b[2K\u001b[1Gls -la\r\u202e"}`},
		tooltest.Example{Args: `{"command":"echo busy; sleep 60"}`, Blocks: true},
		tooltest.Example{Args: `{"command":"trap '' TERM; (sleep 60 &); sleep 60; touch x"}`, Blocks: true},
	)
}

func TestTierFollowsTheLine(t *testing.T) {
	tool := newTool(t, Config{})
	for line, tier := range map[string]events.Tier{
		"ls -la | head -3": events.Readonly, "git status": events.Readonly, "cat a b": events.Readonly,
		"rm x": events.Irreversible, "ls > x": events.Irreversible, "pwd\nrm -r x": events.Irreversible, "git log --output=/tmp/x": events.Irreversible,
		"$(ls)": events.Irreversible, "cat /etc/passwd": events.Irreversible, "if": events.Irreversible, "": events.Irreversible,
	} {
		args := argsOf(t, Args{Command: line})
		if got := tool.TierOf(args); got != tier || tool.Safe(args) != (tier == events.Readonly) {
			t.Errorf("%q: tier %s, safe %v", line, got, tool.Safe(args))
		}
	}
	for _, args := range []string{``, `null`, `[]`, `{"command":7}`, `{`} {
		if tool.TierOf(json.RawMessage(args)) != events.Irreversible {
			t.Errorf("%s: what cannot be read is not reading", args)
		}
	}
	if tool.TierOf(json.RawMessage(`{"command":"ls","timeout_ms":1.0e3}`)) != events.Readonly {
		t.Error("other arguments do not matter")
	}
}

func TestOperationNamesWhatIsThere(t *testing.T) {
	op := newTool(t, Config{}).Operation(argsOf(t, Args{Command: "cat a/b.txt | wc -l"}))
	want := events.Operation{Class: events.OpExecute, Paths: []string{"a/b.txt"}, Commands: []string{"cat a/b.txt", "wc -l"}, Reads: true}
	if d := cmp.Diff(want, op); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestASecretIsAFileOnlyWhereItNamesOne: a flag's value and an argument of a program of
// which nobody knows what it takes are none.
func TestASecretIsAFileOnlyWhereItNamesOne(t *testing.T) {
	const s = "sluice-secret-0123456789abcdef0123456789abcdef"
	tool := newTool(t, Config{})
	for line, want := range map[string]string{
		"python3 x.py --token " + s: "x.py", "mytool --api-key " + s: "", "mytool " + s + " out": "out", "npm run x -- --token " + s: "run x", "make KEY=" + s: "",
		"timeout 5 mytool --token " + s: "", "zip -P " + s + " a.zip b": "a.zip b", "grep " + s + " a | tee b": "a b", "./x.sh a/" + s: "",
		"cat " + s: s, "ls no-" + s: "no-" + s, "cat a && mytool " + s: "a", "cat " + s + " && mytool --token " + s: s,
		"mytool --token " + s + " > " + s: s, "mytool x < " + s: s + " x", "cp a " + s: "a " + s, "tee token: " + s: s + " token:",
		"mkdir -p " + s: s, "mkdir -p out/" + s: "out/" + s, "chmod 600 " + s: "600 " + s, "timeout 5 cp a " + s: "a " + s, "mytool --token " + s + " 'a": "",
	} {
		if got := strings.Join(tool.Operation(argsOf(t, Args{Command: line})).Paths, " "); got != want {
			t.Errorf("%s: files %q, want %q", line, got, want)
		}
	}
}

func TestAsksShowsTheWholeCommand(t *testing.T) {
	asks := newTool(t, Config{}).Asks
	long := "echo " + strings.Repeat("x", 20_000) + "; rm -rf ~"
	for in, want := range map[string]string{
		`{"command":"rm -rf ~ #\u001b[2K\u001b[1Gls -la"}`:                "run in bash:\n  | rm -rf ~ #\\u001b[2K\\u001b[1Gls -la",
		`{"command":"a\nb\r\n\u202ec","description":"harmless\nrun: ls"}`: "run in bash:\n  | a\n  | b\\u000d\n  | \\u202ec\nthe model says of it: harmless\\u000arun: ls",
		`{"command":"` + long + `"}`:                                      "run in bash:\n  | " + long,
		`{"command":"\u001b]52;c;cm0gLXJmIH4=\u0007"}`:                    "run in bash:\n  | \\u001b]52;c;cm0gLXJmIH4=\\u0007",
		`{"command":7}`: `run in bash, with arguments that cannot be read: {"command":7}`,
	} {
		if got := asks(json.RawMessage(in)); got != want {
			t.Errorf("%.80s:\n%.200s", in, got)
		}
	}
}

// TestReadingStaysInside: a line that runs unasked must not follow a link out.
func TestReadingStaysInside(t *testing.T) {
	dir := t.TempDir()
	for name, to := range map[string]string{"out": "/etc", "file": "/etc/passwd", "in": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "f"), []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "sub", "p")); err != nil {
		t.Fatal(err)
	}
	for line, denied := range map[string]bool{
		"cat out/passwd": true, "cat file": true, "head -1 f*": true, "ls out": true, "cat sub/p": true,
		"cd sub && cat p": true, "cd out && cat passwd": true, "cat */passwd": true,
		"cat in/f": false, "cat sub/f": false, "cd sub && cat f": false, "ls": false, "cat none": false, "cat s*/f": false,
	} {
		r := runIn(t.Context(), t, Config{}, dir, Args{Command: line})
		if got := r.Result.Error != nil && r.Result.Error.Code == events.AccessDenied; got != denied {
			t.Errorf("%s: %+v %q", line, r.Result.Error, r.Result.Text.Text)
		}
		if strings.Contains(r.Result.Text.Text, "root:") {
			t.Errorf("%s: shows %q", line, r.Result.Text.Text)
		}
	}
}

// TestGitIsKeptQuiet: a repository's configuration names programs, and a line
// that counts as reading must not start the ones that git can be told to leave.
func TestGitIsKeptQuiet(t *testing.T) {
	dir := t.TempDir()
	setup := "git init -q . && git config core.fsmonitor 'touch ran; true' && touch f"
	if r := runIn(t.Context(), t, Config{}, dir, Args{Command: setup}); r.Class != events.ClassOK {
		t.Skipf("this machine has no git that works: %+v", r.Result)
	}
	if r := runIn(t.Context(), t, Config{}, dir, Args{Command: "git status --short"}); r.Effects != events.EffectsNone || r.Result.Text.Text != "?? f\n" {
		t.Errorf("%s %q %+v", r.Effects, r.Result.Text.Text, r.Result.Error)
	}
}

func TestContainmentIsTrue(t *testing.T) {
	if got := Containment(); got != "process-tree" {
		t.Errorf("%q", got)
	}
}

func TestANameThatCannotBeUsed(t *testing.T) {
	if _, err := New(Config{Name: "no good"}); err == nil {
		t.Error("it is accepted")
	}
}

// TestAnEndThatIsNotConfirmed: what is left is named, and no status is made up.
func TestAnEndThatIsNotConfirmed(t *testing.T) {
	j := &job{c: Config{}, out: tools.NewCapture(0, ""), family: &family.Family{}}
	e := j.ending([]int{4711})
	if e.Exit != nil || e.Signal != "" || cmp.Diff([]int{4711}, e.Pids) != "" {
		t.Errorf("%+v", e)
	}
	_, err := j.answer(e, family.Swept{}, nil, 0)
	if fail, ok := err.(*tools.Error); !ok || fail.Effects != events.EffectsPossible || fail.Class != events.ClassUnavailable {
		t.Errorf("%v", err)
	}
}

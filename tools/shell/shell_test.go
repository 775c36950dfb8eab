package shell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
)

func newTool(t testing.TB, c Config) tools.Tool {
	t.Helper()
	tool, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func argsOf(t testing.TB, a Args) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contained is what contains the commands of tests that say nothing of it.
var contained sandbox.Policy

// bash runs one command line in a workspace of its own.
func bash(t testing.TB, line string) tools.Report {
	t.Helper()
	return runIn(t.Context(), t, Config{}, t.TempDir(), Args{Command: line})
}

func runIn(ctx context.Context, t testing.TB, c Config, workspace string, a Args) tools.Report {
	t.Helper()
	if !c.Sandbox.Use.Any() {
		c.Sandbox = contained
	}
	return runBare(ctx, t, c, workspace, a)
}

// runBare contains nothing but what c says.
func runBare(ctx context.Context, t testing.TB, c Config, workspace string, a Args) tools.Report {
	t.Helper()
	in := tools.Invocation{
		Call: events.CallKey{Trace: "t", Turn: "u"}, Attempt: 1, Tool: Name, Args: argsOf(t, a), Workspace: workspace,
	}
	return tools.Execute(ctx, newTool(t, c), in, tools.Options{})
}

func TestOutputAndExitStatus(t *testing.T) {
	exit := func(n int) *int { return &n }
	for _, c := range []struct {
		line, text, message string
		class               events.Class
		exit                *int
		signal              string
	}{
		{line: "echo hi", text: "hi\n", class: events.ClassOK, exit: exit(0)},
		{line: "true", class: events.ClassOK, exit: exit(0)},
		{line: "echo a | grep b", class: events.ClassTool, message: "exit status 1: grep ends so where nothing matches", exit: exit(1)},
		{line: "[ -f none ] && echo yes", class: events.ClassTool, message: "exit status 1: '[' ends so where the condition does not hold", exit: exit(1)},
		{line: "grep x none 2>&1", text: "grep: none: No such file or directory\n", class: events.ClassTool, message: "exit status 2", exit: exit(2)},
		{line: "echo out; exit 3", text: "out\n", class: events.ClassTool, message: "exit status 3", exit: exit(3)},
		{line: "echo a; echo b >&2; echo c; echo d >&2", text: "a\nb\nc\nd\n", class: events.ClassOK, exit: exit(0)},
		{line: "nosuchcommand", text: "/bin/bash: line 1: nosuchcommand: command not found\n", class: events.ClassTool, message: "exit status 127: command not found", exit: exit(127)},
		{line: "kill -9 $$", class: events.ClassTool, message: "ended by signal SIGKILL: for want of memory, or by another process", signal: "SIGKILL"},
		{line: "(sh -c 'kill -9 $$'; exit $?) 2>/dev/null", class: events.ClassTool, message: "exit status 137: killed by SIGKILL: for want of memory, or by another process", exit: exit(137)},
		{line: "read x || echo no input", text: "no input\n", class: events.ClassOK, exit: exit(0)},
		{line: "[ -t 0 ] || [ -t 1 ] || echo no terminal", text: "no terminal\n", class: events.ClassOK, exit: exit(0)},
		{line: "(exec </dev/tty) 2>/dev/null || echo no terminal", text: "no terminal\n", class: events.ClassOK, exit: exit(0)},
		{line: `printf 'caf\351 \033[1mbold\n'`, text: "caf\uFFFD \x1b[1mbold\n", class: events.ClassOK, exit: exit(0)},
		{line: "x=(1 2); echo ${x[1]} <(true) | wc -w", text: "2\n", class: events.ClassOK, exit: exit(0)},
	} {
		t.Run(c.line, func(t *testing.T) {
			r := bash(t, c.line)
			if r.Class != c.class || r.Result.Text.Text != c.text || r.Signal != c.signal || cmp.Diff(c.exit, r.Exit) != "" {
				t.Errorf("class %s, exit %v, signal %q, text %q", r.Class, r.Exit, r.Signal, r.Result.Text.Text)
			}
			effects := events.EffectsDone
			if classify(c.line).Reads {
				effects = events.EffectsNone
			}
			if !r.Answered || !r.Confirmed || r.Effects != effects {
				t.Errorf("answered %v, confirmed %v, effects %s", r.Answered, r.Confirmed, r.Effects)
			}
			message := ""
			if r.Result.Error != nil {
				message = r.Result.Error.Message
			}
			if message != c.message || (message == "") != (r.Result.Status == events.Success) {
				t.Errorf("status %s, message %q", r.Result.Status, message)
			}
		})
	}
}

func TestReadingLinesHaveNoEffects(t *testing.T) {
	if r := bash(t, "ls"); r.Effects != events.EffectsNone {
		t.Errorf("ls: effects %s", r.Effects)
	}
}

func TestBinaryOutputIsDescribed(t *testing.T) {
	r := bash(t, `printf 'a\0b'`)
	if !strings.HasPrefix(r.Result.Text.Text, "[binary output: 3 bytes") || r.Output != 3 {
		t.Errorf("%q, %d bytes", r.Result.Text.Text, r.Output)
	}
}

func TestLongOutputKeepsBothEndsAndCountsAll(t *testing.T) {
	r := runIn(t.Context(), t, Config{Output: 10_000}, t.TempDir(), Args{Command: "seq 1 200000"})
	text := r.Result.Text.Text
	const emitted = 1288895 // of seq 1 200000
	if r.Output != emitted || r.Result.Stats.Bytes != emitted || r.Result.Stats.Lines != 200_000 {
		t.Errorf("%d bytes, stats %+v", r.Output, r.Result.Stats)
	}
	if len(text) > 10_000 || !strings.HasPrefix(text, "1\n2\n3\n") || !strings.HasSuffix(text, "199999\n200000\n") || !strings.Contains(text, "bytes") {
		t.Errorf("%d bytes kept: %.40q … %q", len(text), text, text[max(len(text)-40, 0):])
	}
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("LET_THROUGH", "yes")
	t.Setenv("BASH_ENV", "/nonexistent/evil.sh")
	dir := t.TempDir()
	r := runIn(t.Context(), t, Config{Path: "/usr/bin:/bin", Pass: []string{"LET_THROUGH", "NOT_SET"}, Env: map[string]string{"MORE": "1"}}, dir,
		Args{Command: "env"})
	var names []string
	for v := range strings.Lines(r.Result.Text.Text) {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"CARGO_HOME", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "GOMODCACHE", "HOME", "LANG", "LET_THROUGH", "MORE", "PAGER", "PATH", "PWD", "PYTHONUSERBASE", "SHLVL", Marker, "TERM",
		"XDG_CACHE_HOME", "_", "npm_config_cache",
	}
	if u := contained.Use; u.Landlock > 0 && !u.Namespaces {
		want = slices.Insert(want, slices.Index(want, "TERM")+1, "TMPDIR")
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
	for _, v := range []string{"PATH=/usr/bin:/bin\n", "XDG_CACHE_HOME=" + dir + "/.cache\n", "PWD=" + dir + "\n", "TERM=dumb\n"} {
		if !strings.Contains(r.Result.Text.Text, v) {
			t.Errorf("no %q in\n%s", v, r.Result.Text.Text)
		}
	}
}

// TestHomeIsNobodys: the settings of programs that a repository brings count for no
// command; what one leaves in its home is gone with it, and its caches stay.
func TestHomeIsNobodys(t *testing.T) {
	for name, run := range map[string]func(context.Context, testing.TB, Config, string, Args) tools.Report{"contained": runIn, "bare": runBare} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for f, text := range map[string]string{
				".gitconfig": "[alias]\n\tst = !touch ran\n[core]\n\tfsmonitor = touch ran\n", ".config/git/config": "[core]\n\tfsmonitor = touch ran\n", ".curlrc": "output = ran\n",
			} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			const line = `ls -A "$HOME" | wc -l; touch "$HOME/.left" && echo "$HOME"; mkdir -p "$XDG_CACHE_HOME" && touch "$XDG_CACHE_HOME/kept"
				git init -q . && git add .curlrc; git st; curl -s file:///dev/null; true`
			var homes []string
			for range 2 {
				r := run(t.Context(), t, Config{}, dir, Args{Command: line})
				lines := strings.Split(r.Result.Text.Text, "\n")
				if r.Class != events.ClassOK || len(lines) < 2 || strings.TrimSpace(lines[0]) != "0" || sandbox.Within(lines[1], dir) {
					t.Fatalf("%+v", r.Result)
				}
				homes = append(homes, lines[1])
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); !os.IsNotExist(err) {
				t.Error("what the workspace configures has run")
			}
			if _, err := os.Stat(filepath.Join(dir, ".cache", "kept")); err != nil {
				t.Error(err)
			}
			for _, home := range homes {
				if _, err := os.Stat(filepath.Join(home, ".left")); !os.IsNotExist(err) {
					t.Errorf("%s is left", home)
				}
			}
		})
	}
}

// begun is a deadline by which a command has begun, also on a machine that does much else.
const begun = 5 * time.Second

func TestDeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	r := runIn(t.Context(), t, Config{}, t.TempDir(), Args{Command: "touch x; echo some output; sleep 61", TimeoutMS: begun.Milliseconds()})
	if r.Class != events.ClassTimeout || r.Answered || !r.Confirmed || r.Effects != events.EffectsPossible {
		t.Errorf("%+v", r)
	}
	if r.Result.Status != events.Failure || r.Result.Error.Code != events.Timeout || r.Result.Text.Text != "some output\n" {
		t.Errorf("a time-out with output must be a failure that keeps it: %+v", r.Result)
	}
	if r.Signal != "SIGTERM" || r.Run > 4*begun {
		t.Errorf("signal %q after %s", r.Signal, r.Run)
	}
}

func TestDeadlineOfTheAttempt(t *testing.T) {
	t.Parallel()
	in := tools.Invocation{
		Call: events.CallKey{Trace: "t", Turn: "u"}, Attempt: 1, Workspace: t.TempDir(), Deadline: time.Now().Add(begun),
		Args: argsOf(t, Args{Command: "touch x; echo some output; sleep 62"}),
	}
	r := tools.Execute(t.Context(), newTool(t, Config{}), in, tools.Options{})
	if r.Class != events.ClassTimeout || !r.Confirmed || r.Effects != events.EffectsPossible || r.Result.Text.Text != "some output\n" {
		t.Errorf("%+v", r)
	}
}

func TestTermIsGentleAndKillIsNot(t *testing.T) {
	t.Parallel()
	gentle := runIn(t.Context(), t, Config{Kill: 8 * time.Second}, t.TempDir(), Args{
		Command: `trap 'echo cleaned up; exit 0' TERM; sleep 63 & wait`, TimeoutMS: begun.Milliseconds(),
	})
	if !strings.Contains(gentle.Result.Text.Text, "cleaned up") || gentle.Class != events.ClassTimeout || gentle.Run > begun+7*time.Second {
		t.Errorf("%+v", gentle)
	}
	deaf := runIn(t.Context(), t, Config{Kill: 50 * time.Millisecond}, t.TempDir(), Args{
		Command: `trap '' TERM; while :; do sleep 1; done`, TimeoutMS: begun.Milliseconds(),
	})
	if deaf.Signal != "SIGKILL" || !deaf.Confirmed {
		t.Errorf("%+v", deaf)
	}
}

func TestRefusals(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone")
	for name, c := range map[string]struct {
		config    Config
		workspace string
		args      Args
		code      events.Code
		path      string
	}{
		"empty":        {args: Args{Command: " \n"}, code: events.InvalidParam, path: "/command"},
		"NUL":          {args: Args{Command: "echo \x00"}, code: events.InvalidParam, path: "/command"},
		"too long":     {args: Args{Command: "echo " + strings.Repeat("a", MaxCommand)}, code: events.InvalidParam, path: "/command"},
		"too slow":     {args: Args{Command: "true", TimeoutMS: 600_001}, code: events.InvalidParam, path: "/timeout_ms"},
		"no workspace": {workspace: missing, args: Args{Command: "true"}, code: events.NotFound},
		"no bash":      {config: Config{Shell: missing}, args: Args{Command: "true"}, code: events.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if c.workspace == "" {
				c.workspace = t.TempDir()
			}
			r := runIn(t.Context(), t, c.config, c.workspace, c.args)
			if r.Effects != events.EffectsNone || r.Result.Error == nil || r.Result.Error.Code != c.code || r.Result.Error.Path != c.path {
				t.Errorf("%s %+v", r.Effects, r.Result.Error)
			}
		})
	}
	if r := bash(t, "echo "+strings.Repeat("a", MaxCommand-len("echo "))); r.Class != events.ClassOK {
		t.Errorf("the longest command: %+v", r.Result.Error)
	}
}

func TestCancelSaysWhy(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		waitFor(t, func() bool { return len(sleepers("64.5")) > 0 })
		cancel(errors.New("a person said stop"))
	}()
	r := runIn(ctx, t, Config{}, t.TempDir(), Args{Command: "echo so far; sleep 64.5"})
	if r.Class != events.ClassCancelled || !r.Confirmed || !strings.Contains(r.Result.Error.Message, "a person said stop") {
		t.Errorf("%+v %+v", r, r.Result.Error)
	}
	if r.Result.Text.Text != "so far\n" || len(sleepers("64.5")) > 0 {
		t.Errorf("text %q, still running %v", r.Result.Text.Text, sleepers("64.5"))
	}
}

func TestProgressAfterASecond(t *testing.T) {
	var got []events.Progress
	in := tools.Invocation{
		Call: events.CallKey{Trace: "t", Turn: "u"}, Attempt: 2, Workspace: t.TempDir(),
		Args: argsOf(t, Args{Command: "echo first; sleep 1.1; echo two; sleep 0.3"}),
	}
	r := tools.Execute(t.Context(), newTool(t, Config{}), in, tools.Options{Progress: func(p events.Progress) { got = append(got, p) }})
	want := []events.Progress{{Attempt: 2, Text: "10 bytes so far: two", Done: 10}}
	if d := cmp.Diff(want, got); d != "" || r.Class != events.ClassOK {
		t.Errorf("%s progress (-want +got):\n%s", r.Class, d)
	}
}

// waitFor polls for a fact about processes, which tell nobody that they change.
func waitFor(t testing.TB, fact func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !fact() {
		select {
		case <-tick.C:
		case <-late:
			t.Error("waited 20 s for a fact")
			return
		}
	}
}

// sleepers are the processes whose command line holds mark as an argument.
func sleepers(mark string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []int
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		args := strings.Split(string(b), "\x00")
		if err == nil && slices.Contains(args, mark) && !slices.Contains(args, "--norc") {
			var pid int
			_ = json.Unmarshal([]byte(filepath.Base(filepath.Dir(d))), &pid)
			out = append(out, pid)
		}
	}
	return out
}

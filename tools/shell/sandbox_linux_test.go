package shell

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
)

// boxes are the ways to contain that this machine has.
func boxes(t *testing.T) map[string]sandbox.Policy {
	t.Helper()
	m, err := sandbox.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]sandbox.Policy{}
	if m.Use.Namespaces {
		out["namespaces"] = sandbox.Policy{Use: m.Use}
	}
	if m.Use.Namespaces = false; m.Use.Landlock > 0 {
		out["landlock"] = sandbox.Policy{Use: m.Use}
	}
	for _, lack := range m.Lacks() {
		t.Logf("NOT TESTED: this machine lacks %s: %s", lack.Name, lack.Detail)
	}
	return out
}

// inNetwork runs a command of a node that lets tools use the network.
func inNetwork(ctx context.Context, t *testing.T, c Config, workspace, line string) tools.Report {
	t.Helper()
	in := tools.Invocation{
		Call: events.CallKey{Trace: "t", Turn: "u"}, Attempt: 1, Tool: Name, Args: argsOf(t, Args{Command: line}), Workspace: workspace, Network: true,
	}
	return tools.Execute(ctx, newTool(t, c), in, tools.Options{})
}

// TestReadingIsContainedMore: what runs unasked because it only reads could not write,
// and reaches no network, if the classifier were wrong.
func TestReadingIsContainedMore(t *testing.T) {
	for name, p := range boxes(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			quiet := Config{Sandbox: p}
			if r := runBare(t.Context(), t, Config{}, dir, Args{Command: "git init -q . && echo a > f && git add f && echo b > f"}); r.Class != events.ClassOK {
				t.Skipf("NOT TESTED: this machine has no git that works: %+v", r.Result)
			}
			// A program that git starts, in whatever way somebody may find to have it started.
			quiet.Env = map[string]string{"GIT_EXTERNAL_DIFF": "touch " + dir + "/ran; echo started"}
			for _, line := range []string{"git diff", ": > log; git diff"} { // the second one does not only read
				r := runBare(t.Context(), t, quiet, dir, Args{Command: line})
				if made := exists(filepath.Join(dir, "ran")); made == classify(line).Reads || !strings.Contains(r.Result.Text.Text, "started") {
					t.Errorf("%s: it wrote: %v; %q", line, made, r.Result.Text.Text)
				}
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestTheNetworkIsGranted only where the node has it, and to no reading command.
func TestTheNetworkIsGranted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	defer func() {
		l.Close()
		<-done
	}()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	line := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s && echo connected", host, port)
	for name, p := range boxes(t) {
		t.Run(name, func(t *testing.T) {
			with := inNetwork(t.Context(), t, Config{Sandbox: p}, t.TempDir(), line)
			without := runBare(t.Context(), t, Config{Sandbox: p}, t.TempDir(), Args{Command: line})
			if with.Class != events.ClassOK || without.Class == events.ClassOK {
				t.Errorf("with the network %+v, without %+v", with, without)
			}
		})
	}
}

// TestContainmentOfACall is what the log says of each call.
func TestContainmentOfACall(t *testing.T) {
	tool := newTool(t, Config{Sandbox: sandbox.Policy{Use: sandbox.Use{Namespaces: true, Landlock: 6, Seccomp: true, Limits: true}}})
	const all = "process-tree,userns,mountns,pidns,ipcns,utsns,netns,landlock6,nnp,rlimits,seccomp"
	for _, c := range []struct {
		line    string
		network bool
		want    string
	}{
		{"make", false, all},
		{"make", true, strings.Replace(all, "netns,", "", 1)},
		{"cat /w/f", true, all},
		{"ls", true, all}, // a reading command has no network
	} {
		if got := tool.Containment(tools.Invocation{Args: argsOf(t, Args{Command: c.line}), Workspace: "/w", Network: c.network}); got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	if got := newTool(t, Config{}).Containment(tools.Invocation{Args: argsOf(t, Args{Command: "make"})}); got != "process-tree" {
		t.Errorf("%q", got)
	}
}

// TestNoContainmentNoRun: what cannot be contained is a failure of which nothing ran. If
// that is for whoever named the workspace to mend, it says nothing against the tool.
func TestNoContainmentNoRun(t *testing.T) {
	all := boxes(t)
	all["bare"] = sandbox.Policy{}
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			p.Hide = []string{filepath.Join(dir, "data")}
			if err := os.MkdirAll(filepath.Join(dir, "data", "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			for workspace, want := range map[string]events.Class{
				filepath.Join(dir, "none"): events.ClassTool, file: events.ClassInvalid,
				p.Hide[0]: events.ClassInvalid, filepath.Join(p.Hide[0], "in"): events.ClassInvalid, "/": events.ClassInvalid,
			} {
				if name == "bare" && (workspace == "/" || strings.HasPrefix(workspace, p.Hide[0])) {
					continue // nothing keeps a command out of there
				}
				r := runBare(t.Context(), t, Config{Sandbox: p}, workspace, Args{Command: "touch " + dir + "/ran ran"})
				if r.Effects != events.EffectsNone || r.Class != want || r.Result.Error == nil || strings.Contains(r.Result.Error.Message, "input/output") ||
					exists(filepath.Join(dir, "ran")) || exists(filepath.Join(workspace, "ran")) {
					t.Errorf("%s: %+v %+v", workspace, r, r.Result.Error)
				}
			}
			if name == "bare" {
				return
			}
			p.Hide, p.Read = nil, []string{"relative"} // what the node's operator has to mend
			if r := runBare(t.Context(), t, Config{Sandbox: p}, dir, Args{Command: "touch ran"}); r.Class != events.ClassUnavailable || r.Effects != events.EffectsNone || exists(filepath.Join(dir, "ran")) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestProgressTellsWholeLines: of what comes in pieces the parts are not told.
func TestProgressTellsWholeLines(t *testing.T) {
	var l lastLine
	for _, step := range [][2]string{
		{"one\ntwo", "one"},
		{" and more", "one"},
		{"\n", "two and more"},
		{"\n  \n", "two and more"},
		{strings.Repeat("x", 300), "two and more"},
		{"y\nz", "two and more"},
		{"\n", "z"},
		{"a\nb\nc\nd", "c"},
		{strings.Repeat("q", maxLine-1) + "\n", "d" + strings.Repeat("q", maxLine-1)},
	} {
		if l.write([]byte(step[0])); l.whole != step[1] || len(l.part) > maxLine+1 {
			t.Errorf("after %.20q: %.40q, want %.40q", step[0], l.whole, step[1])
		}
	}
}

// TestNothingSurvivesInABox: all that is known of a command's end holds inside, too.
func TestNothingSurvivesInABox(t *testing.T) {
	for name, p := range boxes(t) {
		for i, tree := range []string{"setsid fork", "deaf to HUP and TERM", "by every door at once", "below a stopped one"} {
			t.Run(name+" "+tree, func(t *testing.T) {
				t.Parallel()
				mark := fmt.Sprintf("79.%d%d", len(name), i)
				r := runBare(t.Context(), t, Config{Sandbox: p}, t.TempDir(), Args{Command: fmt.Sprintf(trees[tree], mark) + "kill -9 $PPID 2>/dev/null; echo hi"})
				if left := sleepers(mark); len(left) > 0 || !r.Confirmed || r.Class != events.ClassOK || r.Result.Stats.More["swept"] == 0 {
					t.Errorf("%v still run: %+v", left, r)
				}
			})
		}
	}
}

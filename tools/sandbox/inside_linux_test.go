package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools/sandbox"
	"github.com/sluice-run/sluice/tools/shell/family"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("ATTACK"); name != "" {
		attack(name)
		return
	}
	leaks.Main(m)
}

// machine is what this machine has.
var machine = sync.OnceValues(func() (sandbox.Machine, error) { return sandbox.Look(background) })

// form is a way to contain, and whether this machine has it.
type form struct {
	name string
	use  sandbox.Use
	lack string
}

// forms are what the tests run in: nothing at all, what there is without namespaces,
// and everything.
func forms(t *testing.T) (bare, landlock, all form) {
	t.Helper()
	m, err := machine()
	if err != nil {
		t.Fatal(err)
	}
	landlock = form{name: "landlock", use: m.Use}
	landlock.use.Namespaces = false
	all = form{name: "namespaces", use: m.Use}
	for _, p := range m.Lacks() {
		switch p.Name {
		case "landlock", "seccomp", "nnp", "rlimits":
			landlock.lack = p.Name + ": " + p.Detail
		}
		all.lack = p.Name + ": " + p.Detail
	}
	return form{name: "bare"}, landlock, all
}

// need skips a test, loudly, where the machine lacks what it is about.
func (f form) need(t *testing.T) {
	t.Helper()
	if f.lack != "" {
		t.Skipf("NOT TESTED: this machine has no %s, since it lacks %s", f.name, f.lack)
	}
}

// ended is how a command ended.
type ended struct {
	out    string
	exit   int // -1: by a signal, or it is not known
	signal string
	left   []int
	lost   bool
}

// job is a command to run in a test.
type job struct {
	policy sandbox.Policy
	line   string
	env    []string
	limit  time.Duration // after which it is ended; 0: when it ends by itself
	until  func() bool   // polled: it is ended once this is so; nil: when it ends by itself
}

// run runs a command line contained by a policy.
func run(t testing.TB, j job) ended {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, w, err := family.NewPipe()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	go output.Read(func(b []byte) { text.Write(b) })
	j.policy.Read = append(j.policy.Read, filepath.Dir(me)) // this program is a command of many
	j.policy.Path = "/usr/sbin:/usr/bin:/sbin:/bin"
	f, err := family.Start(t.Context(), family.Launch{
		Path: "/bin/bash", Args: []string{"bash", "--norc", "-c", j.line}, Dir: j.policy.Workspace, Mark: "X=sandbox-test", Limit: time.Minute, Grace: time.Second,
		Env: append([]string{"PATH=" + j.policy.Path, "ME=" + me, "X=sandbox-test", "GORACE=atexit_sleep_ms=0"}, j.env...), Contain: j.policy,
	}, w, output)
	w.Close()
	if err != nil {
		output.Release()
		return ended{out: "not started: " + err.Error(), exit: -1}
	}
	var told <-chan time.Time
	if j.limit > 0 {
		told = time.After(j.limit)
	}
	waitEnd(f, told, j.until)
	_, left := f.Sweep(20 * time.Second)
	family.Within(20*time.Second, output.EOF())
	output.Release()
	f.Release(20 * time.Second)
	e := ended{out: text.String(), exit: -1, left: left, lost: f.Lost()}
	code, signal := f.Ending()
	if code != nil {
		e.exit = *code
	}
	e.signal = signal
	return e
}

func waitEnd(f *family.Family, told <-chan time.Time, until func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-f.Exited():
			return
		case <-told:
			return
		case <-tick.C:
			if until != nil && until() {
				return
			}
		}
	}
}

// dirs are a workspace and a directory outside of it.
func dirs(t testing.TB) (workspace, outside string) {
	t.Helper()
	top := t.TempDir()
	for _, d := range []*string{&workspace, &outside} {
		*d = filepath.Join(top, fmt.Sprintf("d%p", d))
		if err := os.Mkdir(*d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return workspace, outside
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

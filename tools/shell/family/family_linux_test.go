package family

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestTheKeeperEndsAllWhenItsNodeIsGone: nobody else would.
func TestTheKeeperEndsAllWhenItsNodeIsGone(t *testing.T) {
	f, output := keep75(t, Launch{Grace: 100 * time.Millisecond})
	waitFor(t, func() bool { return len(sleepers("75.95")) == 2 })
	_ = f.control.Close() // as the kernel does it for a process that was killed
	waitFor(t, func() bool { return len(sleepers("75.95")) == 0 })
	<-f.gone
	output.Release()
}

// TestTheKeeperEndsAllWhenItsNodeHangs: the deadline holds all the same.
func TestTheKeeperEndsAllWhenItsNodeHangs(t *testing.T) {
	f, output := keep75(t, Launch{Limit: 500 * time.Millisecond, Grace: 100 * time.Millisecond})
	<-f.empty
	if left := sleepers("75.95"); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
	if exit, signal := f.Ending(); exit != nil || signal != "SIGTERM" {
		t.Errorf("exit %v, signal %q", exit, signal)
	}
	f.Release(time.Second)
	output.Release()
}

// keep75 starts a family that nobody tells anything: two that sleep, one of them deaf.
func keep75(t *testing.T, l Launch) (*Family, *Pipe) {
	t.Helper()
	output, w, err := NewPipe()
	if err != nil {
		t.Fatal(err)
	}
	go output.Read(func([]byte) {})
	l.Path, l.Dir, l.Mark = "/bin/bash", t.TempDir(), "X=keep75"
	l.Args = []string{"bash", "-c", `(trap "" TERM; setsid sleep 75.95) & sleep 75.95`}
	l.Env = []string{"PATH=" + os.Getenv("PATH"), l.Mark}
	f, err := Start(t.Context(), l, w, output)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return f, output
}

// TestAKeeperIsNotOfItsFamily, though it descends from nobody else.
func TestAKeeperIsNotOfItsFamily(t *testing.T) {
	c := exec.Command("sleep", "75.97")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	k := &keeper{self: os.Getpid()}
	got := pids(k.family())
	if slices.Contains(got, k.self) || !slices.Contains(got, c.Process.Pid) {
		t.Errorf("%v, with itself %d and its child %d", got, k.self, c.Process.Pid)
	}
}

func TestReadStatOfStrangeNames(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a) R (b c")
	if err := os.Symlink("/bin/sleep", name); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name, "78")
	var noise bytes.Buffer
	c.Stderr = &noise
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := readStat(c.Process.Pid)
	if !ok || p.parent != os.Getpid() || p.start == 0 || p.dead() {
		t.Errorf("%+v %v", p, ok)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if _, ok := readStat(c.Process.Pid); ok {
		t.Error("a process that has gone has no line")
	}
	send(p, syscall.SIGKILL) // and nobody is signalled in its place
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

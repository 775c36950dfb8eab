package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/proc"
)

// patience is how long anything may take that has to come about by itself.
const patience = 60 * time.Second

// unhurried are flags of nodes that share a log and of which none dies: one that a busy
// machine lets wait for seconds is not taken for dead.
var unhurried = []string{"--ack-wait", "60s", "--presence", "20s"}

// poll waits until the fact is there.
func poll(t *testing.T, what string, fact func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited %v in vain: %s", patience, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended: %s", what)
		}
	}
}

// process is a program that runs.
type process struct {
	cmd  *exec.Cmd
	out  io.ReadCloser // nil where the output is recorded
	said proc.Text     // standard output, where it is recorded
	log  proc.Text     // standard error

	ended chan struct{} // closed when it has ended
	code  int           // exit code; -1 where a signal ended it. Set BEFORE ended is closed
}

// launch starts a program. Its output is recorded, or can be read where pipe says so.
func launch(t *testing.T, in io.Reader, pipe bool, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stderr = in, &p.log
	p.cmd.Env = proc.Env()
	var read *os.File
	if pipe {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read, p.out, p.cmd.Stdout = r, r, w
		defer w.Close()
	} else {
		p.cmd.Stdout = &p.said
	}
	run, err := proc.Start(p.cmd)
	if err != nil {
		if read != nil {
			_ = read.Close()
		}
		t.Fatal(err)
	}
	go func() {
		err := run.Wait()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			p.log.Write([]byte(err.Error()))
		}
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if read != nil {
			_ = read.Close()
		}
	})
	return p
}

// signal sends a signal; a process that has ended gets none.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process as a crash would, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	poll(t, "the process ends", p.over)
	return p.code
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// insist has a process that drains end at once: it is told again and again, since what comes
// right behind the first signal is taken for that one.
func (p *process) insist(t *testing.T) int {
	t.Helper()
	poll(t, "the process ends at once", func() bool {
		p.signal(syscall.SIGTERM)
		return p.over()
	})
	return p.code
}

// place is what outlives a process: a data directory, a workspace, a ledger.
type place struct {
	t                  *testing.T
	data, work, ledger string
	provoked           []string // what the test breaks in its log on purpose, as verify names it
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, data: filepath.Join(dir, "data"), work: filepath.Join(dir, "work"), ledger: filepath.Join(dir, "ledger.jsonl")}
	if err := os.Mkdir(p.work, 0o755); err != nil {
		t.Fatal(err)
	}
	p.afterwards()
	return p
}

// greeting is what a node says when it is ready.
type greeting struct {
	Event, HTTP, NATS, Sync, Boot string
	Generation                    int
}

// node is one process that serves.
type node struct {
	*process
	*api
	greeting
	place *place
	born  time.Time // when its process was started
	up    time.Time // when it was ready
}

// args are those of a node in the place; more come last, and win.
func (p *place) args(more ...string) []string {
	return append([]string{
		"serve", "--json", "--data", p.data, "--workspace", p.work, "--ledger", p.ledger, "--fixtures",
		"--http", "127.0.0.1:0", "--listen-nats", "127.0.0.1:0",
	}, more...)
}

// serve starts a node with the log embedded, and returns once it is ready.
func (p *place) serve(more ...string) *node {
	p.t.Helper()
	return p.start(p.args(more...)...)
}

// join starts a node whose log is kept by another server.
func (p *place) join(nats string, more ...string) *node {
	p.t.Helper()
	return p.start(append([]string{
		"serve", "--json", "--nats", nats, "--workspace", p.work, "--ledger", p.ledger, "--fixtures", "--http", "127.0.0.1:0",
	}, more...)...)
}

// start starts a node, and returns once it is ready. At the end of a test that
// has failed, the node's log is shown.
func (p *place) start(args ...string) *node {
	p.t.Helper()
	n := &node{born: time.Now(), place: p}
	n.process = launch(p.t, nil, true, filepath.Join(bin, "sluice-node"), args...)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("the log of node %s (exit %d):\n%s", n.Boot, n.code, tail(n.log.String(), 12_000))
		}
	})
	line, err := bufio.NewReader(n.out).ReadBytes('\n')
	n.up = time.Now()
	if err != nil || json.Unmarshal(line, &n.greeting) != nil || n.Event != "ready" {
		n.kill()
		p.t.Fatalf("the node does not get ready: %q, %v, exit %d", line, err, n.code)
	}
	n.api = &api{t: p.t, base: n.HTTP}
	if i := slices.Index(args, "--mcp-servers"); i >= 0 {
		n.serversUp(args[i+1])
	}
	return n
}

// tail is the end of a text.
func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// stop asks a node to drain, and returns its exit code.
func (n *node) stop() int {
	n.place.t.Helper()
	n.signal(syscall.SIGTERM)
	return n.wait(n.place.t)
}

// spoken is what a verb said before it ended.
type spoken struct {
	code     int
	out, err string
}

// verb runs a verb of sluice-node to its end.
func verb(t *testing.T, in string, args ...string) spoken {
	t.Helper()
	return program(t, in, filepath.Join(bin, "sluice-node"), args...)
}

func program(t *testing.T, in, path string, args ...string) spoken {
	t.Helper()
	p := launch(t, strings.NewReader(in), false, path, args...)
	code := p.wait(t)
	return spoken{code, p.said.String(), p.log.String()}
}

// must is verb for one that has to succeed; it returns what it printed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	s := verb(t, "", args...)
	if s.code != 0 {
		t.Fatalf("sluice-node %q: exit %d\n%s%s", args, s.code, s.out, s.err)
	}
	return s.out
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCommandsEndWithEverythingTheyStarted is about processes.
func TestCommandsEndWithEverythingTheyStarted(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	for _, c := range []struct {
		name string
		test func(*testing.T, *place, *node)
	}{
		{"a grandchild does not survive a cancel", grandchildCancelled},
		{"a deadline with some output is no success", deadlineWithOutput},
		{"a child left behind does not hold the answer", leftBehind},
		{"a cancel is in the log before any signal", cancelFirst},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := *n
			at.api = &api{t: t, base: n.base}
			c.test(t, p, &at)
		})
	}
}

// command submits a command line, agrees to it where that is asked for, and
// returns the turn once the command runs.
func (n *node) command(trace, line string, more ...any) view {
	n.t.Helper()
	a := args{"command": line}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	v := n.submit(turn{Trace: trace, Turn: "t", CanAsk: true, Calls: []call{{Tool: "bash", Args: a}}})
	poll(n.t, "the command runs or asks", func() bool {
		list := n.events(trace, "t")
		return len(of(list, "started", "0")) > 0 || len(of(list, "approval_requested", "0")) > 0 || len(of(list, "denied", "0")) > 0
	})
	if c := n.look(trace, "t").Calls[0]; c.State == "denied" {
		n.t.Fatalf("it is denied: %+v", c)
	}
	if len(of(n.events(trace, "t"), "started", "0")) == 0 {
		n.post("/v1/turns/"+trace+"/t/calls/0/approve", nil)
		n.until(trace, "t", "started", "0")
	}
	return v
}

// pidIn waits for a file with the id of a process.
func (p *place) pidIn(name string) (pid int) {
	p.t.Helper()
	poll(p.t, "a process id is in "+name, func() bool {
		text, err := os.ReadFile(filepath.Join(p.work, name))
		if err == nil && strings.HasSuffix(string(text), "\n") {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && pid > 0
	})
	return pid
}

// gone says whether a process has ended; a zombie has.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	return strings.HasPrefix(strings.TrimSpace(string(text[strings.LastIndexByte(string(text), ')')+1:])), "Z")
}

func grandchildCancelled(t *testing.T, p *place, n *node) {
	n.command("grandchild", "(echo $BASHPID > grandchild.pid; while :; do date >> m; sleep .02; done) & wait")
	pid := p.pidIn("grandchild.pid")
	poll(t, "it works", func() bool { return len(p.readOr("m")) > 0 })
	n.post("/v1/turns/grandchild/t/calls/0/cancel", nil)
	v := n.end("grandchild", "t")
	if c := v.Calls[0]; c.State != "cancelled" && c.State != "unknown" {
		t.Errorf("%+v", c)
	}
	if v.Calls[0].State == "cancelled" && !gone(pid) {
		t.Errorf("process %d still runs after cancelled", pid)
	}
	size := len(p.readOr("m"))
	quiet := time.NewTimer(300 * time.Millisecond)
	defer quiet.Stop()
	<-quiet.C
	if now := len(p.readOr("m")); now != size {
		t.Errorf("the file grew from %d to %d bytes after the call had ended", size, now)
	}
}

func (p *place) readOr(name string) string {
	text, err := os.ReadFile(filepath.Join(p.work, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func deadlineWithOutput(t *testing.T, p *place, n *node) {
	var v view
	for ms := 700; ; ms *= 3 { // long enough to begin in
		trace := fmt.Sprint("deadline-", ms)
		n.command(trace, "sleep 600 & echo $! > deadline.pid; echo partial; wait", "timeout_ms", ms)
		if v = n.end(trace, "t"); p.readOr("deadline.pid") != "" || ms > 30_000 {
			break
		}
	}
	pid := p.pidIn("deadline.pid")
	if c := v.Calls[0]; c.State != "timed_out" && c.State != "unknown" || c.Status == "success" || c.Effects == "none" {
		t.Errorf("%+v", c)
	}
	if !gone(pid) {
		t.Errorf("process %d still runs after the deadline", pid)
	}
	if a := answers(t, v.Messages)[0]; a.Answer == "success" {
		t.Errorf("the model is told %+v", a)
	}
}

func leftBehind(t *testing.T, p *place, n *node) {
	n.command("behind", "sleep 600 & echo $! > behind.pid; echo hi", "timeout_ms", forever)
	v := n.end("behind", "t") // long before the child
	v.Calls[0].is(t, "completed", "", "")
	if a := answers(t, v.Messages)[0]; !strings.Contains(a.Content.Text, "hi") {
		t.Errorf("%+v", a)
	}
	if pid := p.pidIn("behind.pid"); !gone(pid) {
		t.Errorf("process %d still runs after the call has ended", pid)
	}
}

func cancelFirst(t *testing.T, p *place, n *node) {
	n.command("first", "echo $$ > first.pid; while :; do sleep .02; done")
	p.pidIn("first.pid")
	n.post("/v1/turns/first/t/calls/0/cancel", nil)
	n.end("first", "t")
	list := n.events("first", "t")
	asked := of(list, "cancel_requested", "0")
	if len(asked) != 1 {
		t.Fatalf("%d cancel_requested", len(asked))
	}
	for _, e := range list {
		if terminals[e.kind()] && !before(t, asked[0].Position, e.Position) {
			t.Errorf("%s stands before the cancel", e.kind())
		}
	}
}

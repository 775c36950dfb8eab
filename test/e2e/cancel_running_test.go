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

// at is when an event was decided.
func (e event) at(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, e.Time)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// one is the only event of a kind of call 0.
func (n *node) one(trace, kind string) event {
	n.t.Helper()
	list := of(n.events(trace, "t"), kind, "0")
	if len(list) != 1 {
		n.t.Fatalf("%s: %d %s", trace, len(list), kind)
	}
	return list[0]
}

// script has a command run a file of the workspace: the policy lets a person say
// yes to that, and to none of what such files hold.
func (n *node) script(p *place, trace, text string, more ...any) {
	n.t.Helper()
	p.write(trace+".sh", "#!/bin/bash\n"+text+"\n")
	if err := os.Chmod(filepath.Join(p.work, trace+".sh"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.command(trace, "./"+trace+".sh", more...)
}

// growers are scripts with something that appends to m for ever. None of it
// may run 100 ms after the end.
var growers = map[string]string{
	"a background loop":    `(while :; do date >> m; sleep .01; done) & wait`,
	"setsid":               `setsid bash -c 'while :; do date >> m; sleep .01; done' & wait`,
	"nohup and gone":       `nohup bash -c 'while :; do date >> m; sleep .01; done' >/dev/null 2>&1 & sleep 60`,
	"double fork":          `( ( while :; do date >> m; sleep .01; done ) & ) ; sleep 60`,
	"a daemon":             `env -i PATH="$PATH" bash -c 'exec </dev/null >/dev/null 2>&1; (setsid bash -c "while :; do date >> m; sleep .01; done" &)'; sleep 60`,
	"deaf to SIGTERM":      `trap "" TERM HUP INT; while :; do date >> m; sleep .01; done`,
	"starts anew when hit": `setsid bash -c 'go() { while :; do date >> m; sleep .01; done; }; trap "go & exit" TERM; go' & wait`,
	"holds the output":     `bash -c 'while :; do date | tee -a m; sleep .01; done' & sleep 60`,
	"floods the output":    `(while :; do date >> m; sleep .01; done) & yes`,
}

// TestNothingRunsAfterCancelled, nor after any other end that is confirmed: by the
// event's own time, and that of the last change to the file.
func TestNothingRunsAfterCancelled(t *testing.T) {
	t.Parallel()
	for name, line := range growers {
		byDeadline := len(name)%3 == 0 // some of them
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			n := p.serve()
			n.script(p, "grows", line)
			poll(t, "it grows", func() bool { return len(p.readOr("m")) > 0 })
			end := "cancelled"
			if byDeadline {
				end = "timed_out"
				n.script(p, "late", strings.ReplaceAll(line, "m;", "late;"), "timeout_ms", 1_000)
			} else {
				n.script(p, "late", strings.ReplaceAll(line, "m;", "late;"))
				poll(t, "it grows", func() bool { return len(p.readOr("late")) > 0 })
				n.post("/v1/turns/late/t/cancel", nil)
			}
			n.post("/v1/turns/grows/t/calls/0/cancel", nil)
			n.end("grows", "t").Calls[0].is(t, "cancelled", "CANCELLED", "possible")
			n.end("late", "t").Calls[0].is(t, end, "", "possible")
			quiet := time.NewTimer(300 * time.Millisecond)
			defer quiet.Stop()
			<-quiet.C
			p.still("m", n.one("grows", "cancelled").at(t))
			p.still("late", n.one("late", end).at(t))
		})
	}
}

// still checks that a file has not changed more than 100 ms after a time.
func (p *place) still(name string, since time.Time) {
	p.t.Helper()
	info, err := os.Stat(filepath.Join(p.work, name))
	if err != nil {
		if name == "late" && os.IsNotExist(err) {
			return // its deadline came before it had begun
		}
		p.t.Fatal(err)
	}
	if d := info.ModTime().Sub(since); d > 100*time.Millisecond {
		p.t.Errorf("%s changed %v after the end", name, d)
	}
}

// TestACancelIsInTheLogBeforeAnySignal: the command notes when it gets one. On a
// machine that does much else it may be killed before it has noted anything, and
// then the next one is asked.
func TestACancelIsInTheLogBeforeAnySignal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	for i := range 10 {
		trace := fmt.Sprint("trap-", i)
		n.script(p, trace, `trap 'echo $EPOCHREALTIME > `+trace+`.hit; echo bye; exit 7' TERM; echo $$ > `+trace+`.pid; while :; do sleep .01; done`)
		p.pidIn(trace + ".pid")
		if r := n.post("/v1/turns/"+trace+"/t/calls/0/cancel", nil); r.Status != "accepted" {
			t.Errorf("%+v", r)
		}
		n.end(trace, "t").Calls[0].is(t, "cancelled", "CANCELLED", "possible")
		end := n.one(trace, "cancelled")
		if end.field("exit_status") != "7" {
			continue
		}
		us, err := strconv.ParseInt(strings.NewReplacer("\n", "", ".", "", ",", "").Replace(p.read(trace+".hit")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		asked := n.one(trace, "cancel_requested")
		if hit := time.UnixMicro(us); hit.Before(asked.at(t)) || hit.After(end.at(t)) {
			t.Errorf("asked %v, hit %v, ended %v", asked.at(t), hit, end.at(t))
		}
		if !strings.Contains(string(end.Data), "bye") {
			t.Errorf("the command's last words are lost: %s", end.Data)
		}
		return
	}
	t.Error("none of ten commands could say a word after its signal")
}

// TestADeafToolIsNotCalledCancelled: one that does not end is unknown, or harmless;
// what it says later is evidence.
func TestADeafToolIsNotCalledCancelled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	free := p.holdLedger() // what has to write there hears nothing
	defer free()
	n.stand("deaf", nil, call{Tool: "deaf_sleep", Args: args{"ms": forever, "until": "heard"}}, call{Tool: "echo", Args: args{"v": "beside"}})
	n.stand("paid", nil, charge("paid", 1))
	n.stand("late", map[string]int{"call_deadline_ms": 700}, charge("late", 1))
	for _, trace := range []string{"deaf", "paid"} {
		n.until(trace, "t", "started", "0")
		n.post("/v1/turns/"+trace+"/t/calls/0/cancel", nil)
	}
	for trace, effects := range map[string]string{"deaf": "none", "paid": "possible", "late": "possible"} {
		v := n.end(trace, "t")
		v.Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", effects)
		if why := n.one(trace, "unknown").field("why"); why != "termination_unconfirmed" {
			t.Errorf("%s: %s", trace, why)
		}
		for i, a := range answers(t, v.Messages) {
			if want := map[string]string{"none": "failed", "possible": "unknown"}[effects]; i == 0 && a.Answer != want {
				t.Errorf("%s: the model is told %+v", trace, a)
			}
		}
	}
	n.end("deaf", "t").Calls[1].is(t, "completed", "", "")
	free()
	p.write("heard", "")
	for _, trace := range []string{"deaf", "paid", "late"} {
		n.until(trace, "t", "late_result", "0")
	}
	for _, trace := range []string{"paid", "late"} {
		if c := n.look(trace, "t").Calls[0]; c.State != "unknown" || c.Effects != "possible" {
			t.Errorf("%s: the answer that was given has changed: %+v", trace, c)
		}
	}
	if got := p.effects(); len(got) != 2 { // which is why it was not called cancelled
		t.Errorf("the ledger has %+v", got)
	}
}

// TestAWatcherThatIsKilled: a command that kills the process which would prove its
// end gets no confirmed one, and the pid that may still run is named.
func TestAWatcherThatIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	n.script(p, "killer", `echo $$ > killer.pid
		watcher=$PPID; grep -qa sluice-keeper /proc/$watcher/cmdline || watcher=$(cut -d" " -f4 /proc/$watcher/stat)
		kill -9 $watcher; setsid sleep 60 & sleep 60`)
	v := n.end("killer", "t")
	v.Calls[0].is(t, "unknown", "", "possible")
	e := n.one("killer", "unknown")
	pid := p.pidIn("killer.pid")
	if e.field("why") != "termination_unconfirmed" || !strings.Contains(e.field("pids"), strconv.Itoa(pid)) {
		t.Errorf("pid %d: %s", pid, e.Data)
	}
	poll(t, fmt.Sprintf("process %d ends all the same", pid), func() bool { return gone(pid) })
}

// TestACommandEndsWithItsNode: a SIGKILL of the node ends what its commands had
// started, wherever that has gone, so that a next owner does not run beside it.
func TestACommandEndsWithItsNode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	n.script(p, "orphan", `env -i PATH="$PATH" setsid -f bash -c 'echo $$ > deep.pid; trap "" TERM; while :; do sleep .05; done' </dev/null >/dev/null 2>&1; echo $$ > top.pid; sleep 60`)
	pids := []int{p.pidIn("deep.pid"), p.pidIn("top.pid")}
	n.kill()
	for _, pid := range pids {
		poll(t, fmt.Sprintf("process %d ends", pid), func() bool { return gone(pid) })
	}
	n = p.serve()
	n.end("orphan", "t").Calls[0].is(t, "unknown", "", "possible")
}

// TestACancelDuringAProbe waits for the probe's word, which decides: here the ledger
// is a pipe that gives nothing until the test writes.
func TestACancelDuringAProbe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tells, state, effects string }{
		"it finds the effect": {"charged", "completed", "done"},
		"it finds no effect":  {"", "unknown", "possible"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			n := p.serve()
			n.stand("probe", nil, charge("probe", 1, "stall_ms", forever), call{Tool: "sleep", Args: args{"ms": forever}})
			poll(t, "it has charged", func() bool { return len(p.effects()) == 1 })
			n.kill()
			ledger := p.readLedger()
			if err := os.Remove(p.ledger); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(p.ledger, 0o600); err != nil {
				t.Fatal(err)
			}
			n = p.serve()
			n.until("probe", "t", "recovered", "0")
			if r := n.post("/v1/turns/probe/t/cancel", nil); r.Status != "accepted" {
				t.Errorf("%+v", r)
			}
			if s := n.look("probe", "t").Calls[0].State; terminals[s] {
				t.Errorf("it is %s before its probe has said anything", s)
			}
			f, err := os.OpenFile(p.ledger, os.O_WRONLY, 0) // waits for the probe
			if err != nil {
				t.Fatal(err)
			}
			if c.tells != "" {
				_, _ = f.WriteString(ledger)
			}
			_ = f.Close()
			v := n.end("probe", "t")
			v.Calls[0].is(t, c.state, "", c.effects)
			v.Calls[1].is(t, "cancelled", "CANCELLED", "none")
			if got := of(n.events("probe", "t"), "started", ""); len(got) != 1 {
				t.Errorf("%d starts", len(got))
			}
		})
	}
}

func (p *place) readLedger() string {
	p.t.Helper()
	text, err := os.ReadFile(p.ledger)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

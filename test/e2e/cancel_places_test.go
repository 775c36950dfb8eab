package e2e

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// waiting is a place where a call can stand when its end is asked for: make
// submits the turn trace/t, and returns once its call stands there.
type waiting struct {
	name     string
	make     func(n *node, p *place, trace string, limits map[string]int)
	call     string // its offset
	effects  string // once it has ended
	deadline string // how the turn's deadline ends it
}

// waitings are the places.
var waitings = []waiting{
	{"for a person", forPerson, "0", "none", "timed_out"},
	{"for a key", forKey, "0", "none", "timed_out"},
	{"for a lock", forLock, "0", "none", "timed_out"},
	{"for its batch", forBatch, "1", "none", "timed_out"},
	{"for room in its batch", forRoom, "1", "none", "timed_out"},
	{"for a retry", forRetry, "0", "none", "failed"}, // with a deadline nearer than the retry there is none
	{"running", running, "0", "none", "timed_out"},
	{"running in bash", runningBash, "0", "possible", "timed_out"},
}

// TestACancelReachesEveryPlace where a call can wait, and so does the turn's deadline.
func TestACancelReachesEveryPlace(t *testing.T) {
	t.Parallel()
	for _, w := range waitings {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			n := p.serve()
			w.make(n, p, "call", nil)
			if r := n.post("/v1/turns/call/t/calls/"+w.call+"/cancel", args{"reason": "enough"}); r.Status != "accepted" {
				t.Errorf("%+v", r)
			}
			n.until("call", "t", "cancelled", w.call)
			w.ended(n, "call", "cancelled", "cancel_requested")
			if r := n.post("/v1/turns/call/t/calls/"+w.call+"/cancel", nil); r.Status != "already_terminal" || r.State != "cancelled" {
				t.Errorf("again: %+v", r)
			}
			n.ask(http.MethodPost, "/v1/turns/call/t/cancel", nil) // of its siblings, if it has any
			n.end("call", "t")

			w.make(n, p, "turn", nil)
			if r := n.post("/v1/turns/turn/t/cancel", nil); r.Status != "accepted" {
				t.Errorf("the turn: %+v", r)
			}
			v := n.end("turn", "t")
			w.ended(n, "turn", "cancelled", "turn_cancel_requested")
			for _, c := range v.Calls {
				c.is(t, "cancelled", "", "")
			}

			w.make(n, p, "late", map[string]int{"deadline_ms": 1_000})
			v = n.end("late", "t")
			w.ended(n, "late", w.deadline, "")
			if got := answers(t, v.Messages); len(got) != len(v.Calls) {
				t.Errorf("%d answers to %d calls", len(got), len(v.Calls))
			}
		})
	}
}

// ended checks how the call ended, by the log: with one terminal, behind the
// event that asked for it, and no start behind that.
func (w waiting) ended(n *node, trace, state, asked string) {
	n.t.Helper()
	list := n.events(trace, "t")
	var ends []event
	for _, e := range list {
		if terminals[e.kind()] && strings.HasSuffix(e.Subject, "/"+w.call) {
			ends = append(ends, e)
		}
	}
	effects := w.effects
	if asked == "" && len(of(list, "started", w.call)) == 0 { // a slow machine: its deadline came before all else
		state, effects = "timed_out", "none"
	}
	if len(ends) != 1 || ends[0].kind() != state || ends[0].field("effects") != effects {
		n.t.Errorf("%s: %d terminals, want one, %s with effects %s: %+v", trace, len(ends), state, effects, ends)
		return
	}
	if asked == "" {
		return
	}
	why := of(list, asked, "")
	if len(why) != 1 || !before(n.t, why[0].Position, ends[0].Position) {
		n.t.Errorf("%s: %d %s, want one before the end", trace, len(why), asked)
		return
	}
	for _, e := range of(list, "started", w.call) {
		if before(n.t, why[0].Position, e.Position) {
			n.t.Errorf("%s: it was started after its cancel", trace)
		}
	}
}

// reach waits for an event of a call or, where a deadline is near, for its end.
func (n *node) reach(trace, kind, call string) {
	n.t.Helper()
	poll(n.t, "call "+call+" of "+trace+"/t: "+kind, func() bool {
		for _, e := range n.events(trace, "t") {
			if strings.HasSuffix(e.Subject, "/"+call) && (e.kind() == kind || terminals[e.kind()]) {
				return true
			}
		}
		return false
	})
}

func (n *node) stand(trace string, limits map[string]int, calls ...call) {
	n.t.Helper()
	n.submit(turn{Trace: trace, Turn: "t", CanAsk: true, Limits: limits, Calls: calls})
}

func forPerson(n *node, _ *place, trace string, limits map[string]int) {
	n.stand(trace, limits, ask(trace))
	poll(n.t, "the turn is parked", func() bool { s := n.look(trace, "t").State; return s == "parked" || s == "completed" })
}

func forKey(n *node, _ *place, trace string, limits map[string]int) {
	holder := turn{Trace: trace + "-holder", Turn: "t", Calls: []call{charge(trace, 1, "stall_ms", forever)}}
	n.submit(holder)
	n.reach(holder.Trace, "started", "0")
	n.stand(trace, limits, charge(trace, 1, "stall_ms", forever))
	n.reach(trace, "requested", "0")
	n.t.Cleanup(func() { _, _, _ = n.try(http.MethodPost, "/v1/turns/"+holder.Trace+"/t/cancel", nil) })
}

// forLock has one call hold a lock, whose tool waits for the ledger, and another want it.
func forLock(n *node, p *place, trace string, limits map[string]int) {
	if trace == "call" { // the first of them
		n.t.Cleanup(p.holdLedger())
	}
	holder := turn{Trace: trace + "-holder", Turn: "t", Calls: []call{{Tool: "reserve", Args: args{"item": trace}}}}
	n.submit(holder)
	n.reach(holder.Trace, "started", "0")
	n.stand(trace, limits, call{Tool: "reserve", Args: args{"item": trace}})
	n.reach(trace, "authorized", "0")
}

// holdLedger keeps the ledger's lock until it is told to free it.
func (p *place) holdLedger() (free func()) {
	p.t.Helper()
	f, err := os.OpenFile(p.ledger, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

func forBatch(n *node, _ *place, trace string, limits map[string]int) {
	n.stand(trace, limits, call{Tool: "sleep", Args: args{"ms": forever}}, charge(trace, 1))
	n.reach(trace, "started", "0")
}

func forRoom(n *node, _ *place, trace string, limits map[string]int) {
	all := map[string]int{"max_concurrency": 1}
	for k, v := range limits {
		all[k] = v
	}
	n.stand(trace, all, call{Tool: "sleep", Args: args{"ms": forever}}, call{Tool: "echo", Args: args{"v": trace}})
	n.reach(trace, "started", "0")
}

func forRetry(n *node, _ *place, trace string, limits map[string]int) {
	if limits != nil {
		limits = map[string]int{"deadline_ms": 40_000} // it need not pass: the retry would come behind it
	}
	n.stand(trace, limits, call{Tool: "flaky", Args: args{"fail_n": 1, "after_ms": 50_000}})
	n.reach(trace, "retrying", "0")
}

func running(n *node, _ *place, trace string, limits map[string]int) {
	n.stand(trace, limits, call{Tool: "sleep", Args: args{"ms": forever}})
	n.reach(trace, "started", "0")
}

func runningBash(n *node, _ *place, trace string, limits map[string]int) {
	n.stand(trace, limits, call{Tool: "Bash", Args: args{"command": "touch begun; sleep 60"}})
	n.reach(trace, "approval_requested", "0")
	n.ask(http.MethodPost, "/v1/turns/"+trace+"/t/calls/0/approve", nil)
	n.reach(trace, "started", "0")
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
)

// pending is an approval that waits.
type pending struct {
	Call struct {
		Trace, Turn string
		Call        int
	}
	Tool, Asks, Why string
	Hash            string `json:"args_hash"`
}

func (p pending) key() string { return fmt.Sprintf("%s/%s/%d", p.Call.Trace, p.Call.Turn, p.Call.Call) }

// path is where the call is in the API.
func (p pending) path() string {
	return fmt.Sprintf("/v1/turns/%s/%s/calls/%d", p.Call.Trace, p.Call.Turn, p.Call.Call)
}

// inbox waits until so many approvals wait in a trace, and returns them by call.
func (a *api) inbox(trace string, want int) []pending {
	a.t.Helper()
	var out []pending
	poll(a.t, fmt.Sprintf("%d approvals of %s wait", want, trace), func() bool {
		var list struct{ Approvals []pending }
		a.get("/v1/approvals", &list)
		out = make([]pending, 0, want)
		for _, p := range list.Approvals {
			if p.Call.Trace == trace {
				out = append(out, p)
			}
		}
		return len(out) == want
	})
	return out
}

func ask(v any) call { return call{Tool: "approve_me", Args: args{"v": v}} }

// agreed counts the ledger's lines for what was agreed to.
func (p *place) agreed(v any) int {
	p.t.Helper()
	n := 0
	for _, e := range p.effects() {
		if e.Tool == "approve_me" && fmt.Sprint(e.V) == fmt.Sprint(v) {
			n++
		}
	}
	return n
}

// TestApprovals are given out of order, by command line and over HTTP, each to
// the call that it is for, and only once.
func TestApprovals(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	for _, c := range []struct {
		name string
		test func(*testing.T, *place, *node)
	}{
		{"three at once, answered out of order", outOfOrder},
		{"one in the middle does not run its siblings again", inTheMiddle},
		{"a yes to other arguments is refused", otherHash},
		{"a yes with changed arguments passes the gates again", changedArguments},
		{"a yes for the session is for exactly that call", sessionScope},
		{"a file that changed after the yes is not run", operandChanged},
		{"nobody to ask is a denial", nobodyToAsk},
		{"what a person reads hides nothing", nothingHidden},
		{"an approval after a cancel is refused", afterCancel},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := *n
			at.api = &api{t: t, base: n.base}
			c.test(t, p, &at)
		})
	}
}

func outOfOrder(t *testing.T, p *place, n *node) {
	n.submit(turn{Trace: "three", Turn: "t", CanAsk: true, Calls: []call{ask("a"), ask("b"), ask("c")}})
	n.inbox("three", 3)
	poll(t, "the turn is parked", func() bool { return n.look("three", "t").State == "parked" })
	if out := must(t, "deny", "--data", p.data, "--note", "not this", "three/t/1"); !strings.Contains(out, "denied") {
		t.Errorf("deny says %q", out)
	}
	n.post("/v1/turns/three/t/calls/2/approve", nil)
	n.inbox("three", 1)
	must(t, "approve", "--data", p.data, "three/t/0")
	v := n.end("three", "t")
	v.Calls[0].is(t, "completed", "", "done")
	v.Calls[1].is(t, "denied", "APPROVAL_REJECTED", "none")
	v.Calls[2].is(t, "completed", "", "done")
	if a := answers(t, v.Messages)[1]; a.Answer != "denied" || !strings.Contains(a.Content.Error.Message, "not this") {
		t.Errorf("%+v", a)
	}
	if p.agreed("a") != 1 || p.agreed("b") != 0 || p.agreed("c") != 1 {
		t.Errorf("%+v", p.effects())
	}
	// The first decision counts; another one is told so.
	if status, _ := n.ask(http.MethodPost, "/v1/turns/three/t/calls/1/approve", nil); status != http.StatusConflict {
		t.Errorf("a yes after the no: %d", status)
	}
}

func inTheMiddle(t *testing.T, p *place, n *node) {
	n.submit(turn{Trace: "mid", Turn: "t", CanAsk: true, Calls: []call{
		{Tool: "reserve", Args: args{"item": "one"}}, ask("two"), {Tool: "reserve", Args: args{"item": "three"}},
	}})
	n.until("mid", "t", "completed", "0")
	n.inbox("mid", 1)
	poll(t, "the turn is parked", func() bool { return n.look("mid", "t").State == "parked" })
	n.post("/v1/turns/mid/t/calls/1/approve", nil)
	for _, c := range n.end("mid", "t").Calls {
		c.is(t, "completed", "", "done")
	}
	var order []string
	for _, e := range p.effects() {
		if strings.HasPrefix(e.Call, "mid/") {
			order = append(order, e.Call)
		}
	}
	if fmt.Sprint(order) != "[mid/t/0 mid/t/1 mid/t/2]" {
		t.Errorf("effects in the order %v", order)
	}
}

func otherHash(t *testing.T, p *place, n *node) {
	n.submit(turn{Trace: "hash", Turn: "t", CanAsk: true, Calls: []call{ask("h")}})
	w := n.inbox("hash", 1)[0]
	if status, body := n.ask(http.MethodPost, w.path()+"/approve", args{"args_hash": "sha256:00"}); status != http.StatusConflict {
		t.Errorf("%d %s", status, body)
	}
	if s := verb(t, "", "approve", "--data", p.data, "--hash", "sha256:00", w.key()); s.code == 0 || !strings.Contains(s.err, "hint:") {
		t.Errorf("%+v", s)
	}
	n.post(w.path()+"/approve", args{"args_hash": w.Hash})
	n.end("hash", "t").Calls[0].is(t, "completed", "", "done")
}

func changedArguments(t *testing.T, p *place, n *node) {
	n.submit(turn{Trace: "changed", Turn: "t", CanAsk: true, Calls: []call{ask("as asked"), ask("as asked 2")}})
	n.inbox("changed", 2)
	n.post("/v1/turns/changed/t/calls/0/approve", args{"args": args{"v": "as changed"}})
	if status, body := n.ask(http.MethodPost, "/v1/turns/changed/t/calls/1/approve", args{"args": args{"w": 1}}); status != http.StatusUnprocessableEntity {
		t.Errorf("arguments that the gates refuse: %d %s", status, body)
	}
	n.inbox("changed", 1) // and it waits on
	if s := verb(t, `{"w":1}`, "approve", "--data", p.data, "--args", "-", "changed/t/1"); s.code != 2 || !strings.Contains(s.err, "the call still waits") {
		t.Errorf("the verb, which asks the node: %+v", s)
	}
	n.post(n.inbox("changed", 1)[0].path()+"/deny", nil)
	v := n.end("changed", "t")
	v.Calls[0].is(t, "completed", "", "done")
	v.Calls[1].is(t, "denied", "APPROVAL_REJECTED", "none")
	if p.agreed("as asked") != 0 || p.agreed("as changed") != 1 {
		t.Errorf("%+v", p.effects())
	}
}

func sessionScope(t *testing.T, p *place, n *node) {
	n.submit(turn{Trace: "session-yes", Turn: "t1", CanAsk: true, Calls: []call{ask("again")}})
	n.inbox("session-yes", 1)
	must(t, "approve", "--data", p.data, "--session", "session-yes/t1/0")
	n.end("session-yes", "t1")
	n.run(turn{Trace: "session-yes", Turn: "t2", CanAsk: true, Calls: []call{ask("again")}}).Calls[0].is(t, "completed", "", "done")
	n.submit(turn{Trace: "session-yes", Turn: "t3", CanAsk: true, Calls: []call{ask("again!")}})
	w := n.inbox("session-yes", 1)[0]
	n.post(w.path()+"/deny", nil)
	n.end("session-yes", "t3").Calls[0].is(t, "denied", "APPROVAL_REJECTED", "none")
	v := n.run(turn{Trace: "session-yes", Turn: "t4", Calls: []call{ask("again"), ask("again!")}}) // nobody can be asked, or need be
	v.Calls[0].is(t, "completed", "", "done")
	v.Calls[1].is(t, "denied", "PERMISSION_DENIED", "none")
	n.submit(turn{Trace: "session-no", Turn: "t1", CanAsk: true, Calls: []call{ask("again")}})
	w = n.inbox("session-no", 1)[0] // another trace is asked
	n.post(w.path()+"/deny", nil)
	n.end("session-no", "t1")
	if p.agreed("again") != 3 || p.agreed("again!") != 0 {
		t.Errorf("%+v", p.effects())
	}
}

func operandChanged(t *testing.T, p *place, n *node) {
	p.write("s.sh", "echo harmless > ran.txt\n")
	// The first call keeps the second from starting until the script has changed.
	n.submit(turn{Trace: "operand", Turn: "t", CanAsk: true, Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}, {Tool: "bash", Args: args{"command": "sh ./s.sh"}}}})
	w := n.inbox("operand", 1)[0]
	n.post(w.path()+"/approve", args{"args_hash": w.Hash})
	n.until("operand", "t", "approved", "1")
	p.write("s.sh", "echo harmful > ran.txt\n")
	n.post("/v1/turns/operand/t/calls/0/cancel", nil)
	var c callView
	poll(t, "the second call is settled or asks again", func() bool {
		c = n.look("operand", "t").Calls[1]
		return c.State != "authorized" && c.State != "approved" && c.State != "started"
	})
	if c.State == "completed" || c.State == "denied" && c.Code != "CONFLICT" {
		t.Errorf("%+v", c)
	}
	if len(of(n.events("operand", "t"), "started", "1")) != 0 {
		t.Error("the changed script was run")
	}
	n.post("/v1/turns/operand/t/cancel", nil)
}

func nobodyToAsk(t *testing.T, _ *place, n *node) {
	n.run(turn{Calls: []call{ask("nobody")}}).Calls[0].is(t, "denied", "PERMISSION_DENIED", "none")
}

func nothingHidden(t *testing.T, p *place, n *node) {
	command := "mv a b #\u001b[2K\u001b[1Gls -la\u202e\u001b]52;c;aGk=\a\rpwd " + strings.Repeat("x", 3000) + " END"
	n.submit(turn{Trace: "hidden", Turn: "t", CanAsk: true, Calls: []call{{Tool: "bash", Args: args{"command": command}}, ask(command)}})
	v := n.look("hidden", "t")
	poll(t, "the calls are judged", func() bool {
		v = n.look("hidden", "t")
		return v.State == "parked" || v.State == "completed"
	})
	s := verb(t, "", "inbox", "--data", p.data)
	list := verb(t, "", "tail", "--data", p.data, "--from", "start", "--follow=false", "--trace", "hidden")
	for what, text := range map[string]string{"the inbox": s.out, "the tail": list.out} {
		for _, r := range text {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("%s shows %U", what, r)
				break
			}
		}
	}
	if !strings.Contains(s.out, "END") || !strings.Contains(s.out, "mv a b") {
		t.Errorf("the inbox does not show the whole: %s", s.out)
	}
	n.post("/v1/turns/hidden/t/cancel", nil)
	n.end("hidden", "t")
}

func afterCancel(t *testing.T, p *place, n *node) {
	n.submit(turn{Trace: "cancelled", Turn: "t", CanAsk: true, Calls: []call{ask("too late")}})
	w := n.inbox("cancelled", 1)[0]
	if out := must(t, "cancel", "--data", p.data, "--json", "cancelled/t"); !strings.Contains(out, "accepted") {
		t.Errorf("cancel says %q", out)
	}
	if status, body := n.ask(http.MethodPost, w.path()+"/approve", nil); status != http.StatusConflict {
		t.Errorf("%d %s", status, body)
	}
	n.end("cancelled", "t").Calls[0].is(t, "cancelled", "", "none")
	n.inbox("cancelled", 0)
	if p.agreed("too late") != 0 {
		t.Error("it was done all the same")
	}
}

// TestAnApprovalThatNobodyGivesExpires at its time, also over a restart.
func TestAnApprovalThatNobodyGivesExpires(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--approval", "1500ms")
	begin := time.Now()
	n.submit(turn{Trace: "expires", Turn: "here", CanAsk: true, Calls: []call{ask("x"), {Tool: "echo", Args: args{"v": "beside"}}}})
	n.submit(turn{Trace: "expires", Turn: "restart", CanAsk: true, Calls: []call{ask("y")}})
	n.until("expires", "here", "approval_requested", "0")
	n.until("expires", "restart", "approval_requested", "0")
	v := n.end("expires", "here")
	if d := time.Since(begin); d < 1500*time.Millisecond {
		t.Errorf("it expired after %v", d)
	}
	v.Calls[0].is(t, "denied", "APPROVAL_EXPIRED", "none")
	v.Calls[1].is(t, "completed", "", "")
	n.end("expires", "restart").Calls[0].is(t, "denied", "APPROVAL_EXPIRED", "none")

	n.kill()
	n = p.serve("--approval", "5s")
	n.submit(turn{Trace: "expires", Turn: "down", CanAsk: true, Calls: []call{ask("z")}})
	n.until("expires", "down", "approval_requested", "0")
	asked := of(n.events("expires", "down"), "approval_requested", "0")[0].at(t)
	poll(t, "the turn is parked, or it is too late", func() bool { s := n.look("expires", "down").State; return s == "parked" || s == "completed" })
	n.kill() // its time passes while nothing runs
	due := time.NewTimer(time.Until(asked.Add(5 * time.Second)))
	defer due.Stop()
	<-due.C
	n = p.serve()
	n.end("expires", "down").Calls[0].is(t, "denied", "APPROVAL_EXPIRED", "none")
	if len(p.effects()) != 0 {
		t.Errorf("%+v", p.effects())
	}
}

// TestApprovalsSurviveARestart: of a node that was killed, and of one that drained.
func TestApprovalsSurviveARestart(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	n.submit(turn{Trace: "kept", Turn: "t", CanAsk: true, Calls: []call{ask("a"), ask("b"), ask("c")}})
	before := n.inbox("kept", 3)
	n.kill()
	n = p.serve()
	if after := n.inbox("kept", 3); asText(t, after) != asText(t, before) {
		t.Errorf("the list was\n%s\nand is\n%s", asText(t, before), asText(t, after))
	}
	n.post("/v1/turns/kept/t/calls/1/approve", nil)
	poll(t, "the turn is parked again", func() bool { return n.look("kept", "t").State == "parked" })
	if code := n.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	// With no node, the command line gives the answers; the next node acts on them.
	must(t, "approve", "--data", p.data, "kept/t/0")
	must(t, "deny", "--data", p.data, "kept/t/2")
	n = p.serve()
	v := n.end("kept", "t")
	v.Calls[0].is(t, "completed", "", "done")
	v.Calls[1].is(t, "completed", "", "done")
	v.Calls[2].is(t, "denied", "APPROVAL_REJECTED", "none")
	if p.agreed("a") != 1 || p.agreed("b") != 1 || p.agreed("c") != 0 || len(p.effects()) != 2 {
		t.Errorf("%+v", p.effects())
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

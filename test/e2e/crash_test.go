package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// firstStart is how long after the new process was up the first of its calls
// started. at is the first one's time by the log.
func firstStart(t *testing.T, n *node, turns ...view) time.Duration {
	t.Helper()
	var first time.Time
	for _, v := range turns {
		for _, e := range of(n.events(v.Trace, v.Turn), "started", "") {
			at, err := time.Parse(time.RFC3339Nano, e.Time)
			if err != nil {
				t.Fatal(err)
			}
			if e.Boot == n.Boot && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	if first.IsZero() {
		t.Fatal("the new process has started no call")
	}
	return first.Sub(n.up)
}

// chain is what happened to a call, in words: kind, with the attempt where there is one.
func chain(list []event, call string) string {
	var out []string
	for _, e := range list {
		if !strings.HasSuffix(e.Subject, "/"+call) || strings.Count(e.Subject, "/") != 2 {
			continue
		}
		word := e.kind()
		switch word {
		case "started":
			word += " " + e.field("attempt")
		case "recovered":
			word += " " + e.field("action")
		case "requested", "authorized", "approval_requested", "approved", "progress":
			continue
		}
		out = append(out, word)
	}
	return strings.Join(out, ", ")
}

// middle is a set of turns, each of which can be met in the middle of its work.
type middle struct {
	read, charge, bash, rest, waits view
}

// intoTheMiddle submits the turns, and returns once each is where it should be.
func intoTheMiddle(t *testing.T, p *place, n *node) (m middle) {
	t.Helper()
	m.read = n.submit(turn{Trace: "mid-read", Turn: "t", Calls: []call{waits("killed"), {Tool: "echo", Args: args{"v": 1}}}})
	m.charge = n.submit(turn{Trace: "mid-charge", Turn: "t", Calls: []call{charge("mid", 1, "stall_ms", forever), charge("mid-next", 1)}})
	m.bash = n.submit(turn{Trace: "mid-bash", Turn: "t", CanAsk: true, Calls: []call{
		{Tool: "bash", Args: args{"command": "printf x >> ran.txt; sleep 600"}}, {Tool: "echo", Args: args{"v": 1}},
	}})
	m.rest = n.submit(turn{Trace: "mid-rest", Turn: "t", Calls: []call{
		{Tool: "reserve", Args: args{"item": "before"}}, charge("before", 1), waits("killed"), charge("after", 1),
	}})
	m.waits = n.submit(turn{Trace: "mid-waits", Turn: "t", Calls: []call{charge("mid", 1, "stall_ms", forever)}}) // for the key of mid-charge
	n.post(n.inbox("mid-bash", 1)[0].path()+"/approve", nil)
	n.until("mid-read", "t", "started", "0")
	n.until("mid-rest", "t", "started", "2")
	n.until("mid-bash", "t", "started", "0")
	n.until("mid-waits", "t", "requested", "0")
	poll(t, "the effects are there", func() bool {
		text, err := os.ReadFile(filepath.Join(p.work, "ran.txt"))
		return err == nil && len(text) == 1 && p.charged("mid") == 1
	})
	return m
}

// TestSIGKILLInTheMiddle: after a restart reads run again, what may have had its
// effect does not, and everything else runs once.
func TestSIGKILLInTheMiddle(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	done := n.run(turn{Trace: "done", Turn: "t", Calls: []call{charge("done", 1)}})
	m := intoTheMiddle(t, p, n)
	n.kill()
	p.write("killed", "")
	n = p.serve()

	read := n.end("mid-read", "t")
	charged := n.end("mid-charge", "t")
	bash := n.end("mid-bash", "t")
	rest := n.end("mid-rest", "t")
	waits := n.end("mid-waits", "t")
	d := firstStart(t, n, m.read, m.charge, m.bash, m.rest)
	t.Logf("the first call started %v after the new process was up, %v after it was started",
		d.Round(time.Millisecond), (d + n.up.Sub(n.born)).Round(time.Millisecond))

	inTime(t, n, read, charged, bash, rest, waits)
	for what, c := range map[string]struct{ got, want string }{
		"a read":                           {chain(n.events("mid-read", "t"), "0"), "started 1, recovered restart, started 2, completed"},
		"a call that had not started":      {chain(n.events("mid-read", "t"), "1"), "started 1, completed"},
		"an irreversible call":             {chain(n.events("mid-bash", "t"), "0"), "started 1, recovered unknown, unknown"},
		"an irreversible call, with probe": {chain(n.events("mid-charge", "t"), "0"), "started 1, recovered probe, completed"},
		"a call that had ended":            {chain(n.events("mid-rest", "t"), "1"), "started 1, completed"},
		"the read of a longer turn":        {chain(n.events("mid-rest", "t"), "2"), "started 1, recovered restart, started 2, completed"},
		"the last call of a longer turn":   {chain(n.events("mid-rest", "t"), "3"), "started 1, completed"},
	} {
		if got := strings.ReplaceAll(c.got, "recovered continue, ", ""); got != c.want {
			t.Errorf("%s: %s; want %s", what, got, c.want)
		}
	}
	for _, v := range []view{read, charged, rest} {
		for _, c := range v.Calls {
			c.is(t, "completed", "", "")
		}
	}
	bash.Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
	bash.Calls[1].is(t, "completed", "", "")
	waits.Calls[0].is(t, "deduplicated", "", "")
	if a := answers(t, bash.Messages)[0]; a.Answer != "unknown" {
		t.Errorf("the model is told %+v", a)
	}
	if p.read("ran.txt") != "x" {
		t.Errorf("the command ran %d times", len(p.read("ran.txt")))
	}
	for _, order := range []string{"done", "mid", "mid-next", "before", "after"} {
		if k := p.charged(order); k != 1 {
			t.Errorf("%s was charged %d times", order, k)
		}
	}
	if got := n.look(done.Trace, done.Turn); got.State != "completed" {
		t.Errorf("a turn that had ended: %+v", got)
	}
	for _, v := range []view{m.read, m.charge, m.bash, m.rest} {
		if why := lastClaim(n.events(v.Trace, v.Turn)); why != "taken_over" {
			t.Errorf("%s was claimed as %q", v.Trace, why)
		}
	}
	if n.Generation != 2 {
		t.Errorf("generation %d after an unclean start", n.Generation)
	}
	verified(t, p, n)
}

// backstop is when a turn looks again that waits for something of which it has not heard.
const backstop = 30 * time.Second

// inTime: no turn waited for a backstop.
func inTime(t *testing.T, n *node, turns ...view) {
	t.Helper()
	for _, v := range turns {
		list := n.events(v.Trace, v.Turn)
		at, err := time.Parse(time.RFC3339Nano, list[len(list)-1].Time)
		if err != nil {
			t.Fatal(err)
		}
		if d := at.Sub(n.up); d >= backstop {
			t.Errorf("%s ended only %v after the new process was up", v.Trace, d.Round(time.Millisecond))
		}
	}
}

func lastClaim(list []event) string {
	claims := of(list, "turn_claimed", "")
	if len(claims) == 0 {
		return ""
	}
	return claims[len(claims)-1].field("why")
}

// verified stops the node, and has all laws checked over the whole log.
func verified(t *testing.T, p *place, n *node) {
	t.Helper()
	if code := n.stop(); code != 0 {
		t.Errorf("the node's exit code is %d", code)
	}
	if s := program(t, "", replay(t), "verify", "--data", p.data); s.code != 0 {
		t.Errorf("sluice-replay verify: exit %d\n%s\n%s", s.code, tail(s.out, 4000), s.err)
	}
}

// TestSIGTERMDrains: what runs may end, nothing new starts, the turn goes to the next start.
func TestSIGTERMDrains(t *testing.T) {
	p := newPlace(t)
	n := p.serve("--drain", "10m")
	v := n.submit(turn{Trace: "drain", Turn: "t", Calls: []call{charge("first", 1, "stall_ms", forever, "until", "drains"), charge("second", 1)}})
	slow := n.submit(turn{Trace: "drain", Turn: "slow", Calls: []call{waits("drains"), {Tool: "echo", Args: args{"v": 1}}, charge("slow", 1)}})
	n.until("drain", "t", "started", "0")
	n.until("drain", "slow", "started", "0")
	poll(t, "the first charge is in the ledger", func() bool { return p.charged("first") == 1 })
	n.signal(syscall.SIGTERM)
	poll(t, "the node is not ready any more", func() bool {
		status, _, err := n.try(http.MethodGet, "/readyz", nil)
		return err == nil && status == http.StatusServiceUnavailable
	})
	p.write("drains", "")
	if code := n.wait(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if p.charged("first") != 1 || p.charged("second") != 0 || p.charged("slow") != 0 {
		t.Errorf("after the drain: %+v", p.effects())
	}
	if s := verb(t, "", "tail", "--data", p.data, "--from", "start", "--follow=false", "--kind", "completed", "--trace", "drain"); strings.Count(s.out, "\n") < 2 {
		t.Errorf("what ran has not ended: %s%s", s.out, s.err)
	}
	n = p.serve()
	for _, w := range []view{v, slow} {
		for _, c := range n.end(w.Trace, w.Turn).Calls {
			c.is(t, "completed", "", "")
			if c.Attempt != 1 {
				t.Errorf("%s, call %d: attempt %d", w.Turn, c.Call, c.Attempt)
			}
		}
		if why := lastClaim(n.events(w.Trace, w.Turn)); why != "drained" {
			t.Errorf("%s was claimed as %q", w.Turn, why)
		}
	}
	t.Logf("the first call started %v after the new process was up", firstStart(t, n, v, slow).Round(time.Millisecond))
	for _, order := range []string{"first", "second", "slow"} {
		if k := p.charged(order); k != 1 {
			t.Errorf("%s was charged %d times", order, k)
		}
	}
	if n.Generation != 1 {
		t.Errorf("generation %d after a clean end", n.Generation)
	}
	verified(t, p, n)
}

// TestASecondSIGTERMEndsAtOnce, whatever still runs.
func TestASecondSIGTERMEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--drain", "10m")
	n.submit(turn{Trace: "twice", Turn: "t", Calls: []call{{Tool: "deaf_sleep", Args: args{"ms": forever}}}})
	n.until("twice", "t", "started", "0")
	n.signal(syscall.SIGTERM)
	poll(t, "it drains", func() bool { return strings.Contains(n.log.String(), "draining") })
	if code := n.insist(t); code == 0 { // long before the drain's end
		t.Error("exit 0, though it has not drained")
	}
	n = p.serve()
	n.until("twice", "t", "recovered", "0")
	n.post("/v1/turns/twice/t/cancel", nil)
}

// TestAStoppedProcessIsNoDeadOne: SIGSTOP, and SIGCONT before anybody takes over.
func TestAStoppedProcessIsNoDeadOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	v := n.submit(turn{Trace: "stopped", Turn: "t", Calls: []call{charge("stopped", 1, "stall_ms", forever, "until", "stopped"), {Tool: "echo", Args: args{"v": 1}}}})
	n.until("stopped", "t", "started", "0")
	n.freeze()
	p.write("stopped", "")
	pause := time.NewTimer(4 * time.Second) // longer than its presence lives
	defer pause.Stop()
	<-pause.C
	n.thaw()
	for _, c := range n.end(v.Trace, v.Turn).Calls {
		c.is(t, "completed", "", "")
	}
	if k := p.charged("stopped"); k != 1 {
		t.Errorf("charged %d times", k)
	}
	if why := lastClaim(n.events(v.Trace, v.Turn)); why != "new" {
		t.Errorf("claimed as %q", why)
	}
}

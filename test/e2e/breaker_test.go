package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// down is a call of a tool that is unavailable while a file exists.
var down = turn{Calls: []call{{Tool: "down", Args: args{"path": "down.flag"}}}}

// started counts the attempts of a call.
func (n *node) started(v view, call string) int {
	n.t.Helper()
	return len(of(n.events(v.Trace, v.Turn), "started", call))
}

// TestACircuitOpensProbesOnceAndCloses: three failures of availability open it;
// the tool leaves the list; after the cooldown there is one probe, whoever asks.
func TestACircuitOpensProbesOnceAndCloses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const window = 10 * time.Second
	n := p.serve("--breaker-failures", "3", "--breaker-window", window.String())
	p.write("down.flag", "x")

	failures := 0
	for failures < 3 {
		v := n.run(down)
		c := v.Calls[0]
		k := n.started(v, "0")
		failures += k
		if c.State != "failed" && c.Code != "CIRCUIT_OPEN" || k == 0 {
			t.Fatalf("after %d failures: %d attempts, %+v", failures, k, c)
		}
	}
	if failures != 3 {
		t.Errorf("%d attempts failed before it opened", failures)
	}
	v := n.run(down)
	v.Calls[0].is(t, "denied", "CIRCUIT_OPEN", "none")
	if n.started(v, "0") != 0 {
		t.Error("it was started though the circuit is open")
	}
	if n.tools()["down"] || !n.tools()["echo"] {
		t.Error("the tool list does not show what is open")
	}
	n.run(turn{Calls: []call{{Tool: "echo", Args: args{"v": 1}}}}).Calls[0].is(t, "completed", "", "")

	poll(t, "the tool is listed again", func() bool { return n.tools()["down"] })
	for range 20 {
		n.tools() // asking changes nothing
	}
	apart(t, window, atOnce(t, n, 12))

	poll(t, "the tool is listed again", func() bool { return n.tools()["down"] })
	if err := os.Remove(filepath.Join(p.work, "down.flag")); err != nil {
		t.Fatal(err)
	}
	n.run(down).Calls[0].is(t, "completed", "", "")
	n.run(down).Calls[0].is(t, "completed", "", "")
}

// apart wants one probe, and another one, where the machine is slow, only after another window.
func apart(t *testing.T, window time.Duration, probes []time.Time) {
	t.Helper()
	slices.SortFunc(probes, time.Time.Compare)
	for i, at := range probes {
		if i > 0 && at.Sub(probes[i-1]) < window {
			t.Errorf("two calls were started within %v, one of them while the circuit was open", at.Sub(probes[i-1]))
		}
	}
	if len(probes) == 0 {
		t.Error("after the cooldown there was no probe")
	}
}

// atOnce submits many turns of four calls that all want the tool, and returns when
// attempts began. No call may succeed, and those that were not tried must say why.
func atOnce(t *testing.T, n *node, turns int) (attempts []time.Time) {
	t.Helper()
	four := down
	four.Calls = []call{down.Calls[0], down.Calls[0], down.Calls[0], down.Calls[0]}
	var all []view
	for i := range turns {
		four.Trace = fmt.Sprintf("after-%d", i)
		all = append(all, n.submit(four))
	}
	for _, s := range all {
		end, list := n.end(s.Trace, s.Turn), n.events(s.Trace, s.Turn)
		for i, c := range end.Calls {
			begun := of(list, "started", fmt.Sprint(i))
			for _, e := range begun {
				attempts = append(attempts, e.at(t))
			}
			if c.State == "completed" || len(begun) == 0 && c.Code != "CIRCUIT_OPEN" {
				t.Errorf("%s: %+v", s.Trace, c)
			}
		}
	}
	return attempts
}

// reach is a call of a tool that reaches a host.
func reach(host string) call { return call{Tool: "reach", Args: args{"host": host}} }

// TestADeadHostTakesNoToolAway: the circuit of one host opens, the tool goes on with every
// other one and stays in the list. Whoever is killed and comes back knows it; an operator
// sees it, and closes it or the tool as a whole.
func TestADeadHostTakesNoToolAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if err := os.Mkdir(filepath.Join(p.work, "down"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("down/dead.example", "x")
	n := p.serve("--breaker-window", "1h")
	for n.run(turn{Calls: []call{reach("dead.example")}}).Calls[0].Code != "CIRCUIT_OPEN" {
	}
	for range 2 { // the second time after a kill
		both := n.run(turn{Calls: []call{reach("dead.example"), reach("well.example")}})
		both.Calls[0].is(t, "denied", "CIRCUIT_OPEN", "none")
		both.Calls[1].is(t, "completed", "", "")
		if why := both.Calls[0].Reason; !strings.Contains(why, "dead.example has failed several times in a row") || !strings.Contains(why, "still reaches others") {
			t.Errorf("the model reads %q", why)
		}
		if !n.tools()["reach"] {
			t.Error("one host has taken the tool from the list")
		}
		if out := must(t, "breaker", "--data", p.data); !regexp.MustCompile(`(?m)^reach +dead\.example +open +3 `).MatchString(out) || strings.Contains(out, "well.example") {
			t.Errorf("%s", out)
		}
		n.kill()
		n = p.serve("--breaker-window", "1h")
	}
	if out := must(t, "breaker", "reset", "--data", p.data, "reach", "dead.example"); !strings.Contains(out, "reach dead.example: closed; it was open, with 3 failures") {
		t.Errorf("%s", out)
	}
	if err := os.Remove(filepath.Join(p.work, "down/dead.example")); err != nil {
		t.Fatal(err)
	}
	poll(t, "the host is reached again", func() bool {
		return n.run(turn{Calls: []call{reach("dead.example")}}).Calls[0].State == "completed"
	})
	must(t, "breaker", "open", "--data", p.data, "reach", "--for", "1h", "--reason", "maintenance")
	poll(t, "the tool as a whole is off", func() bool {
		c := n.run(turn{Calls: []call{reach("well.example")}}).Calls[0]
		return c.Code == "CIRCUIT_OPEN" && strings.Contains(c.Reason, "maintenance") && !n.tools()["reach"]
	})
	must(t, "breaker", "open", "--data", p.data, "reach", "a.example", "--for", "1h")
	if out := must(t, "breaker", "reset", "--data", p.data, "reach"); !strings.Contains(out, "1 circuits of its endpoints are closed, too") {
		t.Errorf("%s", out)
	}
	poll(t, "the tool is back", func() bool {
		v := n.run(turn{Calls: []call{reach("well.example"), reach("a.example")}})
		return v.Calls[0].State == "completed" && v.Calls[1].State == "completed"
	})
	n.kill()
	replayed(t, 0, "verify", "--data", p.data)
	replayed(t, 0, "fault", "--data", p.data, "--all", "--all-pairs", "--kind", "breaker-open")
}

// TestOnlyAvailabilityOpensACircuit: what the model does wrong is no evidence.
func TestOnlyAvailabilityOpensACircuit(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	p.write("a.txt", "text\n")
	for range 5 {
		v := n.run(turn{Calls: []call{
			{Tool: "Edit", Args: args{"path": "a.txt", "old_string": "nowhere", "new_string": "x"}},
			{Tool: "Edit", Args: args{"path": "../a.txt", "old_string": "a", "new_string": "x"}},
			{Tool: "Edit", Args: args{"path": 1}},
			{Tool: "sleep", Args: args{"ms": "x"}},
			{Tool: "read", Args: args{"path": "missing.txt"}},
		}})
		for _, c := range v.Calls {
			if c.Code == "CIRCUIT_OPEN" || c.State == "completed" {
				t.Fatalf("%+v", c)
			}
		}
	}
	s := n.submit(turn{Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}}})
	n.until(s.Trace, s.Turn, "started", "0")
	n.post("/v1/turns/"+s.Trace+"/"+s.Turn+"/cancel", nil)
	n.end(s.Trace, s.Turn)
	if list := n.tools(); !list["Edit"] || !list["sleep"] || !list["read"] {
		t.Errorf("the list lacks one: %v", list)
	}
	n.run(turn{Calls: []call{{Tool: "Edit", Args: args{"path": "a.txt", "old_string": "text", "new_string": "TEXT"}}}}).Calls[0].is(t, "completed", "", "done")
}

// TestAFlakyReadIsRetried, and its answer is that of the attempt that worked.
func TestAFlakyReadIsRetried(t *testing.T) {
	n := newPlace(t).serve()
	v := n.run(turn{Calls: []call{{Tool: "flaky", Args: args{"fail_n": 1}}}})
	v.Calls[0].is(t, "completed", "", "none")
	list := n.events(v.Trace, v.Turn)
	if a, r := len(of(list, "started", "0")), len(of(list, "retrying", "0")); a != 2 || r != 1 || v.Calls[0].Attempt != 2 {
		t.Errorf("%d attempts, %d retries, %+v", a, r, v.Calls[0])
	}
	if status, body := n.ask(http.MethodGet, "/metrics", nil); status != http.StatusOK || len(body) == 0 {
		t.Errorf("metrics: %d", status)
	}
}

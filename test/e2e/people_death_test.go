package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAYesAndThenADeath: the owner dies between a person's yes and the start, and
// behind the start.
func TestAYesAndThenADeath(t *testing.T) {
	t.Parallel()
	c := muster(t, 2)
	a, b := c.nodes[0], c.nodes[1]
	mine := func(name string, calls ...call) view { // a turn that node a owns while a person thinks
		for i := range 50 {
			v := a.submit(turn{Trace: fmt.Sprint(name, i), Turn: "t", CanAsk: true, Calls: append([]call{{Tool: "sleep", Args: args{"ms": forever}}}, calls...)})
			a.until(v.Trace, v.Turn, "started", "0")
			if of(a.events(v.Trace, v.Turn), "started", "0")[0].Boot == a.Boot {
				return v
			}
			a.post("/v1/turns/"+v.Trace+"/t/cancel", nil)
		}
		t.Fatal("the node takes no turn")
		return view{}
	}
	before := mine("yes-before", ask("before"), ask("no"))
	after := mine("yes-after", ask("after"), charge("yes-after", 1))
	for _, v := range []view{before, after} {
		b.inbox(v.Trace, map[string]int{before.Trace: 2, after.Trace: 1}[v.Trace])
		b.post(v.path(1)+"/approve", nil)
	}
	b.post(before.path(2)+"/deny", nil)
	release := c.hold()
	a.post(after.path(0)+"/cancel", nil)
	b.until(after.Trace, "t", "started", "1")
	a.kill()
	release()

	v := b.end(after.Trace, "t") // it had started, and nobody can tell
	v.Calls[1].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
	v.Calls[2].is(t, "completed", "", "done")
	b.until(before.Trace, "t", "recovered", "0")
	b.post(before.path(0)+"/cancel", nil)
	v = b.end(before.Trace, "t")
	v.Calls[1].is(t, "completed", "", "done")
	v.Calls[2].is(t, "denied", "APPROVAL_REJECTED", "none")
	if c.agreed("before") != 1 || c.agreed("after") != 0 || c.agreed("no") != 0 || c.charged("yes-after") != 1 {
		t.Errorf("%+v", c.effects())
	}
	for _, w := range []view{before, after} {
		if k := len(of(b.events(w.Trace, "t"), "approval_requested", "1")); k != 1 {
			t.Errorf("%s was asked about %d times", w.Trace, k)
		}
	}
	proven(t, c.nats.URL())
}

// TestYesesUnderRandomDeaths: a random node dies at once behind each yes.
func TestYesesUnderRandomDeaths(t *testing.T) {
	t.Parallel()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("reproduce: go test ./test/e2e -run YesesUnderRandomDeaths -seed=%d", s)
	r := rand.New(rand.NewPCG(s, 3))
	c := muster(t, 3)
	const rounds, each = 4, 5
	name := func(i, k int) string { return fmt.Sprintf("y%d-%d", i, k) }
	for i := range rounds {
		for k := range each {
			c.node(k).submit(turn{Trace: fmt.Sprint("yes", i), Turn: name(i, k), CanAsk: true, Calls: []call{ask(name(i, k)), {Tool: "reserve", Args: args{"item": name(i, k)}}}})
		}
		for _, w := range c.node(i).inbox(fmt.Sprint("yes", i), each) {
			c.node(r.IntN(3)).post(w.path()+"/approve", nil)
		}
		at := r.IntN(3)
		c.nodes[at].kill()
		c.nodes = append(c.nodes[:at], c.nodes[at+1:]...)
		c.add()
	}
	states := map[string]int{}
	for i := range rounds {
		for k := range each {
			v := c.node(k).end(fmt.Sprint("yes", i), name(i, k))
			states[v.Calls[0].State]++
			switch n := c.agreed(name(i, k)); {
			case n > 1, n == 0 && v.Calls[0].State == "completed", v.Calls[0].State != "completed" && v.Calls[0].Effects != "possible":
				t.Errorf("%s: %+v, done %d times", name(i, k), v.Calls[0], n)
			}
			if list := c.node(k).events(v.Trace, v.Turn); len(of(list, "approved", "0")) != 1 || len(of(list, "approval_requested", "0")) != 1 {
				t.Errorf("%s: %s", name(i, k), chain(list, "0"))
			}
		}
	}
	t.Logf("%v", states)
	proven(t, c.nats.URL())
}

// anotherRelease builds the node with one line of its source written otherwise:
// what a later release may have changed.
func anotherRelease(t *testing.T, file, old, now string) (path string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), old) != 1 {
		t.Fatalf("%s has %q not just once (%v): the test wants its new form", file, old, err)
	}
	dir := t.TempDir()
	overlay := filepath.Join(dir, "overlay.json")
	changed := filepath.Join(dir, "changed.go")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(strings.Replace(string(text), old, now, 1)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "sluice-node")
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", path, "../../cmd/node").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestAYesIsForWhatWasAskedAbout: the policy, or the tool, is another one when the
// yes comes. It is asked about anew, and the first yes runs nothing.
func TestAYesIsForWhatWasAskedAbout(t *testing.T) {
	t.Parallel()
	for what, path := range map[string]string{
		"policy": anotherRelease(t, "policy/cedar/cedar.go", `const Engine = "`, `const Engine = "e2e `),
		"tool":   anotherRelease(t, "tools/fixture/effects.go", `Tier: events.Approval,`, `Tier: events.Approval, Version: "e2e",`),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := muster(t, 1)
			for i := range 2 {
				c.node(0).submit(turn{Trace: what, Turn: fmt.Sprint("t", i), CanAsk: true, Calls: []call{{Tool: "reserve", Args: args{"item": what}}, ask(what)}})
			}
			c.node(0).inbox(what, 2)
			c.parked(what, "t0")
			c.parked(what, "t1")
			must(t, "approve", "--nats", c.nats.URL(), what+"/t0/1") // for whoever comes next
			poll(t, "the old release runs it", func() bool { return c.agreed(what) == 1 })
			c.node(0).stop()
			must(t, "approve", "--nats", c.nats.URL(), what+"/t1/1") // nobody of the old release hears it
			n := c.startAs(path, "serve", "--json", "--nats", c.nats.URL(), "--workspace", c.work, "--ledger", c.ledger, "--fixtures", "--http", "127.0.0.1:0")
			asked := func() []event { return of(n.events(what, "t1"), "approval_requested", "1") }
			poll(t, "it is asked about again", func() bool { return len(asked()) == 2 })
			n.inbox(what, 1)
			if k := c.agreed(what); k != 1 {
				t.Errorf("the first yes ran it: done %d times", k)
			}
			n.post("/v1/turns/"+what+"/t1/calls/1/approve", nil)
			for _, k := range n.end(what, "t1").Calls {
				k.is(t, "completed", "", "done")
			}
			if list := n.events(what, "t1"); len(of(list, "approved", "1")) != 2 || len(of(list, "started", "0")) != 1 || c.agreed(what) != 2 {
				t.Errorf("%s; done %d times", chain(list, "1"), c.agreed(what))
			}
			proven(t, c.nats.URL())
		})
	}
}

// startAs is start for a node of another release.
func (p *place) startAs(path string, args ...string) *node {
	p.t.Helper()
	n := &node{born: time.Now(), place: p, process: launch(p.t, nil, true, path, args...)}
	line, err := bufio.NewReader(n.out).ReadBytes('\n')
	if n.up = time.Now(); err != nil || json.Unmarshal(line, &n.greeting) != nil || n.Event != "ready" {
		n.kill()
		p.t.Fatalf("the other release does not get ready: %q, %v:\n%s", line, err, n.log.String())
	}
	n.api = &api{t: p.t, base: n.HTTP}
	return n
}

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair is two nodes that share nothing but a NATS server and a disk.
func pair(t *testing.T, more ...string) (p *place, a, b *node, url string) {
	t.Helper()
	url = newKeeper(t).URL()
	p = newPlace(t)
	return p, p.join(url, more...), p.join(url, more...), url
}

// owned submits turns until one is owned by the node, and returns that one. Each
// has a first call that takes as long as it is let.
func owned(t *testing.T, by *node, name string, calls func(i int) []call) (v view, i int) {
	t.Helper()
	for i = range 50 {
		v = by.submit(turn{Trace: fmt.Sprintf("%s-%d", name, i), Turn: "t", Calls: calls(i)})
		by.until(v.Trace, v.Turn, "started", "0")
		if of(by.events(v.Trace, v.Turn), "started", "0")[0].Boot == by.Boot {
			return v, i
		}
		by.post("/v1/turns/"+v.Trace+"/"+v.Turn+"/cancel", nil)
	}
	t.Fatal("the node takes no turn")
	return view{}, 0
}

// TestASurvivorTakesOver what another node did when it was killed.
func TestASurvivorTakesOver(t *testing.T) {
	t.Parallel()
	p, a, b, url := pair(t, "--ack-wait", "10m") // it is the presence that tells
	read, _ := owned(t, a, "over-read", func(int) []call {
		return []call{waits("killed"), {Tool: "echo", Args: args{"v": 1}}}
	})
	paid, i := owned(t, a, "over-charge", func(i int) []call {
		return []call{charge(fmt.Sprint("over-", i), 1, "stall_ms", forever), charge(fmt.Sprint("next-", i), 1)}
	})
	poll(t, "the charge is in the ledger", func() bool { return p.charged(fmt.Sprint("over-", i)) == 1 })
	a.kill()
	begin := time.Now()
	p.write("killed", "")
	for _, v := range []view{read, paid} {
		for _, c := range b.end(v.Trace, v.Turn).Calls {
			c.is(t, "completed", "", "")
		}
		for _, e := range of(b.events(v.Trace, v.Turn), "turn_claimed", "")[1:] {
			at, err := time.Parse(time.RFC3339Nano, e.Time)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: claimed (%s) %v after the kill", v.Trace, e.field("why"), at.Sub(begin).Round(time.Millisecond))
		}
	}
	if got := strings.ReplaceAll(chain(b.events(read.Trace, "t"), "0"), "recovered continue, ", ""); got != "started 1, recovered restart, started 2, completed" {
		t.Errorf("the read: %s", got)
	}
	if p.charged(fmt.Sprint("over-", i)) != 1 || p.charged(fmt.Sprint("next-", i)) != 1 {
		t.Errorf("%+v", p.effects())
	}
	proven(t, url)
}

// proven has all laws checked over the log of a NATS server.
func proven(t *testing.T, url string) {
	t.Helper()
	if s := program(t, "", replay(t), "verify", "--nats", url); s.code != 0 {
		t.Errorf("sluice-replay verify: exit %d\n%s\n%s", s.code, tail(s.out, 4000), s.err)
	}
}

// TestAZombieSettlesNothing: a node that was stopped, and goes on after another
// one has taken its turn over.
func TestAZombieSettlesNothing(t *testing.T) {
	t.Parallel()
	p, a, b, url := pair(t)
	v, i := owned(t, a, "zombie", func(i int) []call {
		return []call{waits("stopped"), charge(fmt.Sprint("zombie-", i), 1)}
	})
	a.freeze()
	p.write("stopped", "")
	for _, c := range b.end(v.Trace, v.Turn).Calls {
		c.is(t, "completed", "", "")
	}
	a.thaw()
	poll(t, "the zombie has been heard", func() bool {
		list := b.events(v.Trace, v.Turn)
		return len(of(list, "late_result", "0")) > 0 || strings.Contains(a.log.String(), v.Trace)
	})
	for _, e := range b.events(v.Trace, v.Turn) {
		if e.Boot == a.Boot && len(of([]event{e}, "late_result", "")) == 0 && !before(t, e.Position, of(b.events(v.Trace, v.Turn), "turn_claimed", "")[1].Position) {
			t.Errorf("the old owner wrote %s at %s, after it had lost the turn", e.kind(), e.Position)
		}
	}
	if k := p.charged(fmt.Sprint("zombie-", i)); k != 1 {
		t.Errorf("charged %d times", k)
	}
	proven(t, url)
}

// TestOneKeyOnTwoNodes: calls with the same key at the same instant on two nodes
// run once, and both get the result; also where the winner dies.
func TestOneKeyOnTwoNodes(t *testing.T) {
	p, a, b, url := pair(t)
	const rounds = 15
	for i := range rounds {
		order := fmt.Sprintf("race-%d", i)
		var wg sync.WaitGroup
		for _, n := range []*node{a, b} {
			wg.Go(func() {
				n.submit(turn{Trace: "race-" + n.Boot, Turn: fmt.Sprint("t", i), Calls: []call{charge(order, 1, "stall_ms", 20)}})
			})
		}
		wg.Wait()
	}
	for i := range rounds {
		states := map[string]int{}
		for _, n := range []*node{a, b} {
			states[a.end("race-"+n.Boot, fmt.Sprint("t", i)).Calls[0].State]++
		}
		if states["completed"] != 1 || states["deduplicated"] != 1 || p.charged(fmt.Sprintf("race-%d", i)) != 1 {
			t.Errorf("round %d: %v, charged %d times", i, states, p.charged(fmt.Sprintf("race-%d", i)))
		}
	}

	same := func(i int) []call { return []call{charge(fmt.Sprint("winner-", i), 1, "stall_ms", forever)} }
	won, i := owned(t, a, "winner", same)
	lost := b.submit(turn{Trace: "loser", Turn: "t", Calls: same(i)})
	b.until("loser", "t", "requested", "0")
	a.kill()
	first := b.end(won.Trace, won.Turn).Calls[0]
	second := b.end(lost.Trace, lost.Turn).Calls[0]
	first.is(t, "completed", "", "done")
	second.is(t, "deduplicated", "", "")
	if k := p.charged(fmt.Sprint("winner-", i)); k != 1 {
		t.Errorf("charged %d times", k)
	}
	proven(t, url)
}

// TestOneProbeInTheWholeCluster after the cooldown.
func TestOneProbeInTheWholeCluster(t *testing.T) {
	t.Parallel()
	const window = 3 * time.Second
	p, a, b, _ := pair(t, append(unhurried, "--breaker-window", window.String())...)
	p.write("down.flag", "x")
	for a.tools()["down"] || b.tools()["down"] {
		a.run(down)
	}
	poll(t, "the tool is listed again", func() bool { return a.tools()["down"] && b.tools()["down"] })
	var wg sync.WaitGroup
	attempts := make([][]time.Time, 2)
	for i, n := range []*node{a, b} {
		wg.Go(func() { attempts[i] = atOnce(t, n, 6) })
	}
	wg.Wait()
	apart(t, window, append(attempts[0], attempts[1]...))
}

// TestALostServerIsWaitedFor: the NATS server goes away in the middle of turns,
// and comes back.
func TestALostServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newKeeper(t)
	p := newPlace(t)
	n := p.join(s.URL())
	v := n.submit(turn{Trace: "lost", Turn: "t", Calls: []call{charge("lost", 1, "stall_ms", forever, "until", "lost"), {Tool: "sleep", Args: args{"ms": 50}}, charge("found", 1)}})
	n.until("lost", "t", "started", "0")
	s.Stop()
	p.write("lost", "")
	poll(t, "the node says that it is not ready", func() bool {
		status, _, err := n.try(http.MethodGet, "/readyz", nil)
		return err == nil && status == http.StatusServiceUnavailable
	})
	var wg sync.WaitGroup
	wg.Go(func() { // it is kept once there is a log, or refused so that it can be repeated
		status, body, err := n.try(http.MethodPost, "/v1/turns", turn{Trace: "meanwhile", Turn: "t", Calls: []call{charge("meanwhile", 1)}})
		if err != nil || status >= 300 && status != http.StatusServiceUnavailable {
			t.Errorf("a submission without a log: %d %s, %v", status, body, err)
		}
	})
	s.Start()
	wg.Wait()
	for _, c := range n.end(v.Trace, v.Turn).Calls {
		c.is(t, "completed", "", "")
	}
	n.run(turn{Trace: "meanwhile", Turn: "t", Calls: []call{charge("meanwhile", 1)}}).Calls[0].is(t, "completed", "", "done")
	for _, order := range []string{"lost", "found", "meanwhile"} {
		if k := p.charged(order); k != 1 {
			t.Errorf("%s was charged %d times", order, k)
		}
	}
	proven(t, s.URL())
}

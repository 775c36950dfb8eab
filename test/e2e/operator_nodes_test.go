package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// crewView is what sluice-node nodes --json says, by the documentation.
type crewView struct {
	Nodes []struct {
		Boot, Name, State string
		Owned             int
		Says              *struct {
			Placements      []string
			Turns, Attempts int
			Draining        bool
			AckWaitMS       int `json:"ack_wait_ms"`
			Running         []struct{ Call string }
		}
		ClockMS *float64 `json:"clock_ms"`
	}
	Running, Gone, Parked, Unclaimed struct{ Turns int }
	Turns                            []struct{ Turn, State, Boot string }
	Warnings                         []string
}

// crewOf asks who is there, as an operator would.
func crewOf(t *testing.T, url string, more ...string) (c crewView) {
	t.Helper()
	out := must(t, append([]string{"nodes", "--nats", url, "--json"}, more...)...)
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return c
}

// state is what is said of a node; "" where it is not named.
func (c crewView) state(n *node) string {
	for _, v := range c.Nodes {
		if v.Boot == n.Boot {
			return v.State
		}
	}
	return ""
}

// turn is what is said of a turn.
func (c crewView) turn(key string) (state, boot string) {
	for _, v := range c.Turns {
		if v.Turn == key {
			return v.State, v.Boot
		}
	}
	return "", ""
}

// TestOperatorsSeeWhoOwnsWhat while nodes live, drain and die.
func TestOperatorsSeeWhoOwnsWhat(t *testing.T) {
	t.Parallel()
	_, a, b, url := pair(t, "--drain", "50s")
	held, _ := owned(t, a, "seen", func(int) []call {
		return []call{{Tool: "sleep", Args: args{"ms": forever}}, {Tool: "echo", Args: args{"v": 1}}}
	})
	key := held.Trace + "/" + held.Turn
	var c crewView
	poll(t, "both are there", func() bool {
		c = crewOf(t, url, "--turns")
		return c.state(a) == "live" && c.state(b) == "live" && len(c.Nodes) == 2
	})
	if state, boot := c.turn(key); state != "running" || boot != a.Boot {
		t.Errorf("turn %s is %s, of %s", key, state, boot)
	}
	for _, n := range c.Nodes {
		if n.Boot == a.Boot && (n.Owned == 0 || n.Says == nil || n.Says.Attempts == 0 || n.ClockMS == nil || n.Says.AckWaitMS != 15_000 ||
			!strings.Contains(fmt.Sprint(n.Says.Running), key+"/0")) {
			t.Errorf("%+v", n)
		}
	}

	a.signal(syscall.SIGSTOP)
	poll(t, "the stopped node does not answer", func() bool {
		state := crewOf(t, url, "--log=false").state(a)
		return state == "silent" || state == "" // which it is once its presence has expired
	})
	a.signal(syscall.SIGCONT)
	poll(t, "it answers again", func() bool { return crewOf(t, url, "--log=false").state(a) == "live" })

	c = crewOf(t, url, "--turns")
	owner, other := a, b
	if _, boot := c.turn(key); boot == b.Boot { // the machine was slow: it was taken over meanwhile
		owner, other = b, a
	}
	owner.kill()
	poll(t, "its turn is the other one's", func() bool {
		state, boot := crewOf(t, url, "--turns").turn(key)
		return state == "running" && boot == other.Boot
	})
	poll(t, "it is not named any more", func() bool { return crewOf(t, url).state(owner) == "" })
	other.signal(syscall.SIGTERM)
	poll(t, "the other one drains", func() bool { return crewOf(t, url, "--log=false").state(other) == "draining" })
	other.insist(t)
	c = crewOf(t, url)
	if c.state(other) != "drained" || c.Running.Turns != 0 || c.Gone.Turns != 1 {
		t.Errorf("%+v", c)
	}
}

// TestACircuitIsTheClusters: what an operator does to it, every node goes by.
func TestACircuitIsTheClusters(t *testing.T) {
	t.Parallel()
	p, a, b, url := pair(t, unhurried...)
	p.write("down.flag", "x")
	for a.tools()["down"] || b.tools()["down"] {
		a.run(down)
	}
	if out := must(t, "breaker", "--nats", url); !strings.Contains(out, "down  -        open") {
		t.Errorf("%s", out)
	}
	if v := b.run(down); v.Calls[0].Code != "CIRCUIT_OPEN" {
		t.Errorf("%+v", v.Calls[0])
	}
	if err := os.Remove(filepath.Join(p.work, "down.flag")); err != nil {
		t.Fatal(err)
	}
	must(t, "breaker", "reset", "--nats", url, "down")
	poll(t, "both list the tool again", func() bool { return a.tools()["down"] && b.tools()["down"] })
	for _, n := range []*node{a, b} {
		poll(t, "it runs", func() bool { return n.run(down).Calls[0].State == "completed" })
	}
	status, body := a.ask("POST", "/v1/breakers/echo/open", args{"for_ms": 600_000, "principal": "ann", "reason": "maintenance"})
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	poll(t, "both leave it out", func() bool { return !a.tools()["echo"] && !b.tools()["echo"] })
	poll(t, "the other one denies it", func() bool {
		v := b.run(turn{Calls: []call{{Tool: "echo", Args: args{"v": 1}}}})
		return v.Calls[0].Code == "CIRCUIT_OPEN" && strings.Contains(v.Calls[0].Reason, "maintenance")
	})
	proven(t, url)
}

// TestAnUndoIsMadeOnce, whichever node is asked, and however often at the same time.
func TestAnUndoIsMadeOnce(t *testing.T) {
	t.Parallel()
	p, a, b, url := pair(t, unhurried...)
	const seats = 6
	for i := range seats {
		trace := fmt.Sprint("seat-", i)
		v := a.run(turn{Trace: trace, Turn: "t", Calls: []call{{Tool: "reserve", Args: args{"item": trace}}}})
		v.Calls[0].is(t, "completed", "", "done")
		said := make(chan string, 6)
		for j := range cap(said) {
			go func() {
				n := []*node{a, b}[j%2]
				_, body, err := n.try("POST", v.path(0)+"/compensate", args{"principal": fmt.Sprint("p", j%3), "wait_ms": 60_000})
				said <- fmt.Sprint(string(body), err)
			}()
		}
		for range cap(said) {
			if s := <-said; !strings.Contains(s, `compensated"`) || !strings.HasSuffix(s, "<nil>") {
				t.Errorf("%s: %s", trace, s)
			}
		}
		lines := 0 // the reservation is one, and giving it back is another
		for _, e := range p.effects() {
			if e.Tool == "reserve" && e.Item == trace {
				lines++
			}
		}
		if lines != 2 {
			t.Errorf("%s was given back %d times", trace, lines-1)
		}
	}
	out := must(t, "compensate", "--nats", url, "seat-0/t/0")
	if !strings.Contains(out, "compensated already, by p") {
		t.Errorf("%s", out)
	}
	list := a.events("seat-0", "t")
	if i := slices.IndexFunc(list, func(e event) bool { return e.kind() == "compensated" }); i != len(list)-1 {
		t.Errorf("compensated is event %d of %d", i, len(list))
	}
	proven(t, url)
}

// TestTakeOverWithoutPresence: with presence switched off the queue's AckWait is what
// tells that a node has died.
func TestTakeOverWithoutPresence(t *testing.T) {
	t.Parallel()
	p, a, b, url := pair(t, "--presence", "off", "--ack-wait", "3s")
	v, _ := owned(t, a, "unseen", func(int) []call { return []call{waits("killed")} })
	a.kill()
	p.write("killed", "")
	died := time.Now()
	b.end(v.Trace, v.Turn).Calls[0].is(t, "completed", "", "none")
	claims := of(b.events(v.Trace, v.Turn), "turn_claimed", "")
	last := claims[len(claims)-1]
	at, err := time.Parse(time.RFC3339Nano, last.Time)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("claimed (%s) by %s %v after the death of its owner", last.field("why"), last.Boot, at.Sub(died).Round(time.Millisecond))
	if last.Boot != b.Boot || last.field("why") != "taken_over" {
		t.Errorf("%+v", last)
	}
	c := crewOf(t, url)
	if c.state(a) != "" || c.Gone.Turns != 0 {
		t.Errorf("%+v", c)
	}
}

// ackWait is what the queue's consumer has for its AckWait; 0 where there is none.
func ackWait(t *testing.T, url string) time.Duration {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(t.Context(), "SLUICE_TURNS", "turns_default")
	if err != nil {
		return 0
	}
	return c.CachedInfo().Config.AckWait
}

// TestARetentionThatWouldShortenTheLog is refused, and one that is longer, or left out, leaves
// what is in force; files that differ are told of, and a node that drains does not count.
func TestARetentionThatWouldShortenTheLog(t *testing.T) {
	t.Parallel()
	url := newKeeper(t).URL()
	p := newPlace(t)
	a := p.join(url, "--name", "a", "--retention", "900h")
	s := verb(t, "", "serve", "--nats", url, "--http", "none", "--workspace", p.work, "--retention", "65s", "--key-retention", "62s", "--approval", "30s")
	if s.code != 2 || !strings.Contains(s.err, "keeps an event for 900h0m0s") || !strings.Contains(s.err, "--change-retention") {
		t.Errorf("exit %d: %s", s.code, s.err)
	}
	b := p.join(url, "--name", "b", "--retention", "2000h", "--limits", limitsFile(t, "limits: [{id: few, tool: echo, rate: 1/h}]"))
	if log := b.log.String(); !strings.Contains(log, "shorter time than --retention says") || !strings.Contains(log, "retention=900h0m0s") {
		t.Errorf("it says %s", log)
	}
	poll(t, "it says in what they differ", func() bool { return strings.Contains(b.log.String(), "differ in limits (a: none since ") })
	m := make(metrics)
	m.scrape(a)
	for _, name := range []string{"sluice_policy_info", "sluice_nodes_unlike_seconds", "sluice_log_retention_seconds", "sluice_turns_unserved"} {
		if m[name] == nil {
			t.Errorf("no node tells %s", name)
		}
	}
	b.stop()
	_, body := a.ask("GET", "/metrics", nil)
	if c := crewOf(t, url); c.state(b) != "drained" || !strings.Contains(string(body), "\nsluice_nodes 1\n") || !strings.Contains(string(body), "\nsluice_log_retention_seconds 3.24e+06\n") {
		t.Errorf("it is %s, and another one tells\n%s", c.state(b), body)
	}
}

// TestNodesThatDifferSaySo: each of them. The queue goes by the one that came last.
func TestNodesThatDifferSaySo(t *testing.T) {
	t.Parallel()
	url := newKeeper(t).URL()
	p := newPlace(t)
	a := p.join(url, "--name", "a")
	poll(t, "the queue has the first one's", func() bool { return ackWait(t, url) == 15*time.Second })
	b := p.join(url, "--name", "b", "--ack-wait", "40s")
	poll(t, "the second one says so", func() bool {
		return strings.Contains(b.log.String(), "not alike") && strings.Contains(b.log.String(), "ack-wait") && strings.Contains(b.log.String(), "a: 15s")
	})
	poll(t, "the queue has the second one's", func() bool { return ackWait(t, url) == 40*time.Second })
	poll(t, "the first one says so", func() bool {
		return strings.Contains(a.log.String(), "another ack-wait") && strings.Contains(a.log.String(), "its=40s own=15s")
	})
	poll(t, "an operator is told", func() bool {
		return slices.ContainsFunc(crewOf(t, url).Warnings, func(w string) bool { return strings.Contains(w, "differ in ack-wait (a: 15s, b: 40s)") })
	})
}

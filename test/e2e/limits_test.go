package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// standing is what GET /v1/limits says, by the documentation.
type standing struct {
	Limits []struct {
		ID      string
		Here    bool
		Buckets []struct {
			Principal string
			Holders   []struct{ Call, Boot string }
			Waiting   int
			Tokens    *int
		}
	}
}

// holders are the calls that hold a slot of a limit with one bucket, by their nodes.
func (n *node) holders(limit string) map[string]string {
	n.t.Helper()
	var s standing
	n.get("/v1/limits", &s)
	out := make(map[string]string)
	for _, l := range s.Limits {
		for _, b := range l.Buckets {
			for _, h := range b.Holders {
				if l.ID == limit {
					out[h.Call] = h.Boot
				}
			}
		}
	}
	return out
}

func limitsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mostAtOnce is how many calls of some turns ran at once at the most, by the order of the
// log: from its start to its end, or to a take-over.
func mostAtOnce(t *testing.T, n *node, turns []view) (most, starts int) {
	t.Helper()
	var all []event
	for _, v := range turns {
		all = append(all, n.events(v.Trace, v.Turn)...)
	}
	place := func(e event) (at [3]int) {
		for i, part := range strings.SplitN(e.Position, ".", 3) {
			at[i], _ = strconv.Atoi(part)
		}
		return at
	}
	slices.SortFunc(all, func(a, b event) int {
		x, y := place(a), place(b)
		return slices.Compare(x[:], y[:])
	})
	running := make(map[string]bool)
	for _, e := range all {
		switch e.kind() {
		case "started":
			running[e.Subject] = true
			starts++
			if e.field("limits") == "" {
				t.Errorf("%s was started without its limit: %s", e.Subject, e.Data)
			}
		case "completed", "failed", "timed_out", "cancelled", "unknown", "retrying", "recovered":
			delete(running, e.Subject)
		}
		most = max(most, len(running))
	}
	return most, starts
}

// TestALimitHoldsAcrossNodes: 50 calls at once come to three nodes that may run three of
// them. Never more run, all of them end, also where a node that holds slots is killed, and
// where all of them are started anew.
func TestALimitHoldsAcrossNodes(t *testing.T) {
	t.Parallel()
	file := limitsFile(t, "limits: [{id: few, tool: sleep, concurrency: 3, wait: 10m}]")
	c := muster(t, 3, "--limits", file)
	var turns []view
	for i := range 50 { // they do not end before all are there, and one of the nodes is gone
		turns = append(turns, c.node(i).submit(turn{Trace: fmt.Sprintf("crowd-%d", i), Calls: []call{waits("killed")}}))
	}
	var boot string
	poll(t, "a node that holds slots", func() bool {
		boots := slices.Collect(maps.Values(c.node(0).holders("few")))
		if len(boots) > 0 {
			boot = boots[0]
		}
		return boot != ""
	})
	at := slices.IndexFunc(c.nodes, func(n *node) bool { return n.Boot == boot })
	c.nodes[at].kill()
	c.nodes = slices.Delete(c.nodes, at, at+1)
	c.write("killed", "")
	for _, v := range turns {
		end := c.node(0).end(v.Trace, v.Turn)
		end.Calls[0].is(t, "completed", "", "none")
	}
	most, starts := mostAtOnce(t, c.node(0), turns)
	if most > 3 || most < 2 || starts < 50 {
		t.Errorf("%d ran at once, and %d were started", most, starts)
	}
	poll(t, "every slot is given back", func() bool { return len(c.node(0).holders("few")) == 0 })
}

// TestSlotsOutliveARestart: what was started keeps its slot while its nodes are away, and
// whoever takes the call over goes on in it.
func TestSlotsOutliveARestart(t *testing.T) {
	t.Parallel()
	file := limitsFile(t, "limits: [{id: one, tool: sleep, concurrency: 1, wait: 10m}]")
	c := muster(t, 2, "--limits", file)
	first := c.node(0).submit(turn{Trace: "first", Calls: []call{waits("restarted")}})
	c.node(0).until(first.Trace, first.Turn, "started", "0")
	second := c.node(1).submit(turn{Trace: "second", Calls: []call{{Tool: "sleep", Args: args{"ms": 1}}}})
	c.restart()
	c.write("restarted", "")
	for _, v := range []view{first, second} {
		c.node(0).end(v.Trace, v.Turn).Calls[0].is(t, "completed", "", "none")
	}
	if most, _ := mostAtOnce(t, c.node(0), []view{first, second}); most != 1 {
		t.Errorf("%d ran at once", most)
	}
}

// TestARateHoldsAcrossNodes: of calls that do not wait, as many begin as the burst has.
func TestARateHoldsAcrossNodes(t *testing.T) {
	t.Parallel()
	file := limitsFile(t, `
limits:
  - {id: slow, tool: echo, rate: 5/h}
  - {id: each, principal: "bot-*", each: true, tool: echo, rate: 2/h}
`)
	c := muster(t, 3, append(unhurried, "--limits", file)...)
	count := func(who string, n int) (ran int) {
		var turns []view
		for i := range n {
			turns = append(turns, c.node(i).submit(turn{Principal: who, Calls: []call{{Tool: "echo", Args: args{"v": i}}}}))
		}
		for _, v := range turns {
			switch got := c.node(0).end(v.Trace, v.Turn).Calls[0]; {
			case got.State == "completed":
				ran++
			case got.State != "denied" || got.Code != "RATE_LIMITED":
				t.Errorf("%+v", got)
			}
		}
		return ran
	}
	if a, b, rest := count("bot-a", 6), count("bot-b", 6), count("ann", 12); a != 2 || b != 2 || rest != 1 {
		t.Errorf("%d, %d and %d have run, want 2, 2 and 1", a, b, rest)
	}
	var s standing
	c.node(1).get("/v1/limits", &s)
	if len(s.Limits) != 2 || len(s.Limits[0].Buckets) != 2 || s.Limits[0].Buckets[1].Principal != "bot-b" || *s.Limits[1].Buckets[0].Tokens != 0 {
		t.Errorf("%+v", s)
	}
}

// TestLimitsAreReadAnew at a signal, and not where they do not load.
func TestLimitsAreReadAnew(t *testing.T) {
	t.Parallel()
	file := limitsFile(t, "limits: [{id: one, tool: echo, rate: 1/h}]")
	n := newPlace(t).serve("--limits", file)
	echo := turn{Calls: []call{{Tool: "echo", Args: args{"v": 1}}}}
	n.run(echo).Calls[0].is(t, "completed", "", "none")
	n.run(echo).Calls[0].is(t, "denied", "RATE_LIMITED", "none")
	for _, step := range []struct{ text, log, state, code string }{
		{"limits: [{id: one, rte: 9/h}]", "the file of limits was not read anew", "denied", "RATE_LIMITED"},
		{"limits: [{id: one, tool: echo, rate: 9/h}]", "the file of limits was read anew", "completed", ""},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.signal(syscall.SIGHUP)
		poll(t, step.log, func() bool { return strings.Contains(n.log.String(), step.log) })
		n.run(echo).Calls[0].is(t, step.state, step.code, "none")
	}
}

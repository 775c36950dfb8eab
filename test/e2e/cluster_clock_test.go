package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

// TestClocksAnHourApart: one node's clock is an hour ahead, one an hour behind. What
// they owe to each other's times — deadlines, approvals, circuits, keys, turns that
// change hands — comes as if they agreed.
func TestClocksAnHourApart(t *testing.T) {
	t.Parallel()
	if err := faultsBuilt(); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, cluster.Config{Node: faultsPath()})
	right := c.skewed("right", "0s")
	ahead := c.skewed("ahead", "1h")
	slow := c.skewed("slow", "-1h")
	for _, x := range []struct {
		name string
		test func(*testing.T, *three, []*member)
	}{
		{"a turn that is taken over", skewedTakeover},
		{"one key at two nodes", skewedKey},
		{"an approval that nobody gives", skewedApproval},
		{"a circuit opens and closes for all", skewedBreaker},
		{"a deadline", skewedDeadline}, // the last one: its time-outs count against the tool
	} {
		t.Run(x.name, func(t *testing.T) {
			at := *c
			at.t, at.place = t, &place{t: t, work: c.Workspace(), ledger: c.Ledger()}
			var all []*member
			for _, n := range []*member{right, ahead, slow} {
				all = append(all, &member{n.Node, &api{t: t, base: n.base}})
			}
			x.test(t, &at, all)
		})
	}
	proven(t, c.URL())
}

// skewed starts a node whose machine's clock is off.
func (c *three) skewed(name, by string) *member {
	c.t.Helper()
	return c.node(cluster.NodeConfig{
		Name: name, Env: []string{"SLUICE_TEST_CLOCK=" + by},
		Args: []string{"--placements", "default," + name, "--approval", "3s", "--breaker-window", "2s"},
	})
}

// across does something for every pair of nodes: the one whose door takes a turn, and
// the one that runs it.
func across(nodes []*member, do func(door, runs *member, name string)) {
	for _, door := range nodes {
		for _, runs := range nodes {
			if door != runs {
				do(door, runs, door.Name()+"-"+runs.Name())
			}
		}
	}
}

// skewedDeadline: a turn's deadline is the door's time and the owner's business.
func skewedDeadline(t *testing.T, c *three, nodes []*member) {
	across(nodes, func(door, runs *member, name string) {
		door.placed(runs.Name(), turn{
			Trace: "far-" + name, Turn: "t", Limits: map[string]int{"deadline_ms": 120_000},
			Calls: []call{{Tool: "sleep", Args: args{"ms": 50}}, charge("far-"+name, 1)},
		})
		door.placed(runs.Name(), turn{
			Trace: "near-" + name, Turn: "t", Limits: map[string]int{"deadline_ms": 1_500},
			Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}, charge("near-"+name, 1)},
		})
	})
	across(nodes, func(door, _ *member, name string) {
		for _, call := range door.end("far-"+name, "t").Calls {
			call.is(t, "completed", "", "")
		}
		v := door.end("near-"+name, "t") // a clock an hour behind would let it sleep on
		if v.Calls[0].State != "timed_out" && v.Calls[0].State != "cancelled" {
			t.Errorf("near-%s: %+v", name, v.Calls[0])
		}
		if v.Calls[1].State == "completed" || c.place.charged("near-"+name) != 0 || c.place.charged("far-"+name) != 1 {
			t.Errorf("%s: %+v, charged %d and %d times", name, v.Calls[1], c.place.charged("near-"+name), c.place.charged("far-"+name))
		}
	})
}

// skewedApproval: what nobody answers expires in time, not at once and not in an hour;
// and what is answered in time runs.
func skewedApproval(t *testing.T, c *three, nodes []*member) {
	across(nodes, func(door, runs *member, name string) {
		door.placed(runs.Name(), turn{Trace: "yes-" + name, Turn: "t", CanAsk: true, Calls: []call{ask("yes-" + name)}})
		poll(t, "yes-"+name+" is approved, or it is too late", func() bool {
			status, _ := door.ask(http.MethodPost, "/v1/turns/yes-"+name+"/t/calls/0/approve", nil)
			return status < 300 || door.look("yes-"+name, "t").State == "completed"
		})
	})
	across(nodes, func(door, runs *member, name string) {
		door.placed(runs.Name(), turn{Trace: "none-" + name, Turn: "t", CanAsk: true, Calls: []call{ask("none-" + name)}})
	})
	across(nodes, func(door, _ *member, name string) {
		v := door.end("yes-"+name, "t")
		if s := v.Calls[0].State; s == "completed" != (c.place.agreed("yes-"+name) == 1) || s != "completed" && v.Calls[0].Code != "APPROVAL_EXPIRED" {
			t.Errorf("yes-%s: %+v, %d in the ledger", name, v.Calls[0], c.place.agreed("yes-"+name))
		}
		door.end("none-"+name, "t").Calls[0].is(t, "denied", "APPROVAL_EXPIRED", "none")
	})
}

// skewedBreaker: a circuit that one node has opened is open for the others, for its
// window and no longer.
func skewedBreaker(t *testing.T, c *three, nodes []*member) {
	for _, opens := range nodes {
		c.place.write("down.flag", "x")
		poll(t, "the circuit is open at all nodes", func() bool {
			for _, n := range nodes {
				if n.tools()["down"] {
					opens.placed(opens.Name(), turn{Calls: down.Calls})
					return false
				}
			}
			return true
		})
		c.must(os.Remove(filepath.Join(c.place.work, "down.flag")))
		for _, n := range nodes {
			poll(t, "after "+opens.Name()+" opened it, "+n.Name()+" has the tool again", func() bool { return n.tools()["down"] })
		}
		poll(t, "it works again", func() bool { return opens.run(turn{Calls: down.Calls}).Calls[0].State == "completed" })
	}
}

// skewedKey: two calls with one key at the same moment, at nodes whose clocks differ.
func skewedKey(t *testing.T, c *three, nodes []*member) {
	across(nodes, func(a, b *member, name string) {
		var wg sync.WaitGroup
		for _, n := range []*member{a, b} {
			wg.Go(func() {
				n.placed(n.Name(), turn{Trace: "key-" + name, Turn: n.Name(), Calls: []call{charge("key-"+name, 1, "stall_ms", 30)}})
			})
		}
		wg.Wait()
		states := map[string]int{}
		for _, n := range []*member{a, b} {
			states[n.end("key-"+name, n.Name()).Calls[0].State]++
		}
		if states["completed"] != 1 || states["deduplicated"] != 1 || c.place.charged("key-"+name) != 1 {
			t.Errorf("%s: %v, charged %d times", name, states, c.place.charged("key-"+name))
		}
	})
}

// skewedTakeover: each node in turn dies in the middle, and another one finishes.
func skewedTakeover(t *testing.T, c *three, nodes []*member) {
	for i, n := range nodes {
		door := nodes[(i+1)%len(nodes)]
		v, k := owned(t, &node{api: n.api, greeting: greeting{Boot: n.Boot()}}, "over-"+n.Name(), func(k int) []call {
			return []call{waits(n.Name() + ".killed"), charge(n.Name()+string(rune('a'+k)), 1)}
		})
		began := time.Now()
		n.Kill()
		c.place.write(n.Name()+".killed", "")
		for _, call := range door.end(v.Trace, v.Turn).Calls {
			call.is(t, "completed", "", "")
		}
		t.Logf("%s was killed; its turn ended %v later", n.Name(), time.Since(began).Round(time.Millisecond))
		if x := c.place.charged(n.Name() + string(rune('a'+k))); x != 1 {
			t.Errorf("charged %d times", x)
		}
		c.must(n.Start(t.Context()))
	}
}

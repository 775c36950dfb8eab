package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// TestTheProbeThatNeverReports: in the whole cluster one call probes after the
// cooldown, whatever number asks. Where it is cancelled, or its node is killed, its
// slot is free for the next one; a success closes the circuit for everybody.
func TestTheProbeThatNeverReports(t *testing.T) {
	t.Parallel()
	c := muster(t, 3, "--breaker-window", "2s")
	if err := os.Mkdir(c.ledger, 0o755); err != nil { // nothing can be charged
		t.Fatal(err)
	}
	for i := 0; c.node(i).tools()["charge"]; i++ {
		c.node(i).run(turn{Calls: []call{charge(fmt.Sprint("down-", i), 1)}})
	}
	if err := os.Remove(c.ledger); err != nil {
		t.Fatal(err)
	}
	release := c.hold() // a call that is let through stands before its effect
	for i := range c.nodes {
		poll(t, "the tool is listed again", func() bool { return c.node(i).tools()["charge"] })
	}

	first := c.rush("rush", 17)
	c.node(1).post(first.path(0)+"/cancel", nil)
	if k := c.node(2).end(first.Trace, first.Turn).Calls[0]; k.Effects != "possible" && k.Effects != "none" {
		t.Errorf("the probe that was cancelled: %+v", k)
	}
	second := c.probe("second")
	owner := c.named(of(c.node(0).events(second.Trace, second.Turn), "started", "0")[0].Boot)
	owner.kill()
	for i, n := range c.nodes {
		if n == owner {
			c.nodes = append(c.nodes[:i], c.nodes[i+1:]...)
			break
		}
	}
	c.node(0).end(second.Trace, second.Turn).Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
	third := c.probe("third")
	release()
	c.node(1).end(third.Trace, third.Turn).Calls[0].is(t, "completed", "", "done")
	for i := range c.nodes {
		c.node(i).run(turn{Calls: []call{charge(fmt.Sprint("closed-", i), 1)}}).Calls[0].is(t, "completed", "", "done")
	}
	proven(t, c.nats.URL())
}

// rush submits so many calls to each node at once, and wants one of them to be let
// through, the others to be told that the circuit is open. It returns that one's turn.
func (c *crew) rush(trace string, each int) (probe view) {
	c.t.Helper()
	var wg sync.WaitGroup
	all := make([]view, each*len(c.nodes))
	for i := range all {
		name := fmt.Sprint(trace, i)
		wg.Go(func() { all[i] = c.node(i).submit(turn{Trace: trace, Turn: name, Calls: []call{charge(name, 1)}}) })
	}
	wg.Wait()
	through := 0
	for i, v := range all {
		n := c.node(i + 1)
		started := false
		poll(c.t, v.Turn+" is let through, or has ended", func() bool {
			started = len(of(n.events(v.Trace, v.Turn), "started", "0")) > 0
			return started || n.look(v.Trace, v.Turn).State == "completed"
		})
		if started {
			through, probe = through+1, v
			continue
		}
		n.look(v.Trace, v.Turn).Calls[0].is(c.t, "denied", "CIRCUIT_OPEN", "none")
	}
	if through != 1 {
		c.t.Fatalf("%d of %d calls were let through, want one probe", through, len(all))
	}
	return probe
}

// probe submits calls until one is let through.
func (c *crew) probe(trace string) (v view) {
	c.t.Helper()
	tries := 0
	poll(c.t, "another call may probe", func() bool {
		tries++
		v = c.node(tries).submit(turn{Trace: trace, Turn: fmt.Sprint("t", tries), Calls: []call{charge(fmt.Sprint(trace, tries), 1)}})
		started := false
		poll(c.t, "it is let through, or has ended", func() bool {
			started = len(of(c.node(0).events(v.Trace, v.Turn), "started", "0")) > 0
			return started || c.node(0).look(v.Trace, v.Turn).State == "completed"
		})
		return started
	})
	return v
}

// named is the node of a boot.
func (c *crew) named(boot string) *node {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.Boot == boot {
			return n
		}
	}
	c.t.Fatalf("there is no node %s", boot)
	return nil
}

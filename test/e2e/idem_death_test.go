package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// winner submits calls with one key to a node until the key's holder is that
// node's, and returns its turn.
func (c *crew) winner(by *node, name string, calls func(order string) []call) (v view, order string) {
	c.t.Helper()
	v, i := owned(c.t, by, name, func(i int) []call { return calls(fmt.Sprint(name, "-", i)) })
	return v, fmt.Sprint(name, "-", i)
}

// waiter submits a call whose key another call holds to a node, until that node
// owns it or, for "", to whichever takes it.
func (c *crew) waiter(by *node, name string, one call) view {
	c.t.Helper()
	for i := range 50 {
		v := by.submit(turn{Trace: name, Turn: fmt.Sprint("t", i), Calls: []call{one}})
		by.until(v.Trace, v.Turn, "requested", "0")
		if of(by.events(v.Trace, v.Turn), "requested", "0")[0].Boot == by.Boot {
			return v
		}
		by.post("/v1/turns/"+v.Trace+"/"+v.Turn+"/cancel", nil)
	}
	c.t.Fatal("the node takes no turn")
	return view{}
}

// TestAKeyWhoseHolderDiesBeforeItsEffect: nobody can tell that it had none, and
// everybody who waits hears the same.
func TestAKeyWhoseHolderDiesBeforeItsEffect(t *testing.T) {
	t.Parallel()
	c := muster(t, 3)
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	release := c.hold()
	v, order := c.winner(a, "before", func(order string) []call { return []call{charge(order, 1)} })
	w := c.waiter(b, "before-waits", charge(order, 1))
	parked := c.waiter(d, "before-parked", charge(order, 1))
	poll(t, "a turn that waits is parked", func() bool { return d.look(parked.Trace, parked.Turn).State == "parked" })
	a.kill()
	release()
	first := b.end(v.Trace, v.Turn)
	first.Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
	for _, x := range []view{w, parked} {
		end := d.end(x.Trace, x.Turn)
		if k := end.Calls[0]; k.State != "deduplicated" || k.Of != v.Trace+"/"+v.Turn+"/0" || k.Attempt != 0 {
			t.Errorf("%s: %+v", x.Trace, k)
		}
		if kind, code := d.told(end, 0); kind != "unknown" || code != "UNKNOWN_OUTCOME" {
			t.Errorf("%s: the model is told %s %s", x.Trace, kind, code)
		}
	}
	if k := c.charged(order); k != 0 {
		t.Errorf("charged %d times", k)
	}
	b.run(turn{Calls: []call{charge(order, 1)}}).Calls[0].is(t, "denied", "UNKNOWN_OUTCOME", "none")
	d.post(v.path(0)+"/resolve", args{"effects": "none"})
	b.run(turn{Calls: []call{charge(order, 1)}}).Calls[0].is(t, "completed", "", "done")
	if k := c.charged(order); k != 1 {
		t.Errorf("after it was resolved: charged %d times", k)
	}
	proven(t, c.nats.URL())
}

// TestAKeyWhoseHolderAndWaiterDie: after the effect, and before anybody was told.
func TestAKeyWhoseHolderAndWaiterDie(t *testing.T) {
	t.Parallel()
	c := muster(t, 3)
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	v, order := c.winner(a, "both", func(order string) []call {
		return []call{charge(order, 1, "stall_ms", forever), charge(order+"-next", 1)}
	})
	w := c.waiter(b, "both-waits", charge(order, 1, "stall_ms", forever))
	poll(t, "the charge is in the ledger", func() bool { return c.charged(order) == 1 })
	a.kill()
	b.kill()
	for _, x := range d.end(v.Trace, v.Turn).Calls {
		x.is(t, "completed", "", "done")
	}
	end := d.end(w.Trace, w.Turn)
	end.Calls[0].is(t, "deduplicated", "", "")
	if kind, _ := d.told(end, 0); kind != "success" || end.Calls[0].Of != v.Trace+"/"+v.Turn+"/0" {
		t.Errorf("%+v, the model is told %s", end.Calls[0], kind)
	}
	if k, next := c.charged(order), c.charged(order+"-next"); k != 1 || next != 1 {
		t.Errorf("charged %d and %d times", k, next)
	}
	proven(t, c.nats.URL())
}

// TestAKeyWhoseHolderDiesAfterItsEnd: the end is in the log, the turn goes on.
func TestAKeyWhoseHolderDiesAfterItsEnd(t *testing.T) {
	t.Parallel()
	c := muster(t, 3)
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	var order string
	var v view
	for i := range 50 { // the charge ends while the sleep beside it keeps the turn going
		order = fmt.Sprint("after-", i)
		v = a.submit(turn{Trace: order, Turn: "t", Calls: []call{charge(order, 1, "stall_ms", forever, "until", "waits"), {Tool: "sleep", Args: args{"ms": forever}}}})
		a.until(v.Trace, v.Turn, "started", "0")
		if of(a.events(v.Trace, v.Turn), "started", "0")[0].Boot == a.Boot {
			break
		}
		a.post("/v1/turns/"+order+"/t/cancel", nil)
	}
	w := b.submit(turn{Trace: "after-waits", Turn: "t", Calls: []call{charge(order, 1, "stall_ms", forever, "until", "waits")}})
	d.until(w.Trace, w.Turn, "requested", "0")
	c.write("waits", "")
	d.until(v.Trace, v.Turn, "completed", "0")
	a.kill()
	end := d.end(w.Trace, w.Turn)
	end.Calls[0].is(t, "deduplicated", "", "")
	if end.Calls[0].Of != v.Trace+"/t/0" || c.charged(order) != 1 {
		t.Errorf("%+v, charged %d times", end.Calls[0], c.charged(order))
	}
	b.until(v.Trace, v.Turn, "recovered", "1")
	b.post("/v1/turns/"+v.Trace+"/t/cancel", nil)
	d.end(v.Trace, v.Turn).Calls[0].is(t, "completed", "", "done")
	proven(t, c.nats.URL())
}

// TestACallThatWaitsForAKeyOutlivesItsNode: the holder goes on.
func TestACallThatWaitsForAKeyOutlivesItsNode(t *testing.T) {
	t.Parallel()
	c := muster(t, 3, "--ack-wait", "60s", "--presence", "10s") // the holder is not to be taken for dead
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	v, order := c.winner(a, "lives", func(order string) []call { return []call{charge(order, 1, "stall_ms", forever, "until", "lives")} })
	w := c.waiter(b, "lives-waits", charge(order, 1, "stall_ms", forever, "until", "lives"))
	b.kill() // before the turn is parked, or behind it
	c.write("lives", "")
	poll(t, "the charge is in the ledger", func() bool { return c.charged(order) == 1 })
	d.end(w.Trace, w.Turn).Calls[0].is(t, "deduplicated", "", "")
	a.end(v.Trace, v.Turn).Calls[0].is(t, "completed", "", "done")
	for _, e := range of(d.events(v.Trace, v.Turn), "turn_claimed", "") {
		if e.field("why") != "new" {
			t.Errorf("the holder's turn was claimed: %s", e.field("why"))
		}
	}
	if k := c.charged(order); k != 1 {
		t.Errorf("charged %d times", k)
	}
	proven(t, c.nats.URL())
}

// TestKeysOutliveEverything: the server's memory of message ids, and a restart of
// all nodes and of the server.
func TestKeysOutliveEverything(t *testing.T) {
	t.Parallel()
	c := muster(t, 2)
	done := c.node(0).run(turn{Calls: []call{charge("outlives", 1)}})
	doubt, maybe := c.doubtful("outlives-doubt", "outlives-doubt")
	waits := c.node(0).submit(turn{Trace: "outlives", Turn: "holder", Calls: []call{charge("outlives-runs", 1, "stall_ms", forever)}})
	poll(t, "the charge is in the ledger", func() bool { return c.charged("outlives-runs") == 1 })
	later := c.node(1).submit(turn{Trace: "outlives", Turn: "waits", Calls: []call{charge("outlives-runs", 1, "stall_ms", forever)}})
	poll(t, "it is parked", func() bool { return c.node(0).look(later.Trace, later.Turn).State == "parked" })
	past := time.NewTimer(2500 * time.Millisecond) // longer than any duplicate window of the streams
	defer past.Stop()
	<-past.C
	c.restart()

	again := c.node(0).run(turn{Calls: []call{charge("outlives", 1), charge("outlives", 2)}})
	again.Calls[0].is(t, "deduplicated", "", "")
	again.Calls[1].is(t, "denied", "IDEMPOTENCY_CONFLICT", "none")
	if again.Calls[0].Of != done.Trace+"/"+done.Turn+"/0" {
		t.Errorf("it names %q", again.Calls[0].Of)
	}
	c.node(1).end(waits.Trace, waits.Turn).Calls[0].is(t, "completed", "", "done")
	c.node(0).end(later.Trace, later.Turn).Calls[0].is(t, "deduplicated", "", "")
	doubt.Turn = "after"
	c.node(1).run(doubt).Calls[0].is(t, "denied", "UNKNOWN_OUTCOME", "none")
	c.node(0).post(maybe.path(0)+"/resolve", args{"effects": "done"})
	c.restart()
	doubt.Turn = "resolved"
	c.node(1).run(doubt).Calls[0].is(t, "deduplicated", "", "")
	if c.charged("outlives") != 1 || c.charged("outlives-runs") != 1 || c.bytesOf("outlives-doubt") != 1 {
		t.Errorf("%+v, and the command ran %d times", c.effects(), c.bytesOf("outlives-doubt"))
	}
	proven(t, c.nats.URL())
}

// TestKeysUnderRandomDeaths: many calls with few keys on three nodes, one of which
// is killed and replaced again and again. Each key has one effect, and everybody
// who asked has one answer that agrees with it.
func TestKeysUnderRandomDeaths(t *testing.T) {
	t.Parallel()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("reproduce: go test ./test/e2e -run KeysUnderRandomDeaths -seed=%d", s)
	r := rand.New(rand.NewPCG(s, 2))
	const keys, turns, deaths = 12, 48, 4
	c := muster(t, 3)
	all := make([]turn, turns)
	for i := range all {
		all[i] = turn{Trace: fmt.Sprintf("rd-%d", i%5), Turn: fmt.Sprint("t", i)}
		for range 1 + r.IntN(3) {
			k := r.IntN(keys)
			all[i].Calls = append(all[i].Calls, charge(fmt.Sprint("rd-", k), k, "stall_ms", 20*(k%4)))
		}
	}
	for wave := range deaths + 1 { // each comes in at all nodes; then one of them dies
		some := all[wave*turns/(deaths+1) : (wave+1)*turns/(deaths+1)]
		stage := len(c.effects()) + r.IntN(4)
		for k, tu := range some {
			c.node(k).submit(tu)
		}
		if wave == deaths {
			break
		}
		poll(t, "the stage is reached, or there is nothing to do", func() bool {
			return len(c.effects()) >= stage || c.measure("sluice_turns_running") == 0
		})
		i := r.IntN(len(c.nodes))
		c.nodes[i].kill()
		c.nodes = append(c.nodes[:i], c.nodes[i+1:]...)
		c.add()
	}
	ran, met := map[string]int{}, 0
	for i, tu := range all {
		v := c.node(i).end(tu.Trace, tu.Turn)
		met += len(of(c.node(i).events(tu.Trace, tu.Turn), "recovered", ""))
		for k, x := range v.Calls {
			order := tu.Calls[k].Args.(args)["order"].(string)
			switch x.State {
			case "completed":
				ran[order]++
			case "deduplicated":
			default: // the winner may have died before its effect
				if x.Code != "UNKNOWN_OUTCOME" {
					t.Errorf("%s/%s: %+v", tu.Trace, tu.Turn, x)
				}
			}
		}
	}
	t.Logf("%d calls were met in the middle", met)
	for k := range keys {
		order := fmt.Sprint("rd-", k)
		if n := c.charged(order); n > 1 || ran[order] > 1 || n < ran[order] {
			t.Errorf("%s: charged %d times, %d calls say that they did it", order, n, ran[order])
		}
	}
	proven(t, c.nats.URL())
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// TestKeysOfThreeNodes is about idempotency keys that several nodes see.
func TestKeysOfThreeNodes(t *testing.T) {
	t.Parallel()
	c := muster(t, 3, unhurried...)
	c.together(t, []part{
		{"the same instant on all nodes", sameInstant},
		{"the same arguments, written otherwise", writtenOtherwise},
		{"other arguments that look alike", lookAlike},
		{"keys are scoped by principal and tool", scopedKeys},
		{"what may have happened blocks its key until somebody resolves it", blockedUntilResolved},
		{"a chain of calls that wait for each other's keys", chainOfWaiters},
		{"keys taken crosswise on two nodes", crosswiseOnNodes},
		{"a cancelled call that waits for a key ends at once", cancelledWaiter},
		{"a call that waits for a key ends at its turn's deadline", waiterOutOfTime},
		{"a key whose holder ended without effect is free", freeAfterNone},
	})
	proven(t, c.nats.URL())
}

// sameInstant has every node submit turns with one key, some of them twice in a turn.
func sameInstant(t *testing.T, c *crew) {
	const rounds = 12
	for i := range rounds {
		order, stall := fmt.Sprintf("instant-%d", i), 10*(i%3)
		one := charge(order, 1, "stall_ms", stall)
		calls := []call{one}
		if i%2 == 1 {
			calls = []call{one, one}
		}
		all := make([]view, len(c.nodes))
		var wg sync.WaitGroup
		for k, n := range c.nodes {
			wg.Go(func() {
				all[k] = n.submit(turn{Trace: fmt.Sprintf("instant-%d", k), Turn: fmt.Sprint("t", i), Calls: calls})
			})
		}
		wg.Wait()
		var ran []string
		of := map[string]int{}
		texts := map[string]bool{}
		for k, v := range all {
			end := c.node(k+1).end(v.Trace, v.Turn)
			for _, x := range end.Calls {
				if x.State == "completed" {
					ran = append(ran, fmt.Sprintf("%s/%s/%d", v.Trace, v.Turn, x.Call))
				} else {
					x.is(t, "deduplicated", "", "")
					of[x.Of]++
				}
			}
			for _, m := range answers(t, end.Messages) {
				texts[m.Answer+" "+m.Content.Text] = true
			}
		}
		if len(ran) != 1 || of[ran[0]] != len(all)*len(calls)-1 || len(texts) != 1 || c.charged(order) != 1 {
			t.Errorf("round %d: %v ran, the others name %v, the answers are %v, charged %d times", i, ran, of, texts, c.charged(order))
		}
	}
}

func raw(tool, key, text string) call { return call{Tool: tool, Key: key, Args: json.RawMessage(text)} }

func writtenOtherwise(t *testing.T, c *crew) {
	for name, forms := range map[string][]string{
		"small":  {`{"order":"as-1","amount":1}`, `{"amount":1.0,"order":"as-1"}`, `{ "amount" : 1e0 ,` + "\n" + `"order":"as\u002d1"}`, `{"order":"as-1","amount":10e-1}`},
		"large":  {`{"order":"as-2","amount":9007199254740993}`, `{"amount":9007199254740993.0,"order":"as-2"}`, `{"amount":9007199254740993e0,"order":"as-2"}`},
		"zero":   {`{"order":"as-3","amount":0}`, `{"order":"as-3","amount":0.00}`, `{"order":"as-3","amount":0e5}`},
		"nested": {`{"v":{"b":[1,{"y":2,"x":1}],"a":null}}`, `{"v":{"a":null,"b":[1.0,{"x":1,"y":2e0}]}}`},
		"empty":  {`{"v":""}`, `{ "v":"" }`},
	} {
		tool, key := "charge", ""
		if name == "nested" || name == "empty" {
			tool, key = "echo", "as-"+name
		}
		var first view
		for i, form := range forms {
			n := c.node(i)
			v := n.run(turn{Trace: "as-" + name, Turn: fmt.Sprint("t", i), Calls: []call{raw(tool, key, form)}})
			if i == 0 {
				first = v
				v.Calls[0].is(t, "completed", "", "")
				continue
			}
			v.Calls[0].is(t, "deduplicated", "", "")
			if want := first.Trace + "/" + first.Turn + "/0"; v.Calls[0].Of != want {
				t.Errorf("%s: %s names %q, want %q", name, form, v.Calls[0].Of, want)
			}
		}
	}
	for _, order := range []string{"as-1", "as-2", "as-3"} {
		if k := c.charged(order); k != 1 {
			t.Errorf("%s was charged %d times", order, k)
		}
	}
}

func lookAlike(t *testing.T, c *crew) {
	for i, two := range [][2]string{
		{`{"order":"un-0","amount":9007199254740993}`, `{"order":"un-0","amount":9007199254740992}`},
		{`{"order":"un-1","amount":10000000000000001}`, `{"order":"un-1","amount":10000000000000000}`},
		{`{"order":"un-2","amount":1}`, `{"order":"un-2","amount":1.0000000000000000001}`},
		{`{"order":"un-3","amount":1}`, `{"order":"un-3","amount":1,"stall_ms":1}`},
		{`{"order":"un-4","amount":1,"key":"un-4"}`, `{"order":"un-4 ","amount":1,"key":"un-4"}`},
	} {
		c.node(i).run(turn{Calls: []call{raw("charge", "", two[0])}}).Calls[0].is(t, "completed", "", "done")
		v := c.node(i + 1).run(turn{Calls: []call{raw("charge", "", two[1]), raw("charge", "", two[0])}})
		v.Calls[0].is(t, "denied", "IDEMPOTENCY_CONFLICT", "none")
		v.Calls[1].is(t, "deduplicated", "", "")
		if k := c.charged(fmt.Sprint("un-", i)); k != 1 {
			t.Errorf("%s was charged %d times", two[0], k)
		}
	}
	for i, two := range [][2]string{
		{`{"v":[1,2]}`, `{"v":[2,1]}`},
		{`{"v":{"a":null}}`, `{"v":{}}`},
		{`{"v":"1"}`, `{"v":1}`},
		{`{"v":"é"}`, `{"v":"e\u0301"}`},
	} {
		key := fmt.Sprint("un-echo-", i)
		c.node(i).run(turn{Calls: []call{raw("echo", key, two[0])}}).Calls[0].is(t, "completed", "", "")
		c.node(i + 1).run(turn{Calls: []call{raw("echo", key, two[1])}}).Calls[0].is(t, "denied", "IDEMPOTENCY_CONFLICT", "none")
	}
	// While the holder runs, the answer is the same, and does not wait for it.
	v := c.node(0).submit(turn{Calls: []call{charge("un-run", 1, "stall_ms", forever)}})
	c.node(0).until(v.Trace, v.Turn, "started", "0")
	c.node(1).run(turn{Calls: []call{charge("un-run", 2)}}).Calls[0].is(t, "denied", "IDEMPOTENCY_CONFLICT", "none")
	if got := c.node(2).look(v.Trace, v.Turn).Calls[0].State; got != "started" {
		t.Errorf("the holder is %s", got)
	}
	c.node(2).post("/v1/turns/"+v.Trace+"/"+v.Turn+"/cancel", nil)
}

func scopedKeys(t *testing.T, c *crew) {
	one := call{Tool: "reserve", Args: args{"item": "scope"}, Key: "scope"}
	two := call{Tool: "charge", Args: args{"order": "scope", "amount": 1}, Key: "scope"}
	for i, tu := range []turn{
		{Calls: []call{one}}, {Calls: []call{two}}, {Principal: "ann", Calls: []call{one}}, {Principal: "bob", Calls: []call{one}},
	} {
		c.node(i).run(tu).Calls[0].is(t, "completed", "", "done")
		c.node(i + 1).run(tu).Calls[0].is(t, "deduplicated", "", "")
	}
	kinds := map[string]int{}
	for _, e := range c.effects() {
		if e.Item == "scope" || e.Order == "scope" {
			kinds[e.Tool]++
		}
	}
	if kinds["reserve"] != 3 || kinds["charge"] != 1 {
		t.Errorf("effects %v", kinds)
	}
}

// doubtful runs a call that has had its effect when it is ended, and of which
// nothing can tell whether it had.
func (c *crew) doubtful(trace, file string) (turn, view) {
	c.t.Helper()
	tu := turn{Trace: trace, Turn: "first", CanAsk: true, Calls: []call{
		{Tool: "bash", Args: args{"command": "printf x >> " + file + "; sleep 600"}, Key: file},
	}}
	v := c.node(0).submit(tu)
	c.node(1).post(c.node(1).inbox(trace, 1)[0].path()+"/approve", nil)
	poll(c.t, "it has had its effect", func() bool { return c.bytesOf(file) == 1 })
	c.node(1).post(v.path(0)+"/cancel", nil)
	v = c.node(2).end(v.Trace, v.Turn)
	if k := v.Calls[0]; k.Effects != "possible" || c.bytesOf(file) != 1 {
		c.t.Fatalf("%+v, and it ran %d times", k, c.bytesOf(file))
	}
	return tu, v
}

func blockedUntilResolved(t *testing.T, c *crew) {
	for _, end := range []string{"none", "done"} {
		file := "doubt-" + end
		tu, v := c.doubtful(file, file)
		for i := range 3 {
			tu.Turn = fmt.Sprint("blocked", i)
			b := c.node(i).run(tu)
			if k := b.Calls[0]; k.Code != "UNKNOWN_OUTCOME" && k.State != "deduplicated" {
				t.Errorf("%s, on node %d: %+v", end, i, k)
			}
			if kind, code := c.node(i).told(b, 0); kind == "success" || kind == "failed" || code != "UNKNOWN_OUTCOME" {
				t.Errorf("%s, on node %d: the model is told %s %s", end, i, kind, code)
			}
		}
		other := tu
		other.Turn, other.Calls = "other", []call{{Tool: "bash", Args: args{"command": "printf y >> " + file}, Key: file}}
		c.node(1).run(other).Calls[0].is(t, "denied", "IDEMPOTENCY_CONFLICT", "none")

		said := answersText(t, v)
		c.node(2).post(v.path(0)+"/resolve", args{"effects": end})
		c.node(1).post(v.path(0)+"/resolve", args{"effects": end}) // the same again is no error
		if status, body := c.node(0).ask(http.MethodPost, v.path(0)+"/resolve", args{"effects": map[string]string{"none": "done", "done": "none"}[end]}); status != http.StatusConflict {
			t.Errorf("another resolution: %d %s", status, body)
		}
		tu.Turn = "after"
		after := c.node(1).submit(tu)
		if end == "none" { // it is asked about and runs like any other; its file says so before it sleeps
			c.node(2).post(c.node(2).inbox(file, 1)[0].path()+"/approve", nil)
			poll(t, "it runs again", func() bool { return c.bytesOf(file) == 2 })
			c.node(0).post("/v1/turns/"+file+"/after/cancel", nil)
		}
		got := c.node(0).end(after.Trace, after.Turn)
		if end == "done" {
			got.Calls[0].is(t, "deduplicated", "", "")
			if kind, _ := c.node(0).told(got, 0); kind != "success" || got.Calls[0].Of != v.Trace+"/"+v.Turn+"/0" || c.bytesOf(file) != 1 {
				t.Errorf("after %s: %+v, the model is told %s, it ran %d times", end, got.Calls[0], kind, c.bytesOf(file))
			}
		}
		if now := answersText(t, c.node(1).end(v.Trace, v.Turn)); now != said {
			t.Errorf("the first answer was\n%s\nand is\n%s", said, now)
		}
	}
}

func answersText(t *testing.T, v view) string {
	t.Helper()
	return asText(t, v.Messages)
}

func chainOfWaiters(t *testing.T, c *crew) {
	const links = 7
	key := func(i int) string { return fmt.Sprint("link-", i) }
	was := charge(key(0), 1, "stall_ms", forever, "until", "chain")
	head := c.node(0).submit(turn{Trace: "chain", Turn: "t0", Calls: []call{was}})
	c.node(0).until(head.Trace, head.Turn, "started", "0")
	for i := range links { // each waits for the one before, and holds what the next one waits for
		c.node(i + 1).submit(turn{Trace: "chain", Turn: fmt.Sprint("t", i+1), Calls: []call{was, charge(key(i+1), 1)}})
		was = charge(key(i+1), 1)
		c.node(i+2).until("chain", fmt.Sprint("t", i+1), "requested", "1")
	}
	c.write("chain", "")
	for i := range links + 1 {
		for _, x := range c.node(i).end("chain", fmt.Sprint("t", i)).Calls {
			if x.State != "completed" && x.State != "deduplicated" {
				t.Errorf("t%d: %+v", i, x)
			}
		}
		if k := c.charged(key(i)); k != 1 {
			t.Errorf("%s was charged %d times", key(i), k)
		}
	}
}

func crosswiseOnNodes(t *testing.T, c *crew) {
	const pairs = 8
	var all []view
	for i := range pairs {
		a, b := charge(fmt.Sprint("xa-", i), 1, "stall_ms", 5), charge(fmt.Sprint("xb-", i), 1, "stall_ms", 5)
		var wg sync.WaitGroup
		two := make([]view, 2)
		for k, calls := range [][]call{{a, b}, {b, a}} {
			wg.Go(func() { two[k] = c.node(k).submit(turn{Trace: fmt.Sprintf("x-%d-%d", i, k), Turn: "t", Calls: calls}) })
		}
		wg.Wait()
		all = append(all, two...)
	}
	for i, v := range all {
		for _, x := range c.node(i).end(v.Trace, v.Turn).Calls {
			if x.State != "completed" && x.State != "deduplicated" {
				t.Errorf("%s: %+v", v.Trace, x)
			}
		}
	}
	for i := range pairs {
		if a, b := c.charged(fmt.Sprint("xa-", i)), c.charged(fmt.Sprint("xb-", i)); a != 1 || b != 1 {
			t.Errorf("pair %d was charged %d and %d times", i, a, b)
		}
	}
}

func cancelledWaiter(t *testing.T, c *crew) {
	one := charge("cancel-wait", 1, "stall_ms", forever, "until", "cancel-wait")
	holder := c.node(0).submit(turn{Trace: "cw", Turn: "holder", Calls: []call{one}})
	c.node(0).until("cw", "holder", "started", "0")
	for i, what := range []string{"call", "turn", "parked"} {
		v := c.node(i).submit(turn{Trace: "cw", Turn: what, Calls: []call{one}})
		c.node(i+1).until("cw", what, "requested", "0")
		path := v.path(0) + "/cancel"
		switch what {
		case "turn":
			path = "/v1/turns/cw/turn/cancel"
		case "parked":
			poll(t, "it is parked", func() bool { return c.node(i).look("cw", what).State == "parked" })
		}
		if r := c.node(i+2).post(path, nil); r.Status != "accepted" {
			t.Errorf("%s: %+v", what, r)
		}
		end := c.node(i).end("cw", what)
		end.Calls[0].is(t, "cancelled", "", "none")
		if kind, code := c.node(i).told(end, 0); kind != "failed" || code != "CANCELLED" {
			t.Errorf("%s: the model is told %s %s", what, kind, code)
		}
	}
	if s := c.node(1).look("cw", "holder").Calls[0].State; s != "started" {
		t.Errorf("the holder is %s", s)
	}
	late := c.node(2).submit(turn{Trace: "cw", Turn: "late", Calls: []call{one}})
	c.write("cancel-wait", "")
	c.node(2).end(late.Trace, late.Turn).Calls[0].is(t, "deduplicated", "", "")
	c.node(1).end(holder.Trace, holder.Turn).Calls[0].is(t, "completed", "", "done")
	if k := c.charged("cancel-wait"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

func waiterOutOfTime(t *testing.T, c *crew) {
	one := charge("late-wait", 1, "stall_ms", forever, "until", "late-wait")
	c.node(0).submit(turn{Trace: "lw", Turn: "holder", Calls: []call{one}})
	c.node(0).until("lw", "holder", "started", "0")
	for i, ms := range []int{300, 2_000} { // while it is in memory, and when it is parked
		v := c.node(i + 1).run(turn{Trace: "lw", Turn: fmt.Sprint("t", ms), Calls: []call{one}, Limits: map[string]int{"deadline_ms": ms}})
		if x := v.Calls[0]; x.State != "timed_out" && x.State != "cancelled" || x.Effects != "none" {
			t.Errorf("%d ms: %+v", ms, x)
		}
		if kind, _ := c.node(i).told(v, 0); kind != "failed" {
			t.Errorf("%d ms: the model is told %s", ms, kind)
		}
	}
	if s := c.node(1).look("lw", "holder").Calls[0].State; s != "started" {
		t.Errorf("the holder is %s", s)
	}
	c.write("late-wait", "")
	c.node(2).end("lw", "holder").Calls[0].is(t, "completed", "", "done")
	if k := c.charged("late-wait"); k != 1 {
		t.Errorf("charged %d times", k)
	}
}

// freeAfterNone: only an end without effects frees a key, and then for any arguments.
func freeAfterNone(t *testing.T, c *crew) {
	wait := call{Tool: "sleep", Args: args{"ms": forever}, Key: "free"}
	v := c.node(0).submit(turn{Calls: []call{wait}})
	c.node(1).until(v.Trace, v.Turn, "started", "0")
	w := c.node(1).submit(turn{Calls: []call{wait}})
	c.node(2).until(w.Trace, w.Turn, "requested", "0")
	c.node(2).post(v.path(0)+"/cancel", nil)
	c.node(0).end(v.Trace, v.Turn).Calls[0].is(t, "cancelled", "", "none")
	c.node(0).until(w.Trace, w.Turn, "started", "0") // whoever waited takes the key, and runs
	c.node(0).post(w.path(0)+"/cancel", nil)
	c.node(1).end(w.Trace, w.Turn).Calls[0].is(t, "cancelled", "", "none")
	wait.Args = args{"ms": 1}
	c.node(2).run(turn{Calls: []call{wait}}).Calls[0].is(t, "completed", "", "none")
}

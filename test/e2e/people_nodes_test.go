package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestApprovalsOnSeveralNodes: who asked, who answers and who then runs the call
// are different processes.
func TestApprovalsOnSeveralNodes(t *testing.T) {
	t.Parallel()
	c := muster(t, 3, unhurried...)
	c.together(t, []part{
		{"three questions, three people, three doors, out of order", threePeople},
		{"a yes and a no at the same instant", yesAndNo},
		{"yes twice at the same instant", yesTwice},
		{"yes twice, to other arguments", yesToOtherArguments},
		{"a file that changed after the yes", operandChangedOnNodes},
		{"a yes for the session holds on other nodes, for exactly that call", sessionOnNodes},
		{"a cancel and a yes at the same instant", yesAndCancel},
	})
	proven(t, c.nats.URL())
}

func (c *crew) parked(trace, turn string) {
	c.t.Helper()
	poll(c.t, trace+"/"+turn+" is parked", func() bool { return c.node(0).look(trace, turn).State == "parked" })
}

func threePeople(t *testing.T, c *crew) {
	c.node(0).submit(turn{Trace: "people", Turn: "t", CanAsk: true, Calls: []call{
		ask("p0"), charge("people-1", 1), ask("p2"), ask("p3"), {Tool: "echo", Args: args{"v": 4}},
	}})
	for i := range c.nodes {
		list := c.node(i).inbox("people", 3)
		hashes := map[string]bool{}
		for _, w := range list {
			hashes[w.key()+w.Hash] = true
		}
		if len(hashes) != 3 {
			t.Errorf("node %d lists %+v", i, list)
		}
	}
	c.parked("people", "t")
	c.node(1).post("/v1/turns/people/t/calls/3/approve", args{"principal": "ann"})
	c.node(2).inbox("people", 2)
	c.node(2).post("/v1/turns/people/t/calls/2/deny", args{"principal": "bob", "note": "not now"})
	c.node(0).inbox("people", 1)
	must(t, "approve", "--nats", c.nats.URL(), "--by", "cee", "people/t/0")
	v := c.node(1).end("people", "t")
	for i, state := range []string{"completed", "completed", "denied", "completed", "completed"} {
		v.Calls[i].is(t, state, map[bool]string{true: "APPROVAL_REJECTED"}[state == "denied"], "")
	}
	list := c.node(2).events("people", "t")
	for call, who := range map[string]string{"0": "cee", "3": "ann"} {
		if got := of(list, "approved", call); len(got) != 1 || !strings.Contains(got[0].field("by"), who) {
			t.Errorf("call %s was approved by %v, want %s", call, got, who)
		}
	}
	var order []string
	for _, e := range c.effects() {
		if strings.HasPrefix(e.Call, "people/") {
			order = append(order, e.Call)
		}
	}
	if fmt.Sprint(order) != "[people/t/0 people/t/1 people/t/3]" {
		t.Errorf("effects in the order %v", order)
	}
}

// both asks for two acts on one call at the same instant, at two nodes.
func (c *crew) both(v view, one, two string) (statuses [2]int, bodies [2]string) {
	var wg sync.WaitGroup
	for i, act := range []string{one, two} {
		wg.Go(func() {
			status, body, err := c.node(i+1).try(http.MethodPost, v.path(0)+"/"+act, args{"principal": fmt.Sprint("person", i)})
			if err != nil {
				c.t.Errorf("%s: %v", act, err)
			}
			statuses[i], bodies[i] = status, string(body)
		})
	}
	wg.Wait()
	return statuses, bodies
}

func yesAndNo(t *testing.T, c *crew) {
	wins := map[string]int{}
	for i := range 12 {
		name := fmt.Sprint("yn", i)
		v := c.node(i).submit(turn{Trace: "yn", Turn: name, CanAsk: true, Calls: []call{ask(name)}})
		c.node(1).until("yn", name, "approval_requested", "0")
		if i%2 == 0 {
			c.parked("yn", name)
		}
		s, body := c.both(v, "approve", "deny")
		end := c.node(i+1).end("yn", name)
		switch {
		case s[0] < 300 && s[1] == http.StatusConflict:
			wins["yes"]++
			end.Calls[0].is(t, "completed", "", "done")
		case s[1] < 300 && s[0] == http.StatusConflict:
			wins["no"]++
			end.Calls[0].is(t, "denied", "APPROVAL_REJECTED", "none")
		default:
			t.Errorf("%s: %v %v", name, s, body)
		}
		if want := map[string]int{"completed": 1, "denied": 0}[end.Calls[0].State]; c.agreed(name) != want {
			t.Errorf("%s is %s, and was done %d times", name, end.Calls[0].State, c.agreed(name))
		}
	}
	t.Logf("who was first: %v", wins)
}

func yesTwice(t *testing.T, c *crew) {
	for i := range 6 {
		name := fmt.Sprint("yy", i)
		v := c.node(i).submit(turn{Trace: "yy", Turn: name, CanAsk: true, Calls: []call{ask(name)}})
		c.node(1).until("yy", name, "approval_requested", "0")
		s, body := c.both(v, "approve", "approve")
		c.node(i+1).end("yy", name).Calls[0].is(t, "completed", "", "done")
		if s[0] >= 300 && s[1] >= 300 {
			t.Errorf("%s: nobody's yes was taken: %v %v", name, s, body)
		}
		if k := len(of(c.node(2).events("yy", name), "approved", "0")); k != 1 || c.agreed(name) != 1 {
			t.Errorf("%s: approved %d times, done %d times", name, k, c.agreed(name))
		}
	}
}

// yesToOtherArguments: the first one is what runs, and the other person is told so.
func yesToOtherArguments(t *testing.T, c *crew) {
	for i := range 6 {
		name := fmt.Sprint("yo", i)
		v := c.node(i).submit(turn{Trace: "yo", Turn: name, CanAsk: true, Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}, ask(name)}})
		c.node(1).until("yo", name, "approval_requested", "1")
		var wg sync.WaitGroup
		var statuses [2]int
		for k := range statuses {
			wg.Go(func() {
				status, _, err := c.node(k+1).try(http.MethodPost, v.path(1)+"/approve", args{"args": args{"v": fmt.Sprint(name, " by ", k)}})
				if err != nil {
					t.Error(err)
				}
				statuses[k] = status
			})
		}
		wg.Wait()
		won, lost := 0, 1
		if statuses[1] < 300 {
			won, lost = 1, 0
		}
		if statuses[won] >= 300 || statuses[lost] != http.StatusConflict {
			t.Errorf("%s: %v", name, statuses)
		}
		for what, again := range map[string]args{
			"as it was asked": nil, "for the session": {"args": args{"v": fmt.Sprint(name, " by ", won)}, "scope": "session"},
		} {
			if status, body := c.node(i).ask(http.MethodPost, v.path(1)+"/approve", again); status != http.StatusConflict {
				t.Errorf("%s: another yes, %s: %d %s", name, what, status, body)
			}
		}
		c.node(i).post(v.path(1)+"/approve", args{"args": args{"v": fmt.Sprint(name, " by ", won)}}) // the same again
		c.node(i).post(v.path(0)+"/cancel", nil)
		c.node(i+1).end("yo", name).Calls[1].is(t, "completed", "", "done")
		if a, b, as := c.agreed(fmt.Sprint(name, " by ", won)), c.agreed(fmt.Sprint(name, " by ", lost)), c.agreed(name); a != 1 || b != 0 || as != 0 {
			t.Errorf("%s: done %d times as agreed, %d times as the other wanted, %d times as asked", name, a, b, as)
		}
	}
}

func yesAndCancel(t *testing.T, c *crew) {
	for i := range 8 {
		name := fmt.Sprint("yc", i)
		v := c.node(i).submit(turn{Trace: "yc", Turn: name, CanAsk: true, Calls: []call{ask(name)}})
		c.node(1).until("yc", name, "approval_requested", "0")
		s, body := c.both(v, "approve", "cancel")
		end := c.node(i+1).end("yc", name)
		k := end.Calls[0]
		switch done := c.agreed(name); {
		case done > 1, done == 1 && k.Effects == "none", done == 0 && k.State == "completed":
			t.Errorf("%s: %+v, done %d times", name, k, done)
		case s[0] == http.StatusConflict && (done != 0 || k.State != "cancelled"):
			t.Errorf("%s: the yes was refused (%s): %+v, done %d times", name, body[0], k, done)
		case s[0] >= 300 && s[0] != http.StatusConflict, s[1] >= 300:
			t.Errorf("%s: %v %v", name, s, body)
		}
	}
}

func operandChangedOnNodes(t *testing.T, c *crew) {
	for i, change := range []func(){
		func() { c.write("op0.sh", "echo harmful >> op0.txt\n") },
		func() { c.write("op1.sh", "echo harmlesS >> op1.txt\n") }, // as long as it was
		func() {},
	} {
		name := fmt.Sprint("op", i)
		c.write(name+".sh", "echo harmless >> "+name+".txt\n")
		c.node(i).submit(turn{Trace: name, Turn: "t", CanAsk: true, Calls: []call{
			{Tool: "sleep", Args: args{"ms": forever}}, {Tool: "bash", Args: args{"command": "sh ./" + name + ".sh"}},
		}})
		w := c.node(i+1).inbox(name, 1)[0]
		c.node(i+1).post(w.path()+"/approve", args{"args_hash": w.Hash})
		c.node(i+2).until(name, "t", "approved", "1")
		change()
		c.node(i+2).post("/v1/turns/"+name+"/t/calls/0/cancel", nil)
		k := c.node(i).end(name, "t").Calls[1]
		if i == 2 {
			k.is(t, "completed", "", "done")
			continue
		}
		k.is(t, "denied", "CONFLICT", "none")
		if n := c.bytesOf(name + ".txt"); n != 0 {
			t.Errorf("%s: the changed script was run", name)
		}
	}
}

func sessionOnNodes(t *testing.T, c *crew) {
	v := c.node(0).submit(turn{Trace: "ses", Turn: "t1", CanAsk: true, Calls: []call{ask("ses")}})
	c.node(1).inbox("ses", 1)
	c.node(1).post(v.path(0)+"/approve", args{"scope": "session"})
	c.node(2).end("ses", "t1").Calls[0].is(t, "completed", "", "done")
	for i := range 3 {
		c.node(i).run(turn{Trace: "ses", Turn: fmt.Sprint("u", i), CanAsk: true, Calls: []call{ask("ses")}}).Calls[0].is(t, "completed", "", "done")
	}
	for i, tu := range []turn{
		{Trace: "ses", Turn: "other", CanAsk: true, Calls: []call{ask("ses ")}},
		{Trace: "ses2", Turn: "t", CanAsk: true, Calls: []call{ask("ses")}},
	} {
		v := c.node(i).submit(tu)
		c.node(i+1).inbox(tu.Trace, 1)
		c.node(i+2).post(v.path(0)+"/deny", nil)
		c.node(i).end(v.Trace, v.Turn).Calls[0].is(t, "denied", "APPROVAL_REJECTED", "none")
	}
	if c.agreed("ses") != 4 || c.agreed("ses ") != 0 {
		t.Errorf("done %d and %d times", c.agreed("ses"), c.agreed("ses "))
	}
}

// TestApprovalsOutliveEverything: every node is killed and the NATS server
// restarted while people think; what had ended is not run again.
func TestApprovalsOutliveEverything(t *testing.T) {
	t.Parallel()
	c := muster(t, 3)
	c.node(0).submit(turn{Trace: "writes", Turn: "t", CanAsk: true, Calls: []call{
		{Tool: "write", Args: args{"path": "one.txt", "text": "one"}}, ask("two"), {Tool: "write", Args: args{"path": "three.txt", "text": "three"}},
	}})
	c.node(1).submit(turn{Trace: "effects", Turn: "t", CanAsk: true, Calls: []call{
		charge("alive-1", 1), {Tool: "reserve", Args: args{"item": "alive"}}, ask("alive-2"), charge("alive-3", 1), ask("alive-4"),
	}})
	c.node(2).until("writes", "t", "completed", "0")
	c.node(2).until("effects", "t", "completed", "1")
	before := asText(t, c.node(0).inbox("effects", 2)) + asText(t, c.node(0).inbox("writes", 1))
	c.parked("writes", "t")
	c.parked("effects", "t")
	for range 2 {
		c.restart()
		for i := range c.nodes {
			if now := asText(t, c.node(i).inbox("effects", 2)) + asText(t, c.node(i).inbox("writes", 1)); now != before {
				t.Errorf("the list was\n%s\nand is\n%s", before, now)
			}
		}
	}
	c.write("one.txt", "by hand")
	c.down()
	c.nats.Start()
	// With no node alive, the command line gives the answers, out of order.
	must(t, "approve", "--nats", c.nats.URL(), "effects/t/4")
	must(t, "approve", "--nats", c.nats.URL(), "writes/t/1")
	for range 3 {
		c.add()
	}
	for _, k := range c.node(1).end("writes", "t").Calls {
		k.is(t, "completed", "", "done")
	}
	c.node(2).post("/v1/turns/effects/t/calls/2/approve", nil)
	for _, k := range c.node(0).end("effects", "t").Calls {
		k.is(t, "completed", "", "done")
	}
	if one, three := c.read("one.txt"), c.read("three.txt"); one != "by hand" || three != "three" {
		t.Errorf("the files hold %q and %q", one, three)
	}
	var order []string
	for _, e := range c.effects() {
		order = append(order, e.Call)
	}
	if fmt.Sprint(order) != "[effects/t/0 effects/t/1 writes/t/1 effects/t/2 effects/t/3 effects/t/4]" {
		t.Errorf("effects in the order %v", order)
	}
	for _, call := range []string{"0", "1"} {
		if k := len(of(c.node(0).events("effects", "t"), "started", call)); k != 1 {
			t.Errorf("call %s was started %d times", call, k)
		}
	}
	proven(t, c.nats.URL())
}

// TestAnApprovalExpiresWithNobodyAlive: its time passes while there is no node and
// no server; whoever comes first tells so, and a yes then is too late.
func TestAnApprovalExpiresWithNobodyAlive(t *testing.T) {
	t.Parallel()
	const life = 5 * time.Second
	c := muster(t, 2, "--approval", life.String())
	for i, calls := range [][]call{{ask("x0")}, {ask("x1"), {Tool: "echo", Args: args{"v": 1}}}, {charge("expires", 1), ask("x2"), ask("x3")}} {
		c.node(i).submit(turn{Trace: "expire", Turn: fmt.Sprint("t", i), CanAsk: true, Calls: calls})
	}
	var asked time.Time // the last of them
	for i, calls := range [][]string{{"0"}, {"0"}, {"1", "2"}} {
		for _, call := range calls {
			c.node(0).until("expire", fmt.Sprint("t", i), "approval_requested", call)
			if at := of(c.node(0).events("expire", fmt.Sprint("t", i)), "approval_requested", call)[0].at(t); at.After(asked) {
				asked = at
			}
		}
	}
	c.node(0).until("expire", "t1", "completed", "1")
	c.node(0).until("expire", "t2", "completed", "0")
	c.down()
	past := time.NewTimer(time.Until(asked.Add(life)))
	defer past.Stop()
	<-past.C
	c.nats.Start()
	c.add()
	n := c.add()
	for i, at := range []int{0, 0, 1} {
		v := n.end("expire", fmt.Sprint("t", i))
		for k, x := range v.Calls {
			if k < at || x.Tool == "echo" {
				x.is(t, "completed", "", "")
				continue
			}
			x.is(t, "denied", "APPROVAL_EXPIRED", "none")
			if status, body := n.ask(http.MethodPost, v.path(k)+"/approve", nil); status != http.StatusConflict {
				t.Errorf("a yes that came too late: %d %s", status, body)
			}
			if s := verb(t, "", "approve", "--nats", c.nats.URL(), fmt.Sprintf("expire/t%d/%d", i, k)); s.code != 1 || !strings.Contains(s.err, "hint:") {
				t.Errorf("a yes on the command line that came too late: %+v", s)
			}
			list := n.events("expire", fmt.Sprint("t", i))
			denied := of(list, "denied", fmt.Sprint(k))[0]
			asked := of(list, "approval_requested", fmt.Sprint(k))[0]
			t.Logf("t%d/%d: it was to expire at %s, and did at %s; the node was up at %s", i, k, asked.field("expires"), denied.Time, n.up.UTC().Format(time.RFC3339Nano))
		}
	}
	n.inbox("expire", 0)
	if c.charged("expires") != 1 || len(c.effects()) != 1 {
		t.Errorf("%+v", c.effects())
	}
	proven(t, c.nats.URL())
}

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// placedTurn is a submission for a placement.
type placedTurn struct {
	turn
	Placement string `json:"placement,omitempty"`
}

// TestACancelIsHeardInTheQueue: where nobody has claimed the turn, because the node
// has no room, because no node serves its placement, or because it was submitted a
// moment ago.
func TestACancelIsHeardInTheQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--room", "1")
	n.submit(turn{Trace: "fills", Turn: "t", Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}}})
	n.until("fills", "t", "started", "0")
	n.submit(turn{Trace: "full", Turn: "t", Calls: []call{charge("full", 1), {Tool: "echo", Args: args{"v": 1}}}})
	n.submit(turn{Trace: "part", Turn: "t", Calls: []call{charge("part", 1), {Tool: "echo", Args: args{"v": 1}}}})
	for _, path := range []string{"full/t", "part/t/calls/0"} {
		if r := n.post("/v1/turns/"+path+"/cancel", nil); r.Status != "accepted" {
			t.Errorf("%s: %+v", path, r)
		}
	}
	for _, c := range n.end("full", "t").Calls { // while there is still no room
		c.is(t, "cancelled", "CANCELLED", "none")
	}
	if s := n.look("fills", "t").State; s == "completed" {
		t.Error("the call that filled the node has ended: this was no test")
	}
	n.post("/v1/turns/fills/t/cancel", nil)
	v := n.end("part", "t") // now there is
	v.Calls[0].is(t, "cancelled", "CANCELLED", "none")
	v.Calls[1].is(t, "completed", "", "")
	if got := answers(t, v.Messages); len(got) != 2 || got[0].Call != 0 || got[1].Content.Text != "1" {
		t.Errorf("%+v", got)
	}
	for _, e := range p.effects() {
		t.Errorf("it was charged: %+v", e)
	}
}

// TestACancelWhereNobodyServes ends the turn all the same: every node may end one.
func TestACancelWhereNobodyServes(t *testing.T) {
	t.Parallel()
	n := newPlace(t).serve()
	status, body := n.ask(http.MethodPost, "/v1/turns", placedTurn{turn{Trace: "far", Turn: "t", Calls: []call{charge("far", 1)}}, "elsewhere"})
	if status >= 300 {
		t.Fatalf("%d %s", status, body)
	}
	if r := n.post("/v1/turns/far/t/cancel", args{"reason": "nobody is there"}); r.Status != "accepted" {
		t.Errorf("%+v", r)
	}
	n.end("far", "t").Calls[0].is(t, "cancelled", "CANCELLED", "none")
}

// TestACancelRightAfterSubmission, some hundred times at other moments: before the
// claim, between the gates, at the start.
func TestACancelRightAfterSubmission(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for worker := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(worker)))
		all.Go(func() {
			for i := range 25 {
				trace := fmt.Sprintf("at-once-%d-%d", worker, i)
				n.submit(turn{Trace: trace, Turn: "t", Calls: []call{{Tool: "sleep", Args: args{"ms": forever}}, charge(trace, 1)}})
				<-time.After(time.Duration(rng.IntN(3_000)) * time.Microsecond)
				if r := n.post("/v1/turns/"+trace+"/t/cancel", nil); r.Status != "accepted" {
					t.Errorf("%s: %+v", trace, r)
				}
				v := n.end(trace, "t")
				for _, c := range v.Calls {
					c.is(t, "cancelled", "CANCELLED", "none")
				}
				w := waiting{call: "1", effects: "none"}
				w.ended(n, trace, "cancelled", "turn_cancel_requested")
			}
		})
	}
	all.Wait()
	if got := p.effects(); len(got) > 0 {
		t.Errorf("it was charged: %+v", got)
	}
}

// TestTheEndComesWhileNobodyRuns: a cancel that is given while no node lives, and
// deadlines that pass meanwhile, of a turn that waits and of one that ran.
func TestTheEndComesWhileNobodyRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve()
	sleeps := call{Tool: "sleep", Args: args{"ms": forever}}
	limits := map[string]int{"deadline_ms": 20_000}
	n.submit(turn{Trace: "cancel", Turn: "t", Calls: []call{sleeps, charge("cancel", 1)}})
	n.submit(turn{Trace: "ran", Turn: "t", Limits: limits, Calls: []call{sleeps, charge("ran", 1)}})
	n.submit(turn{Trace: "asked", Turn: "t", Limits: limits, CanAsk: true, Calls: []call{ask("asked")}})
	n.submit(turn{Trace: "paid", Turn: "t", Limits: limits, Calls: []call{charge("paid", 1, "stall_ms", forever)}})
	late := time.NewTimer(20 * time.Second) // of the clock that the deadlines are measured by
	defer late.Stop()
	for trace, kind := range map[string]string{"cancel": "started", "ran": "started", "asked": "approval_requested", "paid": "started"} {
		n.reach(trace, kind, "0")
	}
	poll(t, "it has charged", func() bool { return len(p.effects()) == 1 })
	n.kill()
	if out := must(t, "cancel", "--data", p.data, "--json", "cancel/t"); !strings.Contains(out, `"accepted"`) {
		t.Errorf("cancel says %q", out)
	}
	<-late.C
	n = p.serve()
	for _, c := range n.end("cancel", "t").Calls {
		c.is(t, "cancelled", "CANCELLED", "none")
	}
	for _, c := range n.end("ran", "t").Calls {
		c.is(t, "timed_out", "TIMEOUT", "none")
	}
	n.end("asked", "t").Calls[0].is(t, "timed_out", "TIMEOUT", "none")
	n.end("paid", "t").Calls[0].is(t, "completed", "", "done") // its probe has found it: that is better to know
	for _, trace := range []string{"cancel", "ran"} {
		if got := of(n.events(trace, "t"), "started", ""); len(got) != 1 {
			t.Errorf("%s: %d starts, and all but the first came after its end was asked for", trace, len(got))
		}
	}
	if got := p.effects(); len(got) != 1 {
		t.Errorf("the ledger has %+v", got)
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// undone is the answer to a compensate, by the documentation.
type undone struct {
	Status, Undo, Code, Reason, Effects string
	By                                  struct{ ID string }
}

// undo asks for the undo of a call over HTTP.
func (a *api) undo(v view, call, waitMS int) (status int, out undone) {
	a.t.Helper()
	status, body := a.ask(http.MethodPost, v.path(call)+"/compensate", args{"principal": "ann", "wait_ms": waitMS})
	if status >= 300 {
		return status, undone{Reason: string(body)}
	}
	if err := json.Unmarshal(body, &out); err != nil {
		a.t.Fatalf("%s: %v", body, err)
	}
	return status, out
}

// lines is how many lines of the ledger name an item.
func (p *place) lines(item string) (n int) {
	p.t.Helper()
	for _, e := range p.effects() {
		if e.Item == item {
			n++
		}
	}
	return n
}

// TestAnUndoWhoseNodeDies is not made again by itself: nobody knows, until somebody
// has looked and says so. Then it is made, once.
func TestAnUndoWhoseNodeDies(t *testing.T) {
	t.Parallel()
	c := muster(t, 2)
	for _, found := range []string{"none", "done"} {
		item := "seat-" + found
		v := c.node(0).run(turn{Trace: item, Turn: "t", Calls: []call{{Tool: "reserve", Args: args{"item": item}}}})
		v.Calls[0].is(t, "completed", "", "done")
		release := c.hold()
		status, asked := c.node(0).undo(v, 0, 0)
		if status != http.StatusAccepted || asked.Status != "accepted" || asked.Undo != item+"/undo-t-0-1/0" {
			t.Fatalf("%d %+v", status, asked)
		}
		c.node(1).until(item, "undo-t-0-1", "started", "0")
		boot := of(c.node(1).events(item, "undo-t-0-1"), "started", "0")[0].Boot
		for i, n := range c.nodes {
			if n.Boot == boot {
				n.kill()
				c.nodes = append(c.nodes[:i:i], c.nodes[i+1:]...)
				break
			}
		}
		release()
		survivor := c.nodes[0]
		c.add()
		undoing := survivor.end(item, "undo-t-0-1")
		undoing.Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
		if chain := chain(survivor.events(item, "undo-t-0-1"), "0"); !strings.Contains(chain, "recovered probe") || strings.Count(chain, "started") != 1 {
			t.Errorf("%s", chain)
		}
		for _, n := range c.nodes {
			if status, refused := n.undo(v, 0, 60_000); status != http.StatusConflict || !strings.Contains(refused.Reason, "undo-unknown") {
				t.Errorf("asked again: %d %+v", status, refused)
			}
		}
		if k := c.lines(item); k != 1 {
			t.Errorf("the ledger names it %d times", k)
		}
		out := must(t, "resolve", "--nats", c.nats.URL(), "--by", "bob", asked.Undo, found)
		if !strings.Contains(out, map[string]string{"none": "idempotency key is free", "done": "stays taken"}[found]) {
			t.Errorf("%s", out)
		}
		by, as := map[string]string{"none": "ann", "done": "bob"}[found], map[string]string{"none": "2", "done": "1"}[found]
		if status, now := survivor.undo(v, 0, 60_000); status != http.StatusOK || now.Status != "compensated" || now.Undo != item+"/undo-t-0-"+as+"/0" || now.By.ID != by {
			t.Errorf("after it was resolved as %s: %d %+v", found, status, now)
		}
		if k, want := c.lines(item), map[string]int{"none": 2, "done": 1}[found]; k != want {
			t.Errorf("the ledger names it %d times, want %d", k, want)
		}
		if out := must(t, "compensate", "--nats", c.nats.URL(), fmt.Sprint(item, "/t/0")); !strings.Contains(out, "compensated already, by "+by) {
			t.Errorf("%s", out)
		}
	}
	proven(t, c.nats.URL())
}

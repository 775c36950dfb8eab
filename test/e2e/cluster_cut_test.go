package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

// cutFor is how long nodes are cut off: longer than the presence's time to live, and
// than AckWait, after which the queue gives away what they hold.
const cutFor = 18 * time.Second

// behind starts a node that reaches the servers through proxies only, and serves two
// placements: one that others may serve, and one of its own.
func (c *three) behind(own string) (*member, []*cluster.Proxy) {
	c.t.Helper()
	var all []*cluster.Proxy
	var urls []string
	for _, s := range c.Servers {
		p, err := cluster.NewProxy(s.Address())
		c.must(err)
		c.t.Cleanup(func() {
			if err := p.Close(); err != nil {
				c.t.Error(err)
			}
		})
		all, urls = append(all, p), append(urls, p.URL())
	}
	return c.node(cluster.NodeConfig{Name: own, NATS: strings.Join(urls, ","), Args: []string{"--placements", own + "," + own + "-only"}}), all
}

// placed submits a turn for a placement.
func (m *member) placed(at string, tu turn) {
	m.t.Helper()
	body := map[string]any{"trace": tu.Trace, "turn": tu.Turn, "calls": tu.Calls, "placement": at, "limits": tu.Limits, "can_ask": tu.CanAsk}
	if status, text := m.ask(http.MethodPost, "/v1/turns", body); status >= 300 {
		m.t.Fatalf("submit %s/%s: %d %s", tu.Trace, tu.Turn, status, text)
	}
}

// TestANodeThatIsCutOff from the servers for long loses its turns to others, settles
// nothing of them when it is back, and works again: one whose connections end, and
// one whose packets are lost, and arrive when the network is back.
func TestANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	c := newCluster(t, cluster.Config{})
	names := []string{"torn", "silent"}
	nodes, proxies := map[string]*member{}, map[string][]*cluster.Proxy{}
	for _, name := range names {
		nodes[name], proxies[name] = c.behind(name)
		for _, tu := range halfway(name) {
			nodes[name].placed(name, tu)
			nodes[name].until(tu.Trace, tu.Turn, "started", "0")
		}
		poll(t, "the charge is in the ledger", func() bool { return c.place.charged(name+"-paid") == 1 })
	}
	other := c.node(cluster.NodeConfig{Name: "other", Args: []string{"--placements", "default," + strings.Join(names, ",")}})
	began := time.Now()
	for _, p := range proxies["torn"] {
		p.Cut()
	}
	for _, p := range proxies["silent"] {
		p.Silence()
	}
	var sent []turn
	for _, name := range names {
		c.place.write(name+".cut", "")
		sent = append(sent, halfway(name)...)
	}
	flawless(t, c.audit(other, sent))
	t.Logf("everything was done by others %v after the cut", time.Since(began).Round(time.Millisecond))
	wait(t.Context(), time.Until(began.Add(cutFor)))
	for _, name := range names {
		for _, p := range proxies[name] {
			p.Restore()
		}
	}
	for _, name := range names {
		c.back(nodes[name])
	}
	for _, name := range names {
		c.fenced(other, nodes[name].Boot(), halfway(name))
	}
	flawless(t, c.audit(other, sent))
	proven(t, c.URL())
}

// halfway are turns that a node is in the middle of when it is cut off: one reads, and
// charges then; one has charged, and stalls. They go on once the node is cut off.
func halfway(name string) []turn {
	return []turn{
		{Trace: name + "-read", Turn: "t", Calls: []call{waits(name + ".cut"), charge(name+"-then", 1)}},
		{Trace: name + "-paid", Turn: "t", Calls: []call{charge(name+"-paid", 1, "stall_ms", forever, "until", name+".cut"), charge(name+"-next", 1)}},
	}
}

// back waits until a node that was cut off takes turns again.
func (c *three) back(n *member) {
	c.t.Helper()
	own := n.Name()
	poll(c.t, own+" is ready again", func() bool { return n.Ready(c.t.Context()) == nil })
	one := turn{Trace: own + "-again", Turn: "t", Calls: []call{charge(own+"-again", 1)}}
	poll(c.t, own+" accepts turns again", func() bool {
		body := map[string]any{"trace": one.Trace, "turn": one.Turn, "calls": one.Calls, "placement": own + "-only"}
		status, _, err := soon(c.t.Context(), n.base, http.MethodPost, "/v1/turns", body)
		return err == nil && status < 300
	})
	flawless(c.t, c.audit(n, []turn{one}))
}

// fenced sees that a boot has written nothing but late results behind a later owner's claim.
func (c *three) fenced(door *member, boot string, turns []turn) {
	c.t.Helper()
	for _, tu := range turns {
		lost, own := false, 0
		for _, e := range door.events(tu.Trace, tu.Turn) {
			switch {
			case e.kind() == "turn_claimed":
				if lost = e.Boot != boot; !lost {
					own++
				}
			case lost && e.Boot == boot && e.kind() != "late_result":
				c.t.Errorf("%s: %s wrote %s at %s, after it had lost the turn", tu.Trace, boot, e.kind(), e.Position)
			}
		}
		if own == 0 || !lost {
			c.t.Errorf("%s: claimed by the node that was cut off %d times, lost by it: %v", tu.Trace, own, lost)
		}
		for i := range tu.Calls {
			if order := argument(tu.Calls[i], "order"); order != "" && c.place.charged(order) != 1 {
				c.t.Errorf("%s was charged %d times", order, c.place.charged(order))
			}
		}
	}
}

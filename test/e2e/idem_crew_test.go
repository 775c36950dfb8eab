package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// crew is nodes that share nothing but a NATS server and a disk.
type crew struct {
	*place
	nats  *jettest.Server
	flags []string
	nodes []*node
	idle  float64 // goroutines of all nodes without work; 0 where nobody has looked
}

// muster starts a NATS server and nodes on it.
func muster(t *testing.T, nodes int, flags ...string) *crew {
	t.Helper()
	c := &crew{place: newPlace(t), nats: newKeeper(t), flags: flags}
	for range nodes {
		c.add()
	}
	return c
}

// add starts one more node.
func (c *crew) add() *node {
	c.t.Helper()
	n := c.join(c.nats.URL(), c.flags...)
	c.nodes = append(c.nodes, n)
	return n
}

// restart kills every node, restarts the NATS server, and starts as many nodes anew.
func (c *crew) restart() {
	c.t.Helper()
	many := len(c.nodes)
	c.down()
	c.nats.Start()
	for range many {
		c.add()
	}
}

// down kills every node, and stops the NATS server.
func (c *crew) down() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.kill()
	}
	c.nodes = nil
	c.nats.Stop()
}

// in is the crew as a part of a test sees it.
func (c *crew) in(t *testing.T) *crew {
	own, where := *c, *c.place
	where.t = t
	own.place, own.nodes = &where, nil
	for _, n := range c.nodes {
		at := *n
		at.api, at.place = &api{t: t, base: n.base}, &where
		own.nodes = append(own.nodes, &at)
	}
	return &own
}

// node is one of the crew, whichever number it gets.
func (c *crew) node(i int) *node { return c.nodes[i%len(c.nodes)] }

// hold keeps everybody from writing to the ledger: a call that appends to it has
// started, and has no effect yet. It returns what lets them go on.
func (p *place) hold() (release func()) {
	p.t.Helper()
	f, err := os.OpenFile(p.ledger, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		p.t.Fatal(err)
	}
	release = func() { _ = f.Close() } // it was only locked; twice is no matter
	p.t.Cleanup(release)
	return release
}

// bytesOf is the size of a workspace file that need not be there.
func (p *place) bytesOf(name string) int {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.work, name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return len(text)
}

// told is what the model is told of a turn's call: the answer's kind and its code.
func (a *api) told(v view, call int) (kind, code string) {
	a.t.Helper()
	m := answers(a.t, a.messages(v.Trace, v.Turn, "json"))[call]
	if m.Content.Error != nil {
		code = m.Content.Error.Code
	}
	return m.Answer, code
}

// path is where a call is in the API.
func (v view) path(call int) string {
	return fmt.Sprintf("/v1/turns/%s/%s/calls/%d", v.Trace, v.Turn, call)
}

// part is one of several tests that share a crew.
type part struct {
	name string
	test func(*testing.T, *crew)
}

// together runs tests side by side, and returns when all have ended.
func (c *crew) together(t *testing.T, parts []part) {
	t.Run("together", func(t *testing.T) {
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.test(t, c.in(t))
			})
		}
	})
}

// measure is a metric's value, of all nodes of the crew and all its labels together.
func (c *crew) measure(name string) (sum float64) {
	c.t.Helper()
	for _, n := range c.nodes {
		sum += n.measure(name)
	}
	return sum
}

// measure is a metric's value, of all its labels together.
func (a *api) measure(name string) (sum float64) {
	a.t.Helper()
	status, body := a.ask(http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		a.t.Fatalf("metrics: %d %s", status, body)
	}
	for line := range strings.Lines(string(body)) {
		id, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(id, "{"); bare != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			a.t.Fatalf("metrics: %q: %v", line, err)
		}
		sum += v
	}
	return sum
}

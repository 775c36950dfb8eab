package e2e

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

// TestAClusterGoesOn while its nodes are restarted one after the other, while its
// streams change their leaders, and while one of its servers is gone: no turn fails,
// and nothing is unknown.
func TestAClusterGoesOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, cluster.Config{})
	nodes := c.nodes(3, append(unhurried, "--drain", "50s")...)
	for _, x := range []struct {
		name string
		test func(*testing.T, *three, []*member, *traffic)
	}{
		{"a rolling restart", rolling},
		{"leaders step down", stepDowns},
		{"a server is killed, and comes back", serverKilled},
	} {
		t.Run(x.name, func(t *testing.T) {
			at, all := *c, make([]*member, len(nodes))
			at.t, at.place = t, &place{t: t, work: c.Workspace(), ledger: c.Ledger()}
			for i, n := range nodes {
				all[i] = &member{n.Node, &api{t: t, base: n.base}}
			}
			name := t.Name()[len("TestAClusterGoesOn/"):][:6]
			load := &traffic{
				t: t, doors: doors(all), make: func(i int) turn { return eachTier(name, i) },
				pause: func(int) time.Duration { return 60 * time.Millisecond },
			}
			x.test(t, &at, all, load)
		})
	}
	proven(t, c.URL())
}

// rolling drains and starts each node in turn.
func rolling(t *testing.T, c *three, nodes []*member, load *traffic) {
	stop := load.begin()
	for _, n := range nodes {
		load.accepted(8)
		was := n.Boot()
		code, err := n.Drain(t.Context())
		c.must(err)
		if code != 0 {
			t.Errorf("%s drained with status %d", n.Name(), code)
		}
		load.accepted(8) // the others go on without it
		c.must(n.Start(t.Context()))
		if n.Boot() == was {
			t.Errorf("%s has the boot id that it had before", n.Name())
		}
	}
	load.accepted(8)
	s := c.audit(nodes[0], stop())
	flawless(t, s)
	if s.takeovers != 0 {
		t.Errorf("%d turns were taken over from nodes that had drained", s.takeovers)
	}
}

// stepDowns has the leaders of the log and of the queue give up their office.
func stepDowns(t *testing.T, c *three, nodes []*member, load *traffic) {
	stop := load.begin()
	for _, stream := range []string{"SLUICE", "SLUICE_TURNS", "SLUICE", "SLUICE_TURNS"} {
		load.accepted(6)
		was, err := c.StepDown(t.Context(), stream)
		c.must(err)
		now, err := c.Leader(t.Context(), stream)
		c.must(err)
		t.Logf("%s: %s stepped down, %s leads", stream, was.Name(), now.Name())
	}
	load.accepted(6)
	flawless(t, c.audit(nodes[0], stop()))
}

// serverKilled kills the server that leads the log, and starts it again later.
func serverKilled(t *testing.T, c *three, nodes []*member, load *traffic) {
	stop := load.begin()
	load.accepted(6)
	s, err := c.Leader(t.Context(), "SLUICE")
	c.must(err)
	s.Kill()
	load.accepted(20) // two servers are enough
	c.must(s.Start(t.Context()))
	load.accepted(6)
	c.must(s.AwaitHealthy(t.Context()))
	flawless(t, c.audit(nodes[0], stop()))
	c.must(c.AwaitReady(t.Context()))
}

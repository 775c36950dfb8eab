package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

// TestAFullDiskOnOneServer: the other two go on without it, and it comes back once
// there is room.
func TestAFullDiskOnOneServer(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	mounted(t, small, 64)
	c := newCluster(t, cluster.Config{StoreOf: func(i int) string {
		if i == 0 {
			return small
		}
		return ""
	}})
	nodes := c.nodes(3, unhurried...)
	load := &traffic{
		t: t, doors: doors(nodes), pause: func(int) time.Duration { return 20 * time.Millisecond },
		make: func(i int) turn {
			tu := eachTier("full", i)
			tu.Calls = append(tu.Calls, call{Tool: "blob", Args: args{"bytes": 60_000, "kind": "text"}}) // it is kept in the log
			return tu
		},
	}
	stop := load.begin()
	load.accepted(5)
	fill(t, filepath.Join(small, "filler"), small, 1<<20)
	full := c.Servers[0]
	poll(t, "the server cannot write any more", func() bool {
		log := strings.ToLower(full.Log())
		return strings.Contains(log, "no space left") || strings.Contains(log, "out of space") || strings.Contains(log, "insufficient resources")
	})
	load.accepted(25)
	full.Kill()
	c.must(os.Remove(filepath.Join(small, "filler")))
	c.must(full.Start(t.Context()))
	load.accepted(10)
	c.must(full.AwaitHealthy(t.Context()))
	flawless(t, c.audit(nodes[0], stop()))
	c.must(c.AwaitReady(t.Context()))
	proven(t, c.URL())
}

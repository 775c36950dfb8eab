package actors

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
)

// TestALogThatTakesNoWrites is noticed, also where it goes on answering reads, and so is its
// end. Where nobody renews a presence nothing is known.
func TestALogThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	var readOnly atomic.Bool
	l := memlog.New(memlog.Config{})
	l.SetFaults(&memlog.Faults{Put: func(bucket, _ string) (bool, error) {
		if bucket == bus.BucketPresence && readOnly.Load() {
			return false, bus.ErrUnavailable
		}
		return true, nil
	}})
	n := testNode(t, l.View("a"), func(c *Config) { c.Presence, c.Sweep = time.Second, -1 })
	quiet := testNode(t, l.View("b"), func(c *Config) { c.Presence, c.Sweep = -1, -1 })
	if err := n.Writes(); err != nil {
		t.Fatal(err)
	}
	readOnly.Store(true)
	eventually(t, "a node that is not ready", func() bool {
		err := n.Writes()
		return err != nil && strings.Contains(err.Error(), "taken no write")
	})
	if _, err := l.View("c").Head(t.Context()); err != nil {
		t.Errorf("reads are answered: %v", err)
	}
	if err := quiet.Writes(); err != nil {
		t.Errorf("without presence: %v", err)
	}
	readOnly.Store(false)
	eventually(t, "a node that is ready again", func() bool { return n.Writes() == nil })
}

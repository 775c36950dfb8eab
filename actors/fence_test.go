package actors

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestAFence: an attempt has its lease until somebody else has it, it is gone, or it
// was not renewed in time.
func TestAFence(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	asked := make(chan error, 1)
	lose := make(chan func(n *Node), 1)
	var n *Node
	tool := testTool("locks", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		if err := in.Fence(ctx); err != nil {
			return events.Result{}, err
		}
		(<-lose)(n)
		asked <- in.Fence(ctx)
		return events.Result{Status: events.Success}, nil
	})
	tool.Resources = func(json.RawMessage) []events.ResourceUse { return []events.ResourceUse{{Name: "r", Exclusive: true}} }
	var ahead atomic.Int64
	n = testNode(t, b, func(c *Config) { c.Steady = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }, tool)
	gone := func(n *Node) {
		cell, err := b.Cells().Get(t.Context(), bus.BucketLock, lockCell("r"))
		if err != nil {
			t.Error(err)
			return
		}
		if err := b.Cells().Delete(t.Context(), bus.BucketLock, lockCell("r"), cell.Revision); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		how  func(n *Node)
		lost bool
	}{
		"it has it":          {func(*Node) {}, false},
		"the cell is gone":   {gone, true},
		"the node has slept": {func(n *Node) { ahead.Store(int64(time.Hour)) }, true},
	} {
		ahead.Store(0)
		lose <- c.how
		key := submit(t, b, events.TurnSubmitted{Calls: calls("locks")})
		if err := <-asked; errors.Is(err, tools.ErrFenced) != c.lost {
			t.Errorf("%s: %v", name, err)
		}
		ended(t, b, key)
	}
}

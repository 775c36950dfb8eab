package actors

import (
	"context"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// traceHistory is every commit of a trace, in the log's order.
func (n *Node) traceHistory(ctx context.Context, trace string) ([]events.Commit, error) {
	var out []events.Commit
	err := n.cfg.Bus.Read(ctx, events.Position{Generation: n.cfg.Bus.Generation()}, bus.Filter{Trace: trace}, false, func(s bus.Stored) error {
		out = append(out, s.Commit)
		return nil
	})
	return out, err
}

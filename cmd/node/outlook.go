package main

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// measures are the metrics of a node.
func (s *settings) measures(n *node) *gateway.Metrics {
	b := n.ses.Bus
	return gateway.NewMetrics(gateway.MetricsConfig{
		Known:     func(tool string) bool { _, ok := n.registry.Lookup(tool); return ok },
		Tier:      func(tool string) events.Tier { t, _ := n.registry.Lookup(tool); return t.Tier },
		Breakers:  func() (map[string]string, error) { return n.circuits(s.breaker()) },
		Endpoints: func() map[string]int { return n.actors.OpenCircuits() },
		Limits:    func() lifecycle.Limits { return n.limits.get() },
		Workers:   n.workerTools,
		Policy:    func() string { return n.judge.Version() },
		Unserved:  func() int { return n.actors.Unserved() },
		Unlike:    func() map[string]time.Duration { return n.unlike.For(session.Steady()) },
		Running:   func() (int, int) { return n.actors.Running() },
		Look:      func() (gateway.Outlook, error) { return outlook(b, s.placements) }, Now: n.ses.Now,
		Sync: b.Barrier().Mode(), Version: command.Version(),
	})
}

// lookTime is how long a look at the cluster may take: a scrape waits for it.
const lookTime = 2 * time.Second

// outlook looks at the queues, the streams and the nodes of a log, for metrics.
func outlook(b bus.Bus, placements []string) (gateway.Outlook, error) {
	ctx, stop := context.WithTimeout(context.Background(), lookTime)
	defer stop()
	out := gateway.Outlook{Oldest: make(map[string]time.Time)}
	if m, ok := b.(bus.Measurer); ok {
		var err error
		if out.Measures, err = m.Measure(ctx, placements); err != nil {
			return out, err
		}
	}
	for _, p := range placements {
		at, err := oldest(ctx, b, p)
		if err != nil {
			return out, err
		}
		if !at.IsZero() {
			out.Oldest[p] = at
		}
	}
	err := bus.Each(ctx, b.Cells(), bus.BucketPresence, func(c bus.Cell) {
		if gateway.Serves(c.Value) {
			out.Nodes++
		}
	})
	return out, err
}

// oldest is when the turn was submitted that was queued first; zero where none is, or
// where its beginning has left the log.
func oldest(ctx context.Context, b bus.Bus, placement string) (time.Time, error) {
	it, err := b.Oldest(ctx, placement)
	if errors.Is(err, bus.ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	commits, err := b.Load(ctx, it.Turn, 0)
	if err != nil || len(commits) == 0 {
		var unreadable *bus.Unreadable
		if errors.As(err, &unreadable) {
			err = nil
		}
		return time.Time{}, err
	}
	return commits[0].Commit.At, nil
}

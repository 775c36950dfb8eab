package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// ownCounts are the counters that begin at 0 and not with the first time: an alert would
// not see that one as an increase.
var ownCounts = []string{
	"conflicts", "redeliveries", "late_results", "mourned", "swept", "live_dropped", "actor_panics", "webhook_sent", "webhook_failed", "webhook_given_up", "reload_refused",
}

// claims are why turns are claimed.
var claims = []string{events.ClaimNew, events.ClaimWoken, events.ClaimDrained, events.ClaimTakenOver}

// begin sets to 0 what alerts look at.
func (m *Metrics) begin() {
	for _, row := range events.Kinds {
		m.events.WithLabelValues(string(row.Kind))
	}
	for _, what := range ownCounts {
		m.node.WithLabelValues(what)
	}
	for _, why := range claims {
		m.claimed.WithLabelValues(why)
	}
	for _, end := range []string{"ok", "conflict", "uncertain", "unavailable", "too_large", "failed"} {
		m.appends.WithLabelValues(end)
	}
}

// passed counts what an event says beside its kind. tool is the name of its call's tool.
func (m *Metrics) passed(e events.Event, tool string) {
	switch v := e.(type) {
	case *events.TurnClaimed:
		m.claimed.WithLabelValues(wordOf(v.Why, claims...)).Inc()
	case *events.Denied:
		m.denied.WithLabelValues(gate(v.Gate), wordOf(string(v.Code), codes...)).Inc()
	case *events.Retrying:
		m.attempted(e, tool, v.Attempt)
	case *events.Recovered:
		m.attempted(e, tool, v.Attempt)
	case *events.InputRequested:
		m.attempted(e, tool, v.Attempt)
	case *events.LateResult: // of an attempt that has ended before
	default:
		if o := events.OutcomeOf(e); o != nil {
			m.attempted(e, tool, o.Attempt)
		}
	}
}

// attempted counts the end of an attempt; 0 is none.
func (m *Metrics) attempted(e events.Event, tool string, attempt int) {
	if attempt == 0 {
		return
	}
	name, tier := m.label(tool), "_unknown"
	if m.conf.Tier != nil && name == tool {
		tier = string(m.conf.Tier(tool))
	}
	m.attempts.WithLabelValues(name, tier, string(e.Kind())).Inc()
}

// wordOf is a word if it is one of those that are known.
func wordOf(word string, known ...string) string {
	if slices.Contains(known, word) {
		return word
	}
	return "_other"
}

// codes are the codes that a denial may have.
var codes = []string{
	string(events.NotFound), string(events.AccessDenied), string(events.PermissionDenied), string(events.InvalidParam), string(events.Conflict),
	string(events.CircuitOpen), string(events.UnknownTool), string(events.ApprovalRejected), string(events.ApprovalExpired), string(events.IdempotencyConflict),
	string(events.TruncatedByModel), string(events.TooLarge), string(events.RateLimited), string(events.InternalError), string(events.CodeCancelled),
	string(events.UnknownOutcome), string(events.ExecutionError),
}

// gate is a gate's name, of those that there are.
func gate(name string) string {
	for _, list := range [][]lifecycle.Gate{lifecycle.PlanGates, lifecycle.StartGates} {
		if slices.Contains(list, lifecycle.Gate(name)) {
			return name
		}
	}
	return wordOf(name, string(lifecycle.GateApprove), "parse", "tool", "door")
}

// Around measures appends and barriers of a bus.
func (m *Metrics) Around(b bus.Bus) bus.Bus { return metered{b, m} }

// metered is a bus that tells how long its appends took.
type metered struct {
	bus.Bus
	m *Metrics
}

// Append is bus.Log's.
func (t metered) Append(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	began := time.Now()
	s, err := t.Bus.Append(ctx, c, at)
	t.m.appends.WithLabelValues(appended(err)).Observe(time.Since(began).Seconds())
	return s, err
}

// appended is how an append has ended, in a word.
func appended(err error) string {
	for _, end := range []struct {
		err  error
		word string
	}{
		{bus.ErrConflict, "conflict"}, {bus.ErrUncertain, "uncertain"}, {bus.ErrUnavailable, "unavailable"}, {bus.ErrTooLarge, "too_large"},
	} {
		if errors.Is(err, end.err) {
			return end.word
		}
	}
	if err != nil {
		return "failed"
	}
	return "ok"
}

// Barrier is bus.Bus's.
func (t metered) Barrier() bus.Barrier { return meteredBarrier{t.Bus.Barrier(), t.m} }

type meteredBarrier struct {
	bus.Barrier
	m *Metrics
}

// Wait is bus.Barrier's.
func (b meteredBarrier) Wait(ctx context.Context) error {
	began := time.Now()
	err := b.Barrier.Wait(ctx)
	if err == nil {
		b.m.barrier.Observe(time.Since(began).Seconds())
	}
	return err
}

// Outlook is how the cluster looks at a moment, from one node.
type Outlook struct {
	bus.Measures
	Oldest map[string]time.Time // by placement, when the turn was submitted that was queued first; none: nothing is queued
	Nodes  int                  // that renew their presence and do not drain
}

// outlooks tells how the cluster looks at the time of a scrape.
type outlooks struct{ conf MetricsConfig }

var (
	queueTurns   = prometheus.NewDesc("sluice_queue_turns", "Turns in the queue, by placement and whether a node has them; _wakes are wake-ups.", []string{"placement", "state"}, nil)
	queueOldest  = prometheus.NewDesc("sluice_queue_oldest_seconds", "Age of the turn that was queued first of those that nobody is done with; 0 where there is none.", []string{"placement"}, nil)
	streamMsgs   = prometheus.NewDesc("sluice_stream_messages", "Messages in each stream of the log's server.", []string{"stream"}, nil)
	streamBytes  = prometheus.NewDesc("sluice_stream_bytes", "Size of each stream of the log's server.", []string{"stream"}, nil)
	nodesPresent = prometheus.NewDesc("sluice_nodes", "Nodes that renew their presence and do not drain.", nil, nil)
	logRetention = prometheus.NewDesc("sluice_log_retention_seconds", "How long the log keeps its events; 0: for ever.", nil, nil)
	logReplicas  = prometheus.NewDesc("sluice_log_replicas", "How many servers keep each event of the log.", nil, nil)
)

// Describe is prometheus.Collector's.
func (outlooks) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueTurns, queueOldest, streamMsgs, streamBytes, nodesPresent, logRetention, logReplicas} {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (l outlooks) Collect(out chan<- prometheus.Metric) {
	if l.conf.Look == nil {
		return
	}
	look, err := l.conf.Look()
	if err != nil {
		out <- prometheus.NewInvalidMetric(queueTurns, err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := time.Now
	if l.conf.Now != nil {
		now = l.conf.Now
	}
	for _, q := range look.Queues {
		if q.Placement == bus.WakesQueue {
			q.Placement = "_wakes"
		}
		gauge(queueTurns, float64(q.Waiting), q.Placement, "waiting")
		gauge(queueTurns, float64(q.Held), q.Placement, "held")
		if q.Placement == "_wakes" {
			continue
		}
		age := 0.0
		if at, ok := look.Oldest[q.Placement]; ok {
			age = max(0, now().Sub(at).Seconds())
		}
		gauge(queueOldest, age, q.Placement)
	}
	for _, s := range look.Streams {
		gauge(streamMsgs, float64(s.Messages), s.Name)
		gauge(streamBytes, float64(s.Bytes), s.Name)
	}
	gauge(nodesPresent, float64(look.Nodes))
	if look.Replicas > 0 {
		gauge(logRetention, look.Retention.Seconds())
		gauge(logReplicas, float64(look.Replicas))
	}
}

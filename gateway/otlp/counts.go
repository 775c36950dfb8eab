package otlp

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-run/sluice/events"
)

// counts is what an exporter has done, and how far it is behind.
type counts struct {
	mu       sync.Mutex
	works    bool // this node has the role
	byEnd    map[string]uint64
	requests map[string]uint64
	gaps     uint64
	behind   uint64    // commits, when the log was last looked at
	pending  uint64    // commits that were read since, and not told yet
	oldest   time.Time // of the first commit that was not told; zero: all were
}

// Ends of a span, as far as the exporter is concerned.
var spanEnds = []string{"sent", "repeated", "rejected", "given_up", "unsampled"}

func (c *counts) begin() {
	c.set(func() { c.works, c.behind, c.pending, c.oldest = true, 0, 0, time.Time{} })
}
func (c *counts) end() { c.set(func() { c.works = false }) }
func (c *counts) gap() { c.set(func() { c.gaps++ }) }

func (c *counts) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counts) working() (yes bool) {
	c.set(func() { yes = c.works })
	return yes
}

func (c *counts) spans(end string, n int) {
	c.set(func() {
		if c.byEnd == nil {
			c.byEnd = make(map[string]uint64)
		}
		c.byEnd[end] += uint64(n)
	})
}

func (c *counts) request(end string) {
	c.set(func() {
		if c.requests == nil {
			c.requests = make(map[string]uint64)
		}
		c.requests[end]++
	})
}

// reading notes a commit that is being told.
func (c *counts) reading(at time.Time) {
	c.set(func() {
		c.pending++
		if c.oldest.IsZero() {
			c.oldest = at
		}
	})
}

// at notes that everything before next was told, of a log that goes to head.
func (c *counts) at(head, next events.Position) {
	c.set(func() {
		c.behind, c.pending, c.oldest = 0, 0, time.Time{}
		if head.Seq > next.Seq {
			c.behind = head.Seq - next.Seq
		}
	})
}

var (
	metricSpans    = prometheus.NewDesc("sluice_otlp_spans_total", "Spans of the log that this node has exported, by what became of them.", []string{"outcome"}, nil)
	metricRequests = prometheus.NewDesc("sluice_otlp_requests_total", "Requests to the collector, by how they ended.", []string{"outcome"}, nil)
	metricGaps     = prometheus.NewDesc("sluice_otlp_gaps_total", "Times that commits left the log before their spans were exported.", nil, nil)
	metricRole     = prometheus.NewDesc("sluice_otlp_exporting", "1 where this node is the one of the cluster that exports spans.", nil, nil)
	metricBehind   = prometheus.NewDesc("sluice_otlp_lag_commits", "Commits that are known and whose spans were not exported.", nil, nil)
	metricLag      = prometheus.NewDesc("sluice_otlp_lag_seconds", "Age of the oldest commit whose spans were not exported; 0 where there is none.", nil, nil)
)

// Describe is prometheus.Collector's.
func (x *Exporter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metricSpans, metricRequests, metricGaps, metricRole, metricBehind, metricLag} {
		out <- d
	}
}

// Collect is prometheus.Collector's. How far the export is behind says only the node
// that exports.
func (x *Exporter) Collect(out chan<- prometheus.Metric) {
	now := x.Now()
	x.counts.set(func() {
		c := &x.counts
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
		}
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
		}
		for _, end := range spanEnds {
			count(metricSpans, c.byEnd[end], end)
		}
		for _, end := range []string{"ok", "failed", "refused"} {
			count(metricRequests, c.requests[end], end)
		}
		count(metricGaps, c.gaps)
		if !c.works {
			gauge(metricRole, 0)
			return
		}
		gauge(metricRole, 1)
		gauge(metricBehind, float64(max(c.behind, c.pending)))
		lag := 0.0
		if !c.oldest.IsZero() {
			lag = max(0, now.Sub(c.oldest).Seconds())
		}
		gauge(metricLag, lag)
	})
}

package gateway

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// limitMetrics count what limits did to the calls of this node. Their label is a rule's
// id: those that this node has, which are no more than lifecycle.MaxLimits at a time.
type limitMetrics struct {
	rules  func() lifecycle.Limits // nil: there are none
	passed *prometheus.CounterVec
	denied *prometheus.CounterVec
	waited prometheus.Histogram
}

func newLimitMetrics(rules func() lifecycle.Limits) limitMetrics {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"limit"})
	}
	return limitMetrics{
		rules:  rules,
		passed: vec("sluice_limit_passed_total", "Starts on this node that a limit let through, by its id."),
		denied: vec("sluice_limit_denied_total", "Calls that were denied on this node for a limit, by its id."),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_limit_wait_seconds", Help: "How long starts that have passed limits had waited for them.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}),
	}
}

func (m limitMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.passed, m.denied, m.waited}
}

// label is a rule's id, if there is such a rule.
func (m limitMetrics) label(id string) string {
	if m.rules != nil && slices.ContainsFunc(m.rules().Rules(), func(r lifecycle.LimitRule) bool { return r.ID == id }) {
		return id
	}
	return "_other"
}

// see counts what an event says of limits.
func (m limitMetrics) see(e events.Event) {
	switch v := e.(type) {
	case *events.Denied:
		if v.Gate == string(lifecycle.GateLimit) && len(v.Policies) == 1 {
			m.denied.WithLabelValues(m.label(v.Policies[0])).Inc()
		}
	case *events.Started:
		if len(v.Limits) == 0 {
			return
		}
		m.waited.Observe(float64(v.LimitWaitMS) / 1000)
		seen := ""
		for _, l := range v.Limits { // in the order of their ids: a rule with several buckets counts once
			if l.Rule != seen {
				m.passed.WithLabelValues(m.label(l.Rule)).Inc()
			}
			seen = l.Rule
		}
	}
}

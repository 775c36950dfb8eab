package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-run/sluice/projections/readstore"
)

// Store measures a read store, too. It is called once; status is asked at each
// scrape, and must answer within a second or so.
func (m *Metrics) Store(status func() (readstore.Status, error)) {
	m.registry.MustRegister(storeMetrics{status})
}

// Standing tells, by a read store, what waits for people and what is unresolved. It
// is called once; standing is asked at each scrape, and must answer within a second or so.
func (m *Metrics) Standing(standing func() (readstore.Standing, error), now func() time.Time) {
	m.registry.MustRegister(standingMetrics{standing, now})
}

// standingMetrics tells what stands open at the time of a scrape.
type standingMetrics struct {
	standing func() (readstore.Standing, error)
	now      func() time.Time
}

var (
	peopleWaiting = prometheus.NewDesc("sluice_people_waiting", "Calls of the log that wait for a person, by what they wait for.", []string{"kind"}, nil)
	peopleOldest  = prometheus.NewDesc("sluice_people_oldest_seconds", "How long the first of them has waited; 0 where none waits.", nil, nil)
	unresolved    = prometheus.NewDesc("sluice_unknown_unresolved", "Calls of the log that may have had an effect, however they ended, and that nobody has resolved.", nil, nil)
)

// Describe is prometheus.Collector's.
func (standingMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- peopleWaiting
	out <- peopleOldest
	out <- unresolved
}

// Collect is prometheus.Collector's. While the store is built nothing is told.
func (m standingMetrics) Collect(out chan<- prometheus.Metric) {
	s, err := m.standing()
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for kind, n := range s.Waiting {
		gauge(peopleWaiting, float64(n), kind)
	}
	oldest := 0.0
	if !s.Oldest.IsZero() {
		oldest = max(0, m.now().Sub(s.Oldest).Seconds())
	}
	gauge(peopleOldest, oldest)
	gauge(unresolved, float64(s.Unresolved))
}

// storeMetrics tells how a read store stands at the time of a scrape.
type storeMetrics struct {
	status func() (readstore.Status, error)
}

var (
	storeCommits = prometheus.NewDesc("sluice_read_store_lag_commits", "Commits of the log that the read store lacks.", nil, nil)
	storeSeconds = prometheus.NewDesc("sluice_read_store_lag_seconds", "Everything in the log that is older can be found in the read store; 0 where nothing is missing.", nil, nil)
	storeState   = prometheus.NewDesc("sluice_read_store_state", "What the read store does: 1 for the state that it is in.", []string{"state"}, nil)
	storeBytes   = prometheus.NewDesc("sluice_read_store_bytes", "Size of the read store's database.", nil, nil)
	storeErrors  = prometheus.NewDesc("sluice_read_store_errors_total", "How often the read store could not go on.", nil, nil)
)

// Describe is prometheus.Collector's.
func (storeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeCommits, storeSeconds, storeState, storeBytes, storeErrors} {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (m storeMetrics) Collect(out chan<- prometheus.Metric) {
	s, err := m.status()
	if err != nil {
		out <- prometheus.NewInvalidMetric(storeCommits, err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(storeCommits, float64(s.Behind))
	gauge(storeSeconds, float64(s.BehindMS)/1000)
	gauge(storeBytes, float64(s.Bytes))
	gauge(storeState, 1, s.State)
	out <- prometheus.MustNewConstMetric(storeErrors, prometheus.CounterValue, float64(s.Errors))
}

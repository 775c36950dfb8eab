package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
)

// MetricsConfig says what is measured. Zero fields leave their part out.
type MetricsConfig struct {
	// Known says whether a tool is registered: the names of others are one label,
	// since a model may make up as many as it likes.
	Known func(tool string) bool
	// Breakers are the tools whose circuit is not closed, with its state.
	// It is asked at each scrape, and must answer within a second or so.
	Breakers func() (map[string]string, error)
	// Running says how many turns are in memory, and how many attempts run.
	Running func() (turns, attempts int)
	Sync    string // the durability in force
	Version string
}

// Metrics counts what a node does. It is an observer of package actors, and may
// be used from many goroutines.
type Metrics struct {
	conf     MetricsConfig
	registry *prometheus.Registry
	events   *prometheus.CounterVec
	ended    *prometheus.CounterVec
	stages   *prometheus.HistogramVec
	node     *prometheus.CounterVec
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	streams  prometheus.Gauge
	gaps     prometheus.Counter
}

// NewMetrics makes the counters of one node.
func NewMetrics(c MetricsConfig) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		conf: c, registry: prometheus.NewRegistry(),
		events: vec("sluice_events_total", "Events that this node has appended, by kind.", "kind"),
		ended:  vec("sluice_calls_ended_total", "Calls that have ended on this node, by tool and kind of their terminal.", "tool", "kind"),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_stage_seconds", Help: "How long calls that have ended spent in each stage.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 12),
		}, []string{"stage"}),
		node:     vec("sluice_node_total", "What else this node has counted.", "what"),
		requests: vec("sluice_http_requests_total", "Requests over HTTP, by route and status.", "route", "status"),
		refused:  vec("sluice_http_refused_total", "Requests over HTTP that came no further than the door, by reason.", "why"),
		streams:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_http_event_streams", Help: "Event streams that are open."}),
		gaps:     prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_http_event_gaps_total", Help: "Gaps that were announced to readers who were too slow."}),
	}
	m.registry.MustRegister(m.events, m.ended, m.stages, m.node, m.requests, m.refused, m.streams, m.gaps, breakers{c},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_info", Help: "What this node is."}, []string{"version", "sync"})
	info.WithLabelValues(c.Version, c.Sync).Set(1)
	m.registry.MustRegister(info)
	if c.Running != nil {
		gauge := func(name, help string, of func() int) {
			m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(of()) }))
		}
		gauge("sluice_turns_running", "Turns in memory.", func() int { n, _ := c.Running(); return n })
		gauge("sluice_attempts_running", "Attempts that run.", func() int { _, n := c.Running(); return n })
	}
	return m
}

// Also measures something else, by a collector of its own. The error says that it has a
// metric of a name that is there.
func (m *Metrics) Also(c prometheus.Collector) error { return m.registry.Register(c) }

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Committed counts the events of a commit that this node has appended. tools
// maps an offset to its tool's name.
func (m *Metrics) Committed(s bus.Stored, tools map[int]string) {
	for _, r := range s.Commit.Records {
		kind := r.Event.Kind()
		if _, known := events.KindRow(kind); !known {
			kind = "_foreign"
		}
		m.events.WithLabelValues(string(kind)).Inc()
		if !events.IsTerminal(kind) {
			continue
		}
		m.ended.WithLabelValues(m.label(tools[r.Call]), string(kind)).Inc()
		if o := events.OutcomeOf(r.Event); o != nil {
			m.observe(o.Stages)
		}
	}
}

// label is a tool's name if it is registered.
func (m *Metrics) label(tool string) string {
	if tool == "" || m.conf.Known == nil || !m.conf.Known(tool) {
		return "_unknown"
	}
	return tool
}

func (m *Metrics) observe(s events.Stages) {
	for _, st := range []struct {
		name string
		us   int64
	}{{"queue", s.Queue}, {"gates", s.Gates}, {"approval", s.Approval}, {"wait", s.Wait}, {"run", s.Run}} {
		if st.us > 0 {
			m.stages.WithLabelValues(st.name).Observe((time.Duration(st.us) * time.Microsecond).Seconds())
		}
	}
}

// Count adds to a counter of the node's own.
func (m *Metrics) Count(name string, n int) { m.node.WithLabelValues(name).Add(float64(n)) }

// request counts one request over HTTP.
func (m *Metrics) request(route string, status int) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// breakers tells the state of the circuits at the time of a scrape.
type breakers struct{ conf MetricsConfig }

var breakerDesc = prometheus.NewDesc("sluice_breaker", "Circuits that are not closed: 1 for the state that each is in.", []string{"tool", "state"}, nil)

// Describe is prometheus.Collector's.
func (b breakers) Describe(out chan<- *prometheus.Desc) { out <- breakerDesc }

// Collect is prometheus.Collector's.
func (b breakers) Collect(out chan<- prometheus.Metric) {
	if b.conf.Breakers == nil {
		return
	}
	states, err := b.conf.Breakers()
	if err != nil {
		out <- prometheus.NewInvalidMetric(breakerDesc, err)
		return
	}
	for tool, state := range states {
		out <- prometheus.MustNewConstMetric(breakerDesc, prometheus.GaugeValue, 1, tool, state)
	}
}

// Store measures a read store, too. It is called once; status is asked at each
// scrape, and must answer within a second or so.
func (m *Metrics) Store(status func() (readstore.Status, error)) {
	m.registry.MustRegister(storeMetrics{status})
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

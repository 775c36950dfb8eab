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
	"github.com/sluice-run/sluice/lifecycle"
)

// MetricsConfig says what is measured. Zero fields leave their part out.
type MetricsConfig struct {
	// Known says whether a tool is registered: the names of others are one label,
	// since a model may make up as many as it likes.
	Known func(tool string) bool
	// Breakers are the tools whose own circuit is not closed, with its state.
	// It is asked at each scrape, and must answer within a second or so.
	Breakers func() (map[string]string, error)
	// Endpoints are how many of the endpoints that a tool reaches have an open circuit,
	// by tool: never by endpoint, since a model may name as many as it likes. It must be quick.
	Endpoints func() map[string]int
	// Limits are the limits in force. It must be quick.
	Limits func() lifecycle.Limits
	// Workers are the tools that workers serve, and who serves them. It must be quick.
	Workers func() bus.WorkerTools
	// Running says how many turns are in memory, and how many attempts run.
	Running func() (turns, attempts int)
	// Policy is the version of the policy in force. It must be quick.
	Policy func() string
	// Unlike is for how long the nodes of the log have differed in what they should have
	// alike, by its name; 0 where they do not. It must be quick.
	Unlike func() map[string]time.Duration
	// Unserved is how many turns wait in placements that no node serves. It must be quick.
	Unserved func() int
	// Tier is a registered tool's tier. It must be quick.
	Tier func(tool string) events.Tier
	// Look looks at the cluster at each scrape. It must answer within a second or so.
	Look    func() (Outlook, error)
	Now     func() time.Time // for ages; nil means time.Now
	Sync    string           // the durability in force
	Version string
}

// Metrics counts what a node does. It is an observer of package actors, and may
// be used from many goroutines.
type Metrics struct {
	conf     MetricsConfig
	registry *prometheus.Registry
	events   *prometheus.CounterVec
	ended    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	denied   *prometheus.CounterVec
	claimed  *prometheus.CounterVec
	stages   *prometheus.HistogramVec
	appends  *prometheus.HistogramVec
	barrier  prometheus.Histogram
	took     *prometheus.HistogramVec
	node     *prometheus.CounterVec
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	streams  prometheus.Gauge
	gaps     prometheus.Counter
	limits   limitMetrics
}

// NewMetrics makes the counters of one node.
func NewMetrics(c MetricsConfig) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, from float64, n int, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 4, n)}, labels)
	}
	m := &Metrics{
		conf: c, registry: prometheus.NewRegistry(),
		events:   vec("sluice_events_total", "Events that this node has appended, by kind.", "kind"),
		ended:    vec("sluice_calls_ended_total", "Calls that have ended on this node, by tool and kind of their terminal.", "tool", "kind"),
		attempts: vec("sluice_attempts_ended_total", "Attempts that this node has ended, by tool, tier and how.", "tool", "tier", "outcome"),
		denied:   vec("sluice_calls_denied_total", "Calls that were denied on this node, by gate and code.", "gate", "code"),
		claimed:  vec("sluice_turns_claimed_total", "Turns that this node has claimed, by why.", "why"),
		stages:   seconds("sluice_stage_seconds", "How long calls that have ended spent in each stage.", 0.0001, 12, "stage"),
		appends:  seconds("sluice_append_seconds", "How long appends to the log took, by how they ended.", 0.00005, 10, "outcome"),
		took:     seconds("sluice_http_request_seconds", "How long requests over HTTP took, waits for turns included.", 0.0005, 10, "route"),
		barrier: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_barrier_seconds", Help: "How long was waited for the barrier.", Buckets: prometheus.ExponentialBuckets(0.00005, 4, 10),
		}),
		node:     vec("sluice_node_total", "What else this node has counted.", "what"),
		requests: vec("sluice_http_requests_total", "Requests over HTTP, by route and status.", "route", "status"),
		refused:  vec("sluice_http_refused_total", "Requests over HTTP that came no further than the door, by reason.", "why"),
		streams:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_http_event_streams", Help: "Event streams that are open."}),
		gaps:     prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_http_event_gaps_total", Help: "Gaps that were announced to readers who were too slow."}),
	}
	m.limits = newLimitMetrics(c.Limits)
	m.begin()
	m.registry.MustRegister(m.events, m.ended, m.stages, m.node, m.requests, m.refused, m.streams, m.gaps, breakers{c},
		m.attempts, m.denied, m.claimed, m.appends, m.took, m.barrier, outlooks{c}, fleetMetrics{c}, workerMetrics{c.Workers},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.limits.all()...)
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
		m.passed(r.Event, tools[r.Call])
		m.limits.see(r.Event)
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
func (m *Metrics) request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.took.WithLabelValues(route).Observe(took.Seconds())
}

// breakers tells the state of the circuits at the time of a scrape.
type breakers struct{ conf MetricsConfig }

var breakerDesc = prometheus.NewDesc("sluice_breaker", "Tools whose own circuit is not closed: 1 for the state that each is in.", []string{"tool", "state"}, nil)

var endpointDesc = prometheus.NewDesc("sluice_breaker_endpoints", "Endpoints of a tool whose circuit is open.", []string{"tool"}, nil)

// Describe is prometheus.Collector's.
func (b breakers) Describe(out chan<- *prometheus.Desc) {
	out <- breakerDesc
	out <- endpointDesc
}

// Collect is prometheus.Collector's.
func (b breakers) Collect(out chan<- prometheus.Metric) {
	if b.conf.Endpoints != nil {
		for tool, n := range b.conf.Endpoints() {
			if b.conf.Known == nil || b.conf.Known(tool) {
				out <- prometheus.MustNewConstMetric(endpointDesc, prometheus.GaugeValue, float64(n), tool)
			}
		}
	}
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

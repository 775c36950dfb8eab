package gateway

import "github.com/prometheus/client_golang/prometheus"

var (
	policyInfo  = prometheus.NewDesc("sluice_policy_info", "The policy in force on this node.", []string{"version"}, nil)
	nodesUnlike = prometheus.NewDesc("sluice_nodes_unlike_seconds", "For how long the nodes have differed in what they should have alike, as this node sees it; 0: they are alike.", []string{"what"}, nil)
	unserved    = prometheus.NewDesc("sluice_turns_unserved", "Turns that nobody owns and whose placement no node serves, as the node that sweeps sees it; 0 on the others.", nil, nil)
)

// fleetMetrics tell how this node stands to the other ones.
type fleetMetrics struct{ conf MetricsConfig }

// Describe is prometheus.Collector's.
func (fleetMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- policyInfo
	out <- nodesUnlike
	out <- unserved
}

// Collect is prometheus.Collector's.
func (f fleetMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if f.conf.Policy != nil {
		gauge(policyInfo, 1, f.conf.Policy())
	}
	if f.conf.Unlike != nil {
		for what, span := range f.conf.Unlike() {
			gauge(nodesUnlike, span.Seconds(), what)
		}
	}
	if f.conf.Unserved != nil {
		gauge(unserved, float64(f.conf.Unserved()))
	}
}

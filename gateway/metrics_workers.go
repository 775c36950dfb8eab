package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-run/sluice/bus"
)

// workerMetrics tell at the time of a scrape of the tools that workers serve: those that the
// node knows, which are bounded. A tool that nobody has served for a while is forgotten, and
// begins at 0 when it comes back.
type workerMetrics struct{ of func() bus.WorkerTools }

var (
	workersThere   = prometheus.NewDesc("sluice_workers", "Workers of a tool that are known here, by how they stand.", []string{"tool", "status"}, nil)
	workerOffers   = prometheus.NewDesc("sluice_worker_offers_total", "Offers of attempts to workers, repetitions included.", []string{"tool"}, nil)
	workerTakes    = prometheus.NewDesc("sluice_worker_answers_total", "Answers of workers to offers: accepted, where the worker was told to begin, or refused.", []string{"tool", "answer"}, nil)
	workerLost     = prometheus.NewDesc("sluice_worker_lost_total", "Attempts whose worker missed its signs of life, and was given up.", []string{"tool"}, nil)
	workerAttempts = prometheus.NewDesc("sluice_worker_attempts", "Attempts that are offered, or that a worker has in hand.", []string{"tool"}, nil)
)

// Describe is prometheus.Collector's.
func (workerMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{workersThere, workerOffers, workerTakes, workerLost, workerAttempts} {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (w workerMetrics) Collect(out chan<- prometheus.Metric) {
	if w.of == nil {
		return
	}
	for _, t := range w.of().Tools {
		there := map[string]int{"serving": 0, "silent": 0, "refused": 0}
		for _, s := range t.Workers {
			there[s.Status]++
		}
		for status, n := range there {
			out <- prometheus.MustNewConstMetric(workersThere, prometheus.GaugeValue, float64(n), t.Tool, status)
		}
		total := func(d *prometheus.Desc, n int64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{t.Tool}, labels...)...)
		}
		total(workerOffers, t.Counts.Offers)
		total(workerTakes, t.Counts.Accepted, "accepted")
		total(workerTakes, t.Counts.Refused, "refused")
		total(workerLost, t.Counts.Lost)
		out <- prometheus.MustNewConstMetric(workerAttempts, prometheus.GaugeValue, float64(t.Counts.Running), t.Tool)
	}
}

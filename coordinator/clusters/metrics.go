package clusters

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Metrics are the metrics of reading external clusters. Each has one series per cluster that this
// coordinator reads.
type Metrics struct {
	seconds  *prometheus.HistogramVec
	failures *prometheus.CounterVec
	interval *prometheus.GaugeVec
	requests *prometheus.CounterVec
	heldBack *prometheus.GaugeVec
}

// NewMetrics returns the metrics, registered in r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bursar_cluster_read_seconds", Buckets: prometheus.ExponentialBucketsRange(1e-3, 60, 12), Help: "Time that reading an external cluster took, its queues and our applications.",
		}, []string{"cluster"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_cluster_read_failures_total", Help: "Failed attempts to read an external cluster.",
		}, []string{"cluster"}),
		interval: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bursar_cluster_read_interval_seconds", Help: "Time between two readings of an external cluster, which grows while these are slow.",
		}, []string{"cluster"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_cluster_requests_total", Help: "Requests to the servers of an external cluster, whatever came of them.",
		}, []string{"cluster"}),
	}
	m.heldBack = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "bursar_cluster_held_back_applications", Help: "Applications that an external cluster does not start although their queues have room for them, by its last reading.",
	}, []string{"cluster"})
	r.MustRegister(m.seconds, m.failures, m.interval, m.requests, m.heldBack)
	return m
}

func (m *Metrics) observe(name ledger.ClusterName, d time.Duration) {
	m.seconds.WithLabelValues(name.String()).Observe(d.Seconds())
}

func (m *Metrics) countFailure(name ledger.ClusterName) {
	m.failures.WithLabelValues(name.String()).Inc()
}

func (m *Metrics) setInterval(name ledger.ClusterName, interval time.Duration) {
	m.failures.WithLabelValues(name.String()) // 0 is worth showing
	m.interval.WithLabelValues(name.String()).Set(interval.Seconds())
}

func (m *Metrics) countRequests(name ledger.ClusterName, more int64) {
	m.requests.WithLabelValues(name.String()).Add(float64(more))
}

func (m *Metrics) setHeldBack(name ledger.ClusterName, queues []ledger.QueueReport) {
	n := 0
	for i := range queues {
		if d := queues[i].Details; d != nil {
			n += int(d.HeldBack.Applications)
		}
	}
	m.heldBack.WithLabelValues(name.String()).Set(float64(n))
}

// forget removes the series of a cluster that is no longer read.
func (m *Metrics) forget(name ledger.ClusterName) {
	m.seconds.DeleteLabelValues(name.String())
	m.failures.DeleteLabelValues(name.String())
	m.interval.DeleteLabelValues(name.String())
	m.requests.DeleteLabelValues(name.String())
	m.heldBack.DeleteLabelValues(name.String())
}

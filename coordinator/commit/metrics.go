package commit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/core"
)

// Metrics are the metrics of the write path. The current state of the ledger is read at each
// scrape, see ledgerCollector.
type Metrics struct {
	decisions   *prometheus.HistogramVec
	commits     prometheus.Histogram
	batchCalls  prometheus.Histogram
	batchRows   prometheus.Histogram
	refused     prometheus.Counter
	epoch       prometheus.Gauge
	leading     prometheus.Gauge
	copied      prometheus.Gauge
	abandoned   prometheus.Counter
	cutOff      prometheus.Counter
	watchers    prometheus.Gauge
	violations  prometheus.Gauge
	audits      prometheus.Counter
	auditStep   prometheus.Gauge
	faults      prometheus.Counter
	hiddenRules prometheus.Gauge
	WrongFiles  *prometheus.GaugeVec
	pruned      prometheus.Counter
	pruneFailed prometheus.Counter
	outOfMemory prometheus.Counter
	notTaken    prometheus.Counter

	// The histograms of each outcome, looked up once.
	granted, waited, short, other prometheus.Observer
}

// latencyBuckets go from 100 µs, less than any commit takes, to 10 s in steps of about 2.2.
var latencyBuckets = prometheus.ExponentialBucketsRange(100e-6, 10, 16) //nolint:gochecknoglobals // never changed

// NewMetrics returns the metrics of the write path, in a registry.
func NewMetrics(r prometheus.Registerer) *Metrics {
	sizes := prometheus.ExponentialBuckets(1, 2, 12)
	m := &Metrics{
		decisions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bursar_decision_seconds", Buckets: latencyBuckets,
			Help: "From the queue to the durable answer of an Allocate, by what it was: granted, waited (granted or given up after a wait), insufficient, or other.",
		}, []string{"outcome"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "bursar_commit_seconds", Buckets: latencyBuckets, Help: "Time that the store took to make a batch durable.",
		}),
		batchCalls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "bursar_commit_calls", Buckets: sizes, Help: "Calls that one commit answered.",
		}),
		batchRows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "bursar_commit_transitions", Buckets: sizes, Help: "Transitions of allocations in one commit that changed rows.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_queue_full_total", Help: "Calls refused because too many were waiting for the loop.",
		}),
		epoch: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_epoch", Help: "Number of this coordinator's latest leadership.",
		}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_leading", Help: "1 while this coordinator leads.",
		}),
		copied: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_standby_copy", Help: "1 while this coordinator stands by with a copy of the ledger that is up to date, so that it need not read everything before it leads.",
		}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_leaderships_abandoned_total", Help: "Leaderships that ended because a commit failed or its outcome was unknown.",
		}),
		cutOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_watch_cut_off_total", Help: "Watches that were ended because they fell too far behind.",
		}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_watches", Help: "Watches that are open.",
		}),
		violations: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_audit_violations", Help: "What the latest audit found wrong in the ledger. Anything but 0 is a defect.",
		}),
		audits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_audits_total", Help: "Audits of the ledger.",
		}),
		auditStep: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_audit_longest_step_seconds", Help: "The longest step of the latest audit: so long nobody else was served.",
		}),
		WrongFiles: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bursar_quota_file_wrong", Help: "1 while a quota file cannot be used and the rules it had before stay in force.",
		}, []string{"file"}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_ledger_panics_total", Help: "Panics of the ledger, each of which ended a leadership. Any is a defect.",
		}),
		hiddenRules: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bursar_quota_rules_hidden", Help: "Stored rules that are not in force, because of a rule of a file, or of another stored one.",
		}),
		pruned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_history_pruned_total", Help: "Ended allocations deleted from the history because of their age, or of their caller's bound.",
		}),
		pruneFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_history_prune_failures_total", Help: "Failed attempts to delete from the history.",
		}),
		notTaken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_engines_elsewhere_total", Help: "Engines that a host reported and that were not taken in, because the ledger has their allocations elsewhere. The log names the hosts.",
		}),
		outOfMemory: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_engines_out_of_memory_total", Help: "Engines that the kernel ended because memory had run out, their own or the machine's.",
		}),
	}
	r.MustRegister(m.decisions, m.commits, m.batchCalls, m.batchRows, m.refused, m.epoch, m.leading, m.copied, m.abandoned, m.cutOff,
		m.watchers, m.violations, m.audits, m.auditStep, m.WrongFiles, m.faults, m.hiddenRules, m.pruned, m.pruneFailed, m.outOfMemory, m.notTaken)
	m.granted, m.waited = m.decisions.WithLabelValues("granted"), m.decisions.WithLabelValues("waited")
	m.short, m.other = m.decisions.WithLabelValues("insufficient"), m.decisions.WithLabelValues("other")
	return m
}

func (m *Metrics) leads(epoch uint64) {
	m.epoch.Set(float64(epoch))
	m.leading.Set(1)
}

func (m *Metrics) committed(b *core.Batch, took time.Duration) {
	m.commits.Observe(took.Seconds())
	m.batchCalls.Observe(float64(b.Size()))
	if !b.Empty() {
		m.batchRows.Observe(float64(len(b.Transitions)))
	}
	for i := range b.Transitions {
		if t := &b.Transitions[i]; t.Exit != nil && t.Exit.OutOfMemory && !t.State.Live() {
			m.outOfMemory.Inc()
		}
	}
}

package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// metrics are the agent's own. Those of the host and its allocations are read when metrics are
// gathered.
type metrics struct {
	agent *Agent

	calls      *prometheus.HistogramVec // by procedure and code
	syncs      *prometheus.HistogramVec // by outcome
	saves      *prometheus.HistogramVec // by outcome
	measures   prometheus.Histogram
	vetoed     prometheus.Counter
	ended      prometheus.Counter
	stopsAsked *prometheus.CounterVec // by outcome
	reads      *prometheus.CounterVec // by code
	degraded   *prometheus.GaugeVec   // by source
	degradedMu sync.Mutex
}

func newMetrics(a *Agent, registry *prometheus.Registry) (*metrics, error) {
	seconds := []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	histogram := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "bursar", Subsystem: "agent", Name: name, Help: help, Buckets: seconds}
	}
	m := &metrics{
		agent:    a,
		calls:    prometheus.NewHistogramVec(histogram("call_seconds", "Calls on the local API, with the time that a request waited."), []string{"procedure", "code"}),
		syncs:    prometheus.NewHistogramVec(histogram("sync_seconds", "Heartbeats to the coordinator."), []string{"outcome"}),
		saves:    prometheus.NewHistogramVec(histogram("state_write_seconds", "Writes of the state file."), []string{"outcome"}),
		measures: prometheus.NewHistogram(histogram("measure_seconds", "One look at the machine and all engines.")),
		vetoed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "vetoes_total", Help: "Grants refused because the memory was not there.",
		}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "engines_ended_total", Help: "Engines that were found to have ended.",
		}),
		stopsAsked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "over_use_stops_total", Help: "Stops that a coordinator was asked for because of over-use.",
		}, []string{"outcome"}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "output_readers_total", Help: "Readers of engines' output on the agent's own sockets, by how they ended.",
		}, []string{"code"}),
		degraded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "degraded", Help: "1 for each source of measurement that could not be read.",
		}, []string{"source"}),
	}
	for _, collector := range []prometheus.Collector{m.calls, m.syncs, m.saves, m.measures, m.vetoed, m.ended, m.stopsAsked, m.reads, m.degraded, (*gauges)(a)} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

func newRefused() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "bursar", Subsystem: "agent", Name: "refused_callers_total",
		Help: "Requests and connections refused because one user, or all together, had too many.",
	}, []string{"reason"})
}

func outcomeOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (m *metrics) saved(took time.Duration, err error) {
	m.saves.WithLabelValues(outcomeOf(err)).Observe(took.Seconds())
}

func (m *metrics) synced(took time.Duration, err error) {
	m.syncs.WithLabelValues(outcomeOf(err)).Observe(took.Seconds())
}

func (m *metrics) stopAsked(err error) { m.stopsAsked.WithLabelValues(outcomeOf(err)).Inc() }

// outputRead counts a reader of an engine's output.
func (m *metrics) outputRead(err error) { m.reads.WithLabelValues(codeOf(err)).Inc() }

// codeOf is the code of an answer.
func codeOf(err error) string {
	if err != nil {
		return connect.CodeOf(err).String()
	}
	return "ok"
}

func (m *metrics) measured(took time.Duration, degraded map[string]string, ended int) {
	m.measures.Observe(took.Seconds())
	m.ended.Add(float64(ended))
	m.degradedMu.Lock()
	defer m.degradedMu.Unlock()
	m.degraded.Reset()
	for source := range degraded {
		m.degraded.WithLabelValues(source).Set(1)
	}
}

// countVeto counts and logs a grant that was refused.
func (a *Agent) countVeto(grant *bursarv1.Allocation, refused tracker.Refusal) {
	a.metrics.vetoed.Inc()
	reason := refused.Reason
	if reason == "" {
		reason = "the memory is not there"
	}
	a.log.Warn("a grant was refused", "allocation_id", grant.GetId(), "reason", reason,
		"memory_bytes", grant.GetEntitled().GetMemoryBytes(), "headroom_bytes", refused.Headroom)
}

// interceptor measures the calls of the local API.
func (m *metrics) interceptor() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			began := time.Now()
			response, err := next(ctx, request)
			_, procedure, _ := strings.Cut(strings.TrimPrefix(request.Spec().Procedure, "/"), "/")
			m.calls.WithLabelValues(procedure, codeOf(err)).Observe(time.Since(began).Seconds())
			return response, err
		}
	}
}

// gauges reads the state of the host and its allocations when metrics are gathered. It describes
// nothing beforehand, because figures that could not be measured are left out.
type gauges Agent

// Describe sends nothing.
func (g *gauges) Describe(chan<- *prometheus.Desc) {}

// Collect sends the figures of this moment.
func (g *gauges) Collect(metrics chan<- prometheus.Metric) {
	a := (*Agent)(g)
	put := func(name, help string, value float64) {
		desc := prometheus.NewDesc(prometheus.BuildFQName("bursar", "agent", name), help, nil, nil)
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	a.state.Locked(func(t *tracker.Tracker) {
		if t == nil {
			return // it does not run yet
		}
		putTracker(put, t)
		putOverUse(metrics, t)
		putSample(put, t.Sample())
		putDisks(metrics, t.Sample().GetDisks())
		put("epoch", "The highest epoch seen.", float64(t.Epoch()))
		synced := 0.0
		if at := a.reports.SyncedAt(); !at.IsZero() {
			synced = float64(at.UnixNano()) / 1e9
		}
		put("sync_timestamp_seconds", "When a coordinator last answered a heartbeat; 0: not yet.", synced)
	})
}

type putFunc func(name, help string, value float64)

func putTracker(put putFunc, t *tracker.Tracker) {
	stats, host := t.Stats(), t.Host()
	put("engines", "Engines with a process here.", float64(stats.Engines))
	put("engines_orphaned", "Engines whose process has ended and left others behind.", float64(stats.Orphaned))
	put("leases", "Active allocations without a process here.", float64(stats.Leases))
	put("reservations", "Reservations.", float64(stats.Reserved))
	put("tombstones", "Ended engines that the coordinator has not acknowledged.", float64(stats.Tombstones))
	put("vetoes", "Refused grants that the coordinator has not heard of.", float64(stats.Vetoes))
	put("booked_memory_bytes", "Memory that reserved and active allocations are entitled to.", float64(stats.EntitledMemory))
	put("booked_cpu_millis", "CPU that reserved and active allocations are entitled to.", float64(stats.EntitledCPU))
	put("engines_memory_bytes", "Memory that the engines were measured to hold.", float64(stats.UsedMemory))
	put("engines_unreclaimable_bytes", "Memory of the engines that the kernel cannot take back.", float64(stats.UnreclaimableMemory))
	put("engines_cpu_millis", "CPU that the engines were measured to use.", float64(stats.UsedCPU))
	put("capacity_memory_bytes", "Memory that may be given away at most.", float64(host.Capacity.GetMemoryBytes()))
	put("capacity_cpu_millis", "CPU that may be given away at most.", float64(host.Capacity.GetCpuMillis()))
	draining := 0.0
	if t.Draining() {
		draining = 1
	}
	put("draining", "1 while the coordinator wants no new engines here.", draining)
	if headroom, known := t.Headroom(); known {
		put("headroom_bytes", "Measured memory that is left for new grants.", float64(headroom))
	}
}

// putOverUse counts engines in over-use, also if there are none.
func putOverUse(metrics chan<- prometheus.Metric, t *tracker.Tracker) {
	desc := prometheus.NewDesc(prometheus.BuildFQName("bursar", "agent", "engines_over_use"),
		"Engines that use more than they are entitled to, by what, and by what their policy does about it.", []string{"dimension", "policy"}, nil)
	counts := t.OverUses()
	for _, dimension := range []string{resource.Memory, resource.CPU} {
		for _, action := range policy.Actions() {
			count := float64(counts[tracker.OverUseKind{Dimension: dimension, Action: action}])
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, count, dimension, action.String())
		}
	}
}

func putSample(put putFunc, sample *bursarv1.HostSample) {
	if sample == nil {
		return
	}
	putKnown(put, "host_memory_bytes", "Memory of the machine, within its limits.", sample.MemoryTotalBytes)
	putKnown(put, "host_memory_available_bytes", "Memory that could be used without swapping.", sample.MemoryAvailableBytes)
	putKnown(put, "host_cpu_millis", "CPU of the machine, within its limits.", sample.CpuTotalMillis)
	putKnown(put, "host_cpu_used_millis", "CPU that is used.", sample.CpuUsedMillis)
	putKnown(put, "host_load1_millis", "Load average over one minute.", sample.Load1Millis)
	putKnown(put, "host_swap_bytes", "Swap there is.", sample.SwapTotalBytes)
	putKnown(put, "host_swap_used_bytes", "Swap that is used.", sample.SwapUsedBytes)
	putKnown(put, "host_huge_pages_bytes", "Memory set aside for huge pages.", sample.HugePagesTotalBytes)
	putKnown(put, "host_huge_pages_free_bytes", "Memory set aside for huge pages that nobody uses or was promised.", sample.HugePagesFreeBytes)
	putKnown(put, "host_out_of_memory_kills", "Processes that the kernel has ended since the boot because memory had run out.", sample.OutOfMemoryKills)
	putKnown(put, "host_memory_some_avg10", "Share of time that some tasks stalled for memory, in hundredths of a percent.", sample.MemorySomeAvg10)
	pressure := 0.0
	if sample.GetPressure() {
		pressure = 1
	}
	put("host_pressure", "1 while the machine is under memory pressure and gets no new grants.", pressure)
	refusal := 0.0
	if sample.GetRefusal() != "" {
		refusal = 1
	}
	put("host_refuses", "1 while the agent wants no new engines for another reason, such as a work directory without space.", refusal)
}

func putKnown[T int32 | int64](put putFunc, name, help string, value *T) {
	if value != nil {
		put(name, help, float64(*value))
	}
}

// putDisks sends the figures of the work directories, of which there are at most maxWorkDirs.
func putDisks(metrics chan<- prometheus.Metric, disks []*bursarv1.DiskSample) {
	for _, disk := range disks {
		isShort := 0.0
		if disk.GetShort() {
			isShort = 1
		}
		for _, gauge := range []struct {
			name, help string
			known      bool
			value      float64
		}{
			{"free_bytes", "Space of a work directory that ordinary users can still write.", disk.GetTotalBytes() > 0, float64(disk.GetFreeBytes())},
			{"free_inodes", "Inodes of a work directory that are free.", disk.GetTotalInodes() > 0, float64(disk.GetFreeInodes())},
			{"short", "1 while a work directory has less than is wanted, or does not answer.", true, isShort},
		} {
			if !gauge.known {
				continue // not counted, or not known
			}
			desc := prometheus.NewDesc(prometheus.BuildFQName("bursar", "agent_work_dir", gauge.name), gauge.help, []string{"path"}, nil)
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, gauge.value, disk.GetPath())
		}
	}
}

package coordinator

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// ledgerCollector reads the metrics of the ledger at each scrape. It leaves out accounts and hosts
// beyond a number, so that a wildcard rule floods neither the scrape nor its reader. Get and List
// return all of them.
type ledgerCollector struct {
	loop *commit.Loop
	most int

	allocations, hosts, revision, queued, remembered            *prometheus.Desc
	watchEvents, watchBytes, skew                               *prometheus.Desc
	historyRows, historyBytes                                   *prometheus.Desc
	account, accountWaiting                                     *prometheus.Desc
	accountExternal, accountExternalWaiting                     *prometheus.Desc
	host, hostEngines                                           *prometheus.Desc
	queue, queueApplications, queueWaiting                      *prometheus.Desc
	clusterKnown, clusterAge                                    *prometheus.Desc
	overUse                                                     *prometheus.Desc
	hostRefuses, callersFull, unaccepted, hostsCut, hostsClosed *prometheus.Desc
	heldAccounts, heldIdle                                      *prometheus.Desc
	revisionsLost, setbackHosts, setbackEngines                 *prometheus.Desc
}

func newLedgerCollector(loop *commit.Loop, most int) *ledgerCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("bursar_"+name, help, labels, nil)
	}
	return &ledgerCollector{
		loop: loop, most: most,
		allocations:  describe("allocations", "Live allocations.", "state"),
		hosts:        describe("hosts", "Hosts.", "state"),
		revision:     describe("revision", "The ledger's revision."),
		queued:       describe("queue_length", "Calls that wait for the loop."),
		historyRows:  describe("history_allocations", "Ended allocations in the history, once they are counted."),
		historyBytes: describe("history_bytes", "What they take in the store, about, in bytes."),
		watchEvents:  describe("watch_events", "Changes that are held for watchers to resume from."),
		watchBytes:   describe("watch_bytes", "Memory of these changes, in bytes."),
		skew:         describe("clock_skew_seconds", "How far the ledger's time is ahead of the clock of this coordinator, which leads; it is worked off at a tenth of real time."),
		remembered:   describe("remembered_requests", "Request ids of ended allocations that are remembered."),
		account: describe("account", "Quota accounts, the first by name: what each limits, has reserved, used and available, by dimension.",
			"account", "dimension", "kind"),
		accountWaiting: describe("account_waiting", "Requests that wait behind a quota account.", "account"),
		accountExternal: describe("account_external", "Quota accounts for external parts, among the first by name: what each limits, has reserved, used and available in queues of external clusters, by dimension.",
			"account", "external", "dimension", "kind"),
		accountExternalWaiting: describe("account_external_waiting", "Requests that wait behind a quota account for external parts.", "account", "external"),
		host: describe("host", "Hosts, the first by id: limit, reserved and used as in the ledger, available, and measured, by dimension.",
			"host", "dimension", "kind"),
		hostEngines: describe("host_engines", "Allocations that hold something on a host.", "host"),
		queue: describe("queue", "Queues of external clusters, the first by address: limit, use as the cluster says, what we have reserved and used, what others use, and available there and in all queues above while it grants anything, by dimension.",
			"cluster", "queue", "partition", "dimension", "kind"),
		queueApplications: describe("queue_applications", "Applications in a queue of an external cluster, as that says.", "cluster", "queue", "partition", "state"),
		queueWaiting:      describe("queue_waiting", "Requests that wait behind a queue of an external cluster.", "cluster", "queue", "partition"),
		clusterKnown:      describe("cluster_known", "1 while the last reading of an external cluster is used.", "cluster"),
		clusterAge:        describe("cluster_age_seconds", "Time since the last reading of an external cluster.", "cluster"),
		overUse: describe("engines_over_use", "Engines that use more of a dimension than they are entitled to, by what their hosts do about it.",
			"dimension", "policy"),
		heldAccounts:   describe("held_accounts", "Accounts that are held for requests which have waited too long, by their kind.", "kind"),
		heldIdle:       describe("held_idle", "What is free on hosts and kept for requests which have waited too long, by dimension.", "dimension"),
		callersFull:    describe("callers_full", "Callers whose live allocations take nearly as much memory as they may (limits.callerLiveBytes)."),
		revisionsLost:  describe("store_revisions_lost", "Revisions that hosts or clients know and the store had lost when this leadership began: the database went back in time."),
		setbackHosts:   describe("store_setback_hosts", "Hosts that know such a revision."),
		setbackEngines: describe("store_setback_engines", "Engines adopted from these hosts since."),
		hostRefuses:    describe("hosts_refusing", "Hosts that report in time and whose agents want no new grants for another reason than memory pressure, such as a lack of disk space, or cannot be sent more allocations."),
		hostsClosed:    describe("hosts_closed", "Hosts that take no new engines, by why: cordoned or draining by an operator's word, or ended: the agent has ended in order.", "why"),
		hostsCut:       describe("hosts_cut", "Hosts that announce more capacity, or other labels, than the identities of their agents allow, and that were cut to these."),
		unaccepted:     describe("engines_unaccepted", "Engines on the word of their host's agent alone, until an operator accepts them."),
	}
}

// Describe implements prometheus.Collector.
func (c *ledgerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.allocations, c.hosts, c.revision, c.queued, c.skew, c.remembered,
		c.watchEvents, c.watchBytes, c.historyRows, c.historyBytes, c.account, c.accountWaiting, c.accountExternal, c.accountExternalWaiting, c.host, c.hostEngines,
		c.queue, c.queueApplications, c.queueWaiting, c.clusterKnown, c.clusterAge, c.overUse, c.hostRefuses, c.callersFull, c.unaccepted, c.hostsCut, c.hostsClosed,
		c.heldAccounts, c.heldIdle, c.revisionsLost, c.setbackHosts, c.setbackEngines,
	} {
		out <- d
	}
}

// collectCounts sends the counts that the ledger maintains.
func (c *ledgerCollector) collectCounts(out chan<- prometheus.Metric, counts ledger.Counts) {
	gauge := gauges(out)
	gauge(c.remembered, float64(counts.Remembered))
	for state, n := range map[ledger.State]int{ledger.Waiting: counts.Waiting, ledger.Reserved: counts.Reserved, ledger.Active: counts.Active} {
		gauge(c.allocations, float64(n), state.String())
	}
	for state, n := range map[ledger.HostState]int{
		ledger.Healthy: counts.HostsHealthy, ledger.Suspect: counts.HostsSuspect,
		ledger.LostHost: counts.HostsLost, ledger.Returning: counts.HostsReturning, ledger.ExpectedHost: counts.HostsExpected,
	} {
		gauge(c.hosts, float64(n), state.String())
	}
	for _, dimension := range []string{resource.Memory, resource.CPU} {
		for policy := ledger.PolicyObserve; policy <= ledger.PolicyKill; policy++ {
			gauge(c.overUse, float64(counts.OverUse[ledger.OverUseKind{Dimension: dimension, Policy: policy}]), dimension, policy.String())
		}
	}
	gauge(c.hostRefuses, float64(counts.HostsRefusing))
	gauge(c.callersFull, float64(counts.CallersFull))
	gauge(c.unaccepted, float64(counts.Unaccepted))
	gauge(c.hostsCut, float64(counts.HostsCut))
	for why, n := range map[string]int{"cordoned": counts.HostsCordoned, "draining": counts.HostsDraining, "ended": counts.HostsEnded} {
		gauge(c.hostsClosed, float64(n), why)
	}
	for _, kind := range []ledger.Kind{ledger.HostAccount, ledger.QuotaAccount, ledger.QueueAccount} {
		gauge(c.heldAccounts, float64(counts.Held[kind]), kind.String())
	}
	gauge(c.heldIdle, float64(counts.HeldIdle.Memory()), resource.Memory)
	gauge(c.heldIdle, float64(counts.HeldIdle.CPU()), resource.CPU)
}

// gauges returns a function that sends one gauge.
func gauges(out chan<- prometheus.Metric) func(d *prometheus.Desc, value float64, labels ...string) {
	return func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
}

// scrapeTime is how long a scrape waits for the loop.
const scrapeTime = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *ledgerCollector) Collect(out chan<- prometheus.Metric) {
	gauge := gauges(out)
	gauge(c.queued, float64(c.loop.Queued()))
	events, bytes := c.loop.Feed.Held()
	gauge(c.watchEvents, float64(events))
	if size := c.loop.HistorySize(); size != nil {
		gauge(c.historyRows, float64(size.Rows))
		gauge(c.historyBytes, float64(size.Bytes))
	}
	gauge(c.watchBytes, float64(bytes))
	gauge(c.skew, c.loop.Behind().Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	var counts ledger.Counts
	var revision uint64
	var accounts []ledger.AccountInfo
	var hosts []ledger.HostInfo
	var queues []ledger.QueueInfo
	var clusters []ledger.ClusterInfo
	var now ledger.Instant
	var setback core.Setback
	if err := c.loop.DoWithSetback(ctx, func(l *ledger.Ledger, at ledger.Instant, found core.Setback) {
		now, setback = at, found
		counts, revision = l.Counts(), l.Revision()
		l.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
			accounts = append(accounts, a)
			return len(accounts) < c.most
		})
		l.Hosts("", func(h ledger.HostInfo) bool {
			if h.State != ledger.ExpectedHost {
				hosts = append(hosts, h)
			}
			return len(hosts) < c.most
		})
		l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
			queues = append(queues, q)
			return len(queues) < c.most
		})
		clusters = l.Clusters()
	}); err != nil {
		return // not leading: there is no ledger
	}
	gauge(c.revision, float64(revision))
	gauge(c.revisionsLost, float64(max(setback.Seen, setback.Revision)-setback.Revision))
	gauge(c.setbackHosts, float64(setback.Hosts))
	gauge(c.setbackEngines, float64(setback.Adopted))
	c.collectCounts(out, counts)
	for _, q := range counts.HeldIdle.Custom() {
		gauge(c.heldIdle, float64(q.Value), q.Name)
	}
	for i := range accounts {
		a := &accounts[i]
		name := a.Name.Labels.String()
		if a.Name.External != nil {
			place := a.Name.External.String()
			c.numbers(out, c.accountExternal, a, name, place)
			gauge(c.accountExternalWaiting, float64(a.Waiting), name, place)
			continue
		}
		c.numbers(out, c.account, a, name)
		gauge(c.accountWaiting, float64(a.Waiting), name)
	}
	for i := range hosts {
		h := &hosts[i]
		c.numbers(out, c.host, &h.Account, h.ID)
		c.vector(out, c.host, "measured", h.Engines, h.ID)
		gauge(c.hostEngines, float64(h.Account.Allocations), h.ID)
		if h.Sample != nil && h.Sample.MemoryAvailable != nil {
			gauge(c.host, float64(*h.Sample.MemoryAvailable), h.ID, resource.Memory, "measured_available")
		}
		if h.Headroom != nil {
			gauge(c.host, float64(*h.Headroom), h.ID, resource.Memory, "headroom")
		}
	}
	c.external(gauge, now, clusters, queues)
}

// external sends the metrics of external clusters and their queues.
func (c *ledgerCollector) external(gauge func(*prometheus.Desc, float64, ...string), now ledger.Instant, clusters []ledger.ClusterInfo, queues []ledger.QueueInfo) {
	for i := range clusters {
		cluster := &clusters[i]
		if !cluster.Configured {
			continue
		}
		known := 0.0
		if cluster.Known {
			known = 1
		}
		gauge(c.clusterKnown, known, cluster.String())
		if cluster.Asked != 0 {
			gauge(c.clusterAge, now.Sub(cluster.Asked).Seconds(), cluster.String())
		}
	}
	for i := range queues {
		q := &queues[i]
		place := []string{ledger.ClusterName{Kind: q.Address.Kind, Cluster: q.Address.Cluster}.String(), labelValue(q.Address.Path), labelValue(q.Address.Partition)}
		figures := map[string]resource.Vector{
			"limit": q.Report.Limit, "cluster_used": q.Report.Used, "reserved": q.Account.Reserved, "used": q.Account.Used, "others": q.Account.Others,
		}
		if q.Unavailable == "" {
			figures["available"] = q.Available
		}
		for kind, v := range figures {
			for dimension, quantity := range v.All() {
				gauge(c.queue, float64(quantity), append(slices.Clone(place), dimension, kind)...)
			}
		}
		for state, n := range map[string]*int32{"active": q.Report.Active, "pending": q.Report.Pending, "all": q.Report.Applications, "max": q.Report.MaxApplications} {
			if n != nil {
				gauge(c.queueApplications, float64(*n), append(slices.Clone(place), state)...)
			}
		}
		gauge(c.queueWaiting, float64(q.Account.Waiting), place...)
	}
}

// labelValue makes a metric label of a name, which a request may have invented. A printable name
// stays as it is; another name is quoted. Requests to earlier versions may have stored any name. No
// two names have the same label value.
func labelValue(name string) string {
	if !strings.HasPrefix(name, `"`) && !strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}

func (c *ledgerCollector) numbers(out chan<- prometheus.Metric, d *prometheus.Desc, a *ledger.AccountInfo, name ...string) {
	c.vector(out, d, "limit", a.Limit, name...)
	c.vector(out, d, "reserved", a.Reserved, name...)
	c.vector(out, d, "used", a.Used, name...)
	c.vector(out, d, "available", a.Available, name...)
}

func (c *ledgerCollector) vector(out chan<- prometheus.Metric, d *prometheus.Desc, kind string, v resource.Vector, name ...string) {
	for dimension, quantity := range v.All() {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(quantity), append(slices.Clone(name), dimension, kind)...)
	}
}

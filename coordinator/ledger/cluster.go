package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/tidwall/btree"
)

// cluster is an external system that grants resources: one that a provider is configured for, or
// in which a live allocation has a part.
type cluster struct {
	ClusterName
	configured bool
	fullPaths  bool  // queues are named by their full paths alone
	terms      Terms // of its settings
	// since is when it got its settings, or when the ledger was loaded: an answer to an earlier
	// question may be about another cluster.
	since    Instant
	attached int      // live allocations, and requests that are being decided, with a part there
	members  []*entry // the live allocations that hold something there

	// Of the last report:
	reported       bool // there was one, since the load and with these settings
	known          bool // what it said is still valid
	asked          Instant
	taken          Instant // when it was handed in: all its answers are older
	incarnation    string
	untrusted      string
	silence        string // why the cluster could not be read after it
	answers        map[string]*ApplicationReport
	reports        int32               // how many there were
	reportedQueues int                 // in the last report, counted once for each partition
	capacity       fleet               // by the last report that could be relied on, see shareabroad.go
	leaves         map[string][]string // full paths by their last element, sorted; nil if fullPaths
	standard       map[string]string   // default partitions by path, of all paths
	unaddressable  *UnaddressableQueues

	reading *reading // a report that is being taken in; nil: none

	division division // of what the cluster has among the active queues
	queues   map[queueKey]*clusterQueue
	order    *btree.BTreeG[*clusterQueue] // the cluster queues by address

	timer timer
}

// queueKey is the key of a queue in a cluster, in one partition.
type queueKey struct{ path, partition string }

// cluster finds or makes the cluster of this name.
func (l *Ledger) cluster(name ClusterName) *cluster {
	c := l.clusters[name]
	if c == nil {
		c = &cluster{
			ClusterName: name, fullPaths: slices.Contains(l.cfg.FullPaths, name.Kind),
			queues: make(map[queueKey]*clusterQueue), order: newOrder(),
		}
		c.timer.owner = c
		l.clusters[name] = c
	}
	return c
}

// newOrder is for queues of one cluster. There are no locks: a ledger has one user at a time.
func newOrder() *btree.BTreeG[*clusterQueue] {
	before := func(a, b *clusterQueue) bool { return a.address.Compare(b.address) < 0 }
	return btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
}

// dropCluster forgets a cluster that has no provider and no allocation any more.
func (l *Ledger) dropCluster(c *cluster) {
	if !c.configured && c.attached == 0 {
		delete(l.clusters, c.ClusterName)
	}
}

// configure applies a provider that is new or has other settings.
func (l *Ledger) configure(p ProviderRecord) {
	c := l.cluster(p.ClusterName)
	c.configured, c.since = true, l.now
	l.forgetCluster(c)
	l.setTerms(c, l.termsOf(p))
}

// termsOf returns a provider's settings for requests.
func (l *Ledger) termsOf(p ProviderRecord) Terms {
	if l.cfg.Terms == nil {
		return Terms{}
	}
	return l.cfg.Terms(p)
}

// unconfigure applies that a provider was removed.
func (l *Ledger) unconfigure(name ClusterName) {
	c := l.cluster(name)
	c.configured = false
	l.forgetCluster(c)
	l.setTerms(c, Terms{})
	l.dropCluster(c)
}

// forgetCluster drops all that was read of a cluster.
func (l *Ledger) forgetCluster(c *cluster) {
	if c.reading != nil {
		c.reading.endsNone = true
		l.finishReading(c)
	}
	c.reported, c.known, c.asked, c.taken = false, false, 0, 0
	c.incarnation, c.untrusted, c.silence, c.answers = "", "", "", nil
	c.unaddressable = nil
	c.reportedQueues, c.leaves, c.standard, c.capacity = 0, nil, nil, fleet{}
	l.dimensionsGeneration++
	l.timers.set(&c.timer, 0)
	l.valuations++
	for _, e := range c.members {
		e.external.membership(c).ended = false
		l.revalueOnce(e.share, l.valuations)
	}
	// a copy: cluster queues that no allocation charges are removed meanwhile
	for _, q := range c.order.Items() {
		q.forgetReport()
	}
}

// ClusterSilent says that a cluster could not be read, and why. The last report stays valid until
// it is too old. With forget it is forgotten at once: the cluster has no leader at the moment, and
// the next one may report something else.
func (l *Ledger) ClusterSilent(now Instant, name ClusterName, reason string, forget bool) {
	l.begin(now)
	c := l.clusters[name]
	if c == nil {
		return
	}
	l.finishReading(c)
	c.silence = reason
	if forget {
		c.known, c.answers = false, nil
		l.timers.set(&c.timer, 0)
	}
}

// clusterDue handles the cluster's timer: its last report is too old.
func (l *Ledger) clusterDue(c *cluster) {
	c.known = false
	l.timers.set(&c.timer, 0)
}

// unknown says why nothing is known of the cluster at the moment; empty if something is.
func (c *cluster) unknown(now Instant) string {
	switch {
	case c.known:
		return ""
	case !c.configured:
		return "no provider is configured for it"
	case !c.reported:
		return withReason("not read yet", c.silence)
	case c.untrusted != "" && c.silence == "":
		return c.untrusted
	default:
		return withReason("last read "+now.Sub(c.asked).Truncate(time.Second).String()+" ago", c.silence)
	}
}

// awaited says that it is too early to refuse a request because the cluster is unknown: the ledger
// was loaded a short time ago, and the cluster has not been read since.
func (c *cluster) awaited(l *Ledger) bool {
	return c.configured && !c.reported && l.now < l.clustersRead
}

// queue finds or makes a queue, with those above it. New queues count on the host whose
// agent's report creates them; nil: another caller creates them.
func (c *cluster) queue(at queueKey, creator *host) *clusterQueue {
	if q := c.queues[at]; q != nil {
		return q
	}
	q := newClusterQueue(c, at)
	if path, below := parentPath(at.path); below {
		q.parent = c.queue(queueKey{path, at.partition}, creator)
		q.parent.below++
	}
	q.setCreator(creator)
	c.queues[at] = q
	c.order.Set(q)
	return q
}

// prune drops a cluster queue that the cluster did not report and that no allocation charges, and
// then the cluster queues above it that were there for it alone.
func (c *cluster) prune(q *clusterQueue) {
	for q != nil && !q.known && q.attached == 0 && q.below == 0 && !q.dropped {
		q.dropped = true
		q.clearCreator()
		c.order.Delete(q)
		delete(c.queues, queueKey{q.address.Path, q.address.Partition})
		if q = q.parent; q != nil {
			q.below--
		}
	}
}

// clusterNames are the names of all clusters, in order.
func (l *Ledger) clusterNames() []ClusterName {
	return slices.SortedFunc(maps.Keys(l.clusters), ClusterName.Compare)
}

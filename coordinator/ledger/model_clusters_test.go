package ledger_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// modelCluster is an external cluster by what was read of it.
type modelCluster struct {
	name       ledger.ClusterName
	configured bool
	standard   bool // the default of its kind
	settings   string
	since      ledger.Instant // of these settings

	asked, until ledger.Instant
	taken        ledger.Instant // when the last report was handed in
	good         bool           // there is a report, that can be trusted and was not forgotten
	incarnation  string
	queues       map[resource.Address]ledger.QueueReport
	answers      map[string]ledger.ApplicationReport
	capacity     map[string]int64 // of all top queues, by the last report that could be relied on
}

// elsewhere is what the model knows of a row's parts.
type elsewhere struct {
	// what its applications surely hold there, by the last report
	granted map[resource.Address]resource.Vector
	over    map[ledger.ClusterName]bool // all its applications are
	changed ledger.Instant
	seen    map[string]bool // the applications that a cluster has known
}

// modelQueue is one queue of a cluster.
type modelQueue struct {
	cluster *modelCluster
	at      resource.Address
	user    string              // what this user has of it; empty: all
	report  *ledger.QueueReport // nil: the last report does not have it
	own     bool                // a part that is asked for is in this very queue
}

func (c *modelCluster) forget() {
	c.asked, c.until, c.taken, c.good, c.incarnation, c.queues, c.answers, c.capacity = 0, 0, 0, false, "", nil, nil, nil
}

func (m *model) cluster(name ledger.ClusterName) *modelCluster {
	if m.clusters[name] == nil {
		m.clusters[name] = &modelCluster{name: name}
	}
	return m.clusters[name]
}

func clusterOf(at resource.Address) ledger.ClusterName {
	return ledger.ClusterName{Kind: at.Kind, Cluster: at.Cluster}
}

// knows reports whether what was read of a cluster holds.
func (m *model) knows(c *modelCluster) bool { return c.configured && c.good && m.now < c.until }

// upwards are an address and those above it.
func upwards(at resource.Address) []resource.Address {
	list := []resource.Address{at}
	for i := len(at.Path) - 1; i >= 0; i-- {
		if at.Path[i] == '.' {
			above := at
			above.Path = at.Path[:i]
			list = append(list, above)
		}
	}
	return list
}

func (m *model) queueAccount(at resource.Address) modelAccount {
	q := &modelQueue{cluster: m.cluster(clusterOf(at)), at: at}
	a := modelAccount{name: "queue " + at.String(), queue: q, most: make(map[string]int64)}
	if r, there := q.cluster.queues[at]; there {
		q.report = &r
		a.most = mostOf(r.Limit, resource.Vector{})
	}
	return a
}

// chains are the accounts of all queues that an allocation asks for something, and of its user
// there.
func (m *model) chains(a *ledger.Allocation) []modelAccount {
	return m.chainsOf(a.Labels, a.Entitled)
}

func (m *model) chainsOf(labels label.Set, r resource.Resource) []modelAccount {
	seen := make(map[resource.Address]bool)
	var list []modelAccount
	for _, part := range r.External {
		if user := m.cluster(clusterOf(part.Address)).userIn(labels); user != "" {
			if a := m.userAccount(part.Address, user); !a.asked(r).IsZero() {
				list = append(list, a)
			}
		}
		for _, at := range upwards(part.Address) {
			if a := m.queueAccount(at); !seen[at] && !a.asked(r).IsZero() {
				seen[at] = true
				_, a.queue.own = r.Part(at)
				list = append(list, a)
			}
		}
	}
	return list
}

// sum is what some parts have in the queue and below.
func (q *modelQueue) sum(parts []resource.External) resource.Vector {
	total := resource.Vector{}
	for _, part := range parts {
		if q.user == "" && slices.Contains(upwards(part.Address), q.at) || part.Address == q.at {
			total, _ = total.Add(part.Vector)
		}
	}
	return total
}

// more is what a queue would have less if an allocation were entitled to something else. What
// others use there meanwhile does not fall.
func (m *model) more(a modelAccount, r *modelRow, next resource.Resource) resource.Vector {
	taken := func() map[string]int64 {
		used, reserved, _ := m.sums(a)
		for dimension, quantity := range reserved {
			used[dimension] += quantity
		}
		return used
	}
	before, others := taken(), m.others(a)
	had := r.Entitled
	r.Entitled = next
	after, othersAfter := taken(), m.others(a)
	r.Entitled = had
	more := resource.Vector{}
	for dimension := range a.asked(next).All() {
		if n := after[dimension] - before[dimension] + max(0, othersAfter[dimension]-others[dimension]); n > 0 {
			more = more.With(dimension, n)
		}
	}
	return more
}

// lacks reports whether the account does not have so much left.
func (m *model) lacks(a modelAccount, more resource.Vector) bool {
	used, reserved, _ := m.sums(a)
	others := m.others(a)
	free := m.firstIsFree(a)
	if a.queue.tooLargeFor(more) {
		return true
	}
	for dimension, n := range more.All() {
		if free && resource.OfMasters(dimension) {
			continue
		}
		if most, limited := a.limits(dimension); limited && used[dimension]+reserved[dimension]+others[dimension]+n > most {
			return true
		}
	}
	return false
}

// queues are those that exist: those that were read, those of live allocations, and what is above
// either.
func (m *model) queues() map[resource.Address]bool {
	all := make(map[resource.Address]bool)
	add := func(at resource.Address) {
		for _, above := range upwards(at) {
			all[above] = true
		}
	}
	for _, c := range m.clusters {
		for at := range c.queues {
			add(at)
		}
	}
	for _, r := range m.rows {
		for _, part := range r.Entitled.External {
			add(part.Address)
		}
	}
	return all
}

// shut reports whether nothing new may go to a queue.
func (m *model) shut(q *modelQueue) bool {
	switch {
	case q.user != "": // its queue says it
		return false
	case !m.knows(q.cluster):
		return true
	case q.report == nil:
		return !q.cluster.makes(q.at)
	default:
		return q.report.Closed || q.own && (q.report.LeavesOnly || q.holdsBack())
	}
}

// makes reports whether the cluster creates a queue when it is used.
func (c *modelCluster) makes(at resource.Address) bool {
	for other := range c.queues {
		if other.Path == at.Path {
			return false
		}
	}
	for _, above := range upwards(at)[1:] {
		if r, there := c.queues[above]; there {
			return r.CreatesChildren
		}
	}
	return false
}

// others is what others use in a queue: what was read, less what is surely ours.
func (m *model) others(a modelAccount) map[string]int64 {
	others := make(map[string]int64)
	if a.queue == nil || a.queue.report == nil {
		return others
	}
	for dimension, used := range a.queue.report.Used.All() {
		for _, r := range m.rows {
			for _, part := range r.Entitled.External {
				if r.State == ledger.Active && m.in(r, a) && slices.Contains(upwards(part.Address), a.queue.at) {
					entitled, _ := part.Get(dimension)
					granted, _ := r.granted[part.Address].Get(dimension)
					used -= min(entitled, granted)
				}
			}
		}
		if used > 0 {
			others[dimension] = used
		}
	}
	return others
}

// resolve finds which queues a request means; a kind of error if it cannot.
func (m *model) resolve(asked []resource.External, labels label.Set) ([]resource.External, string) {
	var resolved []resource.External
	seen := make(map[resource.Address]bool)
	for _, part := range asked {
		at, wrong := m.address(part.Address, labels)
		if wrong != "" {
			return nil, wrong
		}
		if seen[at] {
			return nil, "field"
		}
		seen[at] = true
		resolved = append(resolved, resource.External{Address: at, Vector: m.cluster(clusterOf(at)).counted(part.Vector)})
	}
	return resource.NewResource(resource.Vector{}, resolved...).External, ""
}

func (m *model) address(at resource.Address, labels label.Set) (resource.Address, string) {
	var candidates []*modelCluster
	for _, c := range m.clusters {
		if c.configured && c.name.Kind == at.Kind {
			candidates = append(candidates, c)
		}
	}
	if at.Cluster == "" {
		at.Cluster = labels.Value("cluster")
	}
	if at.Cluster == "" {
		for _, c := range candidates {
			if c.standard || len(candidates) == 1 {
				at.Cluster = c.name.Cluster
			}
		}
	}
	i := slices.IndexFunc(candidates, func(c *modelCluster) bool { return c.name.Cluster == at.Cluster })
	if i < 0 {
		return at, "field"
	}
	c := candidates[i]
	full := at.Path == "root" || strings.HasPrefix(at.Path, "root.")
	if !m.knows(c) {
		if full && at.Partition == "" {
			at.Partition = c.defaultPartition(at)
		}
		if full {
			return at, ""
		}
		return at, "insufficient"
	}
	if !full {
		paths := make(map[string]bool)
		for queue := range c.queues {
			if strings.HasSuffix(queue.Path, "."+at.Path) {
				paths[queue.Path] = true
			}
		}
		switch len(paths) {
		case 0:
			return at, "not found"
		case 1:
			at.Path = slices.Collect(maps.Keys(paths))[0]
		default:
			return at, "field"
		}
	}
	if at.Partition == "" {
		at.Partition = c.defaultPartition(at)
	}
	if _, there := c.queues[at]; !there && !c.makes(at) {
		return at, "not found"
	}
	if c.queues[at].LeavesOnly {
		return at, "field"
	}
	return at, ""
}

func (c *modelCluster) defaultPartition(at resource.Address) string {
	for _, above := range upwards(at) {
		for queue, r := range c.queues {
			if queue.Path == above.Path {
				return r.DefaultPartition
			}
		}
	}
	return ""
}

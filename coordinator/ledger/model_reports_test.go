package ledger_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

func (m *machine) putProvider(t *rapid.T) {
	p := ledger.ProviderRecord{
		ClusterName: rapid.SampledFrom(clusterNames).Draw(t, "cluster"), Default: rapid.IntRange(0, 3).Draw(t, "default") == 0,
		Settings: map[string]string{"addresses": rapid.SampledFrom([]string{"1", "1", "1", "2", "3"}).Draw(t, "addresses")},
	}
	m.changeProvider(t, p)
}

func (m *machine) changeProvider(t *rapid.T, p ledger.ProviderRecord) {
	wantError := ""
	c := m.model.cluster(p.ClusterName)
	for _, other := range m.model.clusters {
		if other != c && other.configured && other.standard && p.Default {
			wantError = "field"
		}
	}
	if wantError == "" {
		if !c.configured || c.settings != p.Settings["addresses"] {
			m.renewed(c)
			c.since = m.model.now
		}
		c.configured, c.standard, c.settings = true, p.Default, p.Settings["addresses"]
	}
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) { err = l.PutProvider(m.model.now, p) })
	wantKind(t, wantError, err)
}

// renewed: what was known of a cluster is not known any more.
func (m *machine) renewed(c *modelCluster) {
	c.forget()
	for _, r := range m.model.rows {
		delete(r.over, c.name)
	}
}

func (m *machine) deleteProvider(t *rapid.T) {
	name := rapid.SampledFrom(clusterNames).Draw(t, "cluster")
	c := m.model.cluster(name)
	wantError := "not found"
	if c.configured {
		wantError = ""
		c.configured = false
		m.renewed(c)
	}
	var err error
	unseen := m.model.unseen()
	m.do(t, func() expected { return unseen }, func(l *ledger.Ledger) { err = l.DeleteProvider(m.model.now, name) })
	wantKind(t, wantError, err)
}

// unseen are the engines on lost hosts that become lost, because nobody says any more when they
// have ended.
func (m *model) unseen() expected {
	want := make(expected)
	for id, r := range m.rows {
		if h := m.hosts[r.HostID]; r.State == ledger.Active && h.lost && r.Expires == 0 && !m.livesElsewhere(r) {
			want[id] = []ledger.State{ledger.Lost}
		}
	}
	return want
}

func (m *machine) clusterSilent(t *rapid.T) {
	name := rapid.SampledFrom(clusterNames).Draw(t, "cluster")
	forget := rapid.Bool().Draw(t, "forget")
	if c := m.model.cluster(name); forget {
		c.good, c.answers = false, nil
	}
	m.do(t, nothing, func(l *ledger.Ledger) { l.ClusterSilent(m.model.now, name, "away", forget) })
}

// readClusters is a regular reading of all clusters, of plain queues.
func (m *machine) readClusters(t *rapid.T) {
	for _, name := range clusterNames {
		r := ledger.ClusterReport{ClusterName: name, Asked: m.model.now, GoodFor: 30 * time.Second, Incarnation: m.model.cluster(name).incarnation}
		for _, path := range queuePaths {
			q := ledger.QueueReport{Path: path, Limit: limit(t)}
			if m.abroad {
				q.Limit = resource.Vector{}.WithMemory(rapid.Int64Range(6, 12).Draw(t, "limit"))
			}
			q.Used = quantity(t, q.Used, resource.Memory, 8, 3)
			limitApplications(t, &q)
			limitMasters(t, &q)
			r.Queues = append(r.Queues, q)
		}
		for _, id := range applicationIDs {
			v := resource.Vector{}.WithMemory(rapid.Int64Range(0, 4).Draw(t, id))
			r.Applications = append(r.Applications, ledger.ApplicationReport{
				ID: id, Known: true, Queue: rapid.SampledFrom([]string{"root.a.x", "x", "y", "a", "root.b"}).Draw(t, id+" in"), Allocated: map[string]resource.Vector{ledger.AnyPartition: v},
				User: rapid.SampledFrom([]string{"a", "a", "a", "b", "x", ""}).Draw(t, id+" of"),
			})
		}
		m.deliver(t, r)
	}
}

// reportCluster is a reading of anything.
func (m *machine) reportCluster(t *rapid.T) {
	r := ledger.ClusterReport{
		ClusterName: rapid.SampledFrom(clusterNames).Draw(t, "cluster"), GoodFor: 30 * time.Second,
		Asked:       m.model.now.Add(-rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 6 * time.Second, 40 * time.Second}).Draw(t, "ago")),
		Settle:      rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(t, "settle"),
		Incarnation: rapid.SampledFrom([]string{"", "", "", "1"}).Draw(t, "incarnation"),
		Untrusted:   rapid.SampledFrom([]string{"", "", "", "", "", "failed over"}).Draw(t, "untrusted"),
	}
	standard := map[string]string{"root.b": rapid.SampledFrom([]string{"", "g"}).Draw(t, "default partition")}
	add := func(path, partition string) {
		if rapid.IntRange(0, 9).Draw(t, path+"@"+partition+" is missing") == 0 {
			return
		}
		q := ledger.QueueReport{Path: path, Partition: partition, DefaultPartition: standard[path], Limit: limit(t), State: "RUNNING"}
		q.Used = quantity(t, quantity(t, q.Used, resource.Memory, 8, 3), "gpu", 2, 8)
		q.Closed = rapid.IntRange(0, 15).Draw(t, "closed") == 0
		limitApplications(t, &q)
		clusterMoves(t, &q)
		q.LeavesOnly = strings.Count(path, ".") < 2 && rapid.IntRange(0, 5).Draw(t, "leaves only") == 0
		limitMasters(t, &q)
		q.CreatesChildren = rapid.IntRange(0, 3).Draw(t, "creates") == 0
		r.Queues = append(r.Queues, q)
	}
	for _, path := range queuePaths {
		add(path, "")
	}
	for _, path := range partitionPaths {
		add(path, "g")
	}
	for _, id := range applicationIDs {
		a := ledger.ApplicationReport{ID: id, Known: true, Queue: rapid.SampledFrom(append([]string{"x", "a"}, queuePaths...)).Draw(t, id+" in")}
		a.User = rapid.SampledFrom([]string{"a", "a", "a", "b", "x", ""}).Draw(t, id+" of")
		switch rapid.IntRange(0, 9).Draw(t, id) {
		case 0:
			continue
		case 1:
			a.Known = false
		case 2:
			a.Ended = true
			a.Failure = rapid.SampledFrom([]string{"", "FAILED"}).Draw(t, id+" failure")
		default:
			partition := rapid.SampledFrom([]string{"", "g", ledger.AnyPartition, ledger.AnyPartition}).Draw(t, id+" in partition")
			a.Allocated = map[string]resource.Vector{partition: request(t)}
		}
		r.Applications = append(r.Applications, a)
	}
	m.deliver(t, r)
}

// deliver hands over a reading, and compares what comes of it.
func (m *machine) deliver(t *rapid.T, r ledger.ClusterReport) {
	t.Helper()
	want, wantError := make(expected), ""
	c := m.model.cluster(r.ClusterName)
	switch {
	case !c.configured:
		wantError = "not found"
	case r.Asked >= c.asked && r.Asked >= c.since:
		m.read(c, &r, want)
	}
	var err error
	m.do(t, func() expected { return want }, func(l *ledger.Ledger) { err = l.ReportCluster(m.model.now, r) })
	wantKind(t, wantError, err)
}

// read applies a report, and says which allocations end with their applications.
func (m *machine) read(c *modelCluster, r *ledger.ClusterReport, want expected) {
	if r.Incarnation != c.incarnation || r.Untrusted != "" || !m.model.knows(c) || r.Asked < c.taken {
		c.answers = nil
	}
	c.taken = m.model.now
	c.asked, c.until, c.good, c.incarnation = r.Asked, r.Asked.Add(r.GoodFor), r.Untrusted == "", r.Incarnation
	c.queues = make(map[resource.Address]ledger.QueueReport)
	for _, q := range r.Queues {
		c.queues[resource.Address{Kind: c.name.Kind, Cluster: c.name.Cluster, Path: q.Path, Partition: q.Partition}] = q
	}
	if m.model.knows(c) {
		c.capacity = c.topLimits()
	}
	answers := make(map[string]ledger.ApplicationReport)
	for _, a := range r.Applications {
		if r.Untrusted == "" {
			answers[a.ID] = a
		}
	}
	owners := m.model.owners(c, answers)
	for _, row := range m.model.rows {
		if m.follows(c, r, row, owners, answers) {
			want[row.ID] = []ledger.State{ledger.Active}
		}
	}
	for _, row := range m.model.rows {
		here := func(x resource.External) bool { return clusterOf(x.Address) == c.name }
		if row.State != ledger.Active || !slices.ContainsFunc(row.Entitled.External, here) {
			continue
		}
		settled := c.good && r.Asked >= max(row.Confirmed, row.changed).Add(r.Settle)
		granted := maps.Clone(row.granted)
		if granted == nil {
			granted = make(map[resource.Address]resource.Vector)
		}
		for _, part := range row.Entitled.External {
			if !here(part) {
				continue
			}
			switch {
			case len(row.ApplicationIDs) == 0 && settled:
				granted[part.Address] = part.Vector
			case len(row.ApplicationIDs) > 0 || !c.good:
				granted[part.Address] = resource.Vector{}
			}
			for _, id := range row.ApplicationIDs {
				if owners[id] == row.ID {
					granted[part.Address], _ = granted[part.Address].Add(smaller(row.held(part.Address, c.answers[id]), row.held(part.Address, answers[id])))
				}
			}
		}
		row.granted = granted
		row.over = maps.Clone(row.over)
		if row.over == nil {
			row.over = make(map[ledger.ClusterName]bool)
		}
		row.over[c.name] = row.finished(answers, settled && r.Asked >= c.since.Add(r.Settle))
		if row.over[c.name] && !slices.ContainsFunc(row.Entitled.External, func(x resource.External) bool { return !row.over[clusterOf(x.Address)] }) {
			want[row.ID] = append(want[row.ID], ledger.Released)
		}
	}
	c.answers = answers
}

// finished reports whether a row lives as long as its applications, and those are over.
func (r *modelRow) finished(answers map[string]ledger.ApplicationReport, settled bool) bool {
	for _, id := range r.ApplicationIDs {
		a, answered := answers[id]
		if !answered || a.Known && !a.Ended || !a.Known && !settled {
			return false
		}
	}
	return len(r.ApplicationIDs) > 0 && r.Process.PID == 0 && r.Lease == 0
}

// held is what an application holds of a row's part: in that queue and partition, if it can be
// distinguished from the row's other parts.
func (r *modelRow) held(at resource.Address, a ledger.ApplicationReport) resource.Vector {
	if !a.Known || a.Ended {
		return resource.Vector{}
	}
	v, exact := a.Allocated[at.Partition]
	if !exact {
		v = a.Allocated[ledger.AnyPartition]
	}
	candidates := 0
	for _, part := range r.Entitled.External {
		inQueue := part.Path == a.Queue || strings.HasSuffix("."+part.Path, "."+a.Queue) && !strings.Contains(a.Queue, ".")
		if inQueue && clusterOf(part.Address) == clusterOf(at) && (!exact || part.Partition == at.Partition) {
			candidates++
			if part.Address != at {
				candidates += 2
			}
		}
	}
	if candidates != 1 {
		return resource.Vector{}
	}
	whole, _ := r.Entitled.Part(at)
	running := !v.IsZero()
	if n, counts := whole.Get(resource.AMMemory); counts && running {
		v = v.With(resource.AMMemory, n)
	}
	if whole.Has(resource.Applications) {
		v = v.With(resource.Applications, 1)
	}
	return v
}

// smaller is the smaller quantity of both in each dimension.
func smaller(v, w resource.Vector) resource.Vector {
	least := resource.Vector{}
	for dimension, quantity := range v.All() {
		other, _ := w.Get(dimension)
		least = least.With(dimension, min(quantity, other))
	}
	return least
}

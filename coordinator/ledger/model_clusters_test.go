package ledger_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

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
	good         bool // there is a report, that can be trusted and was not forgotten
	incarnation  string
	queues       map[resource.Address]ledger.QueueReport
	answers      map[string]ledger.ApplicationReport
}

// elsewhere is what the model knows of a row's parts.
type elsewhere struct {
	granted map[resource.Address]resource.Vector // what its applications surely hold there, by the last report
	over    map[ledger.ClusterName]bool          // all its applications are
	changed ledger.Instant
}

// modelQueue is one queue of a cluster.
type modelQueue struct {
	cluster *modelCluster
	at      resource.Address
	report  *ledger.QueueReport // nil: the last report does not have it
}

func (c *modelCluster) forget() {
	c.asked, c.until, c.good, c.incarnation, c.queues, c.answers = 0, 0, false, "", nil, nil
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

// chains are the accounts of all queues that a resource asks for something.
func (m *model) chains(r resource.Resource) []modelAccount {
	seen := make(map[resource.Address]bool)
	var list []modelAccount
	for _, part := range r.External {
		for _, at := range upwards(part.Address) {
			if a := m.queueAccount(at); !seen[at] && !a.asked(r).IsZero() {
				seen[at] = true
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
		if slices.Contains(upwards(part.Address), q.at) {
			total, _ = total.Add(part.Vector)
		}
	}
	return total
}

// queues are those that exist: those that were read, those of live allocations, and what is above either.
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
	case !m.knows(q.cluster):
		return true
	case q.report == nil:
		return !q.cluster.makes(q.at)
	default:
		return q.report.Closed
	}
}

// makes reports whether using a queue that is not there makes it.
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
				if r.State == ledger.Active && slices.Contains(upwards(part.Address), a.queue.at) {
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

// resolve finds which queues a request means; a kind of error where it cannot.
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
		resolved = append(resolved, resource.External{Address: at, Vector: part.Vector})
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

// What requests and reports are made of.
var (
	clusterNames   = []ledger.ClusterName{{Kind: "yarn", Cluster: "p"}, {Kind: "yarn", Cluster: "q"}}
	queuePaths     = []string{"root", "root.a", "root.a.x", "root.a.y", "root.b", "root.b.x"}
	partitionPaths = []string{"root", "root.b"} // that have the partition "g" too
	applicationIDs = []string{"app1", "app2", "app3", "app4", "app5"}
)

// parts draws what a request asks for elsewhere: mostly nothing.
func parts(t *rapid.T) []resource.External {
	var list []resource.External
	for range max(0, rapid.IntRange(-3, 2).Draw(t, "parts")) {
		at := resource.Address{
			Kind:    "yarn",
			Cluster: rapid.SampledFrom([]string{"", "p", "p", "p", "q"}).Draw(t, "cluster"),
			Path:    rapid.SampledFrom(append([]string{"x", "y", "a", "root.a.new", "nowhere"}, queuePaths...)).Draw(t, "path"),
		}
		if rapid.IntRange(0, 5).Draw(t, "partition") == 0 {
			at.Partition = "g"
		}
		if !slices.ContainsFunc(list, func(x resource.External) bool { return x.Address == at }) {
			list = append(list, resource.External{Address: at, Vector: request(t)})
		}
	}
	return list
}

// partsAbroad draws what a request of a run that is about clusters asks for: little, in few queues.
func partsAbroad(t *rapid.T) []resource.External {
	var list []resource.External
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"root.a.x", "root.a.x", "root.a.y", "root.b", "root.a"}), 1, 2, rapid.ID[string]).Draw(t, "queues") {
		v := resource.Vector{}.WithMemory(rapid.Int64Range(0, 4).Draw(t, path))
		list = append(list, resource.External{Address: resource.Address{Kind: "yarn", Cluster: "p", Path: path}, Vector: v})
	}
	return list
}

func (m *machine) applications(t *rapid.T) []string {
	least := 0
	if m.abroad {
		least = 1
	}
	return rapid.SliceOfN(rapid.SampledFrom(applicationIDs), least, 2).Draw(t, "applications")
}

// together is two lists of applications in one, each once.
func together(ids, more []string) []string {
	for _, id := range more {
		if !slices.Contains(ids, id) {
			ids = append(slices.Clip(ids), id)
		}
	}
	return ids
}

// someParts draws another entitlement of parts that an allocation has, or seems to have.
func (m *machine) someParts(t *rapid.T, r *modelRow) []resource.External {
	var list []resource.External
	if r != nil {
		for _, part := range r.Entitled.External {
			if rapid.Bool().Draw(t, "part") {
				list = append(list, resource.External{Address: part.Address, Vector: request(t)})
			}
		}
	}
	if rapid.IntRange(0, 30).Draw(t, "a part that it does not have") == 0 {
		list = append(list, resource.External{Address: resource.Address{Kind: "yarn", Path: "nowhere"}})
	}
	return resource.NewResource(resource.Vector{}, list...).External
}

// overlaid replaces what is set, and reports whether every part is one that is there.
func overlaid(base, over resource.Resource) (next resource.Resource, named bool) {
	next, named = base, true
	for dimension, quantity := range over.All() {
		next.Vector = next.With(dimension, quantity)
	}
	for _, part := range over.External {
		v, there := next.Part(part.Address)
		if !there {
			named = false
			continue
		}
		for dimension, quantity := range part.All() {
			v = v.With(dimension, quantity)
		}
		next = next.WithPart(part.Address, v)
	}
	return next, named
}

// grown is what one resource has more than another with the same parts.
func grown(before, next resource.Resource) resource.Resource {
	more := func(before, next resource.Vector) resource.Vector {
		v := resource.Vector{}
		for dimension, quantity := range next.All() {
			if had, _ := before.Get(dimension); quantity > had {
				v = v.With(dimension, quantity-had)
			}
		}
		return v
	}
	growth := resource.NewResource(more(before.Vector, next.Vector))
	for _, part := range next.External {
		had, _ := before.Part(part.Address)
		if v := more(had, part.Vector); !v.IsUnset() {
			growth = growth.WithPart(part.Address, v)
		}
	}
	return growth
}

// checkQueues compares what readers are told.
func (m *machine) checkQueues(t *rapid.T) {
	t.Helper()
	last := resource.Address{}
	m.ledger.Queues(last, func(q ledger.QueueInfo) bool {
		if q.Address.Compare(last) <= 0 {
			t.Fatalf("queue %s comes after %s", q.Address, last)
		}
		last = q.Address
		open := true
		for _, at := range upwards(q.Address) {
			open = open && !m.model.shut(m.model.queueAccount(at).queue)
		}
		if (q.Unavailable == "") != open {
			t.Fatalf("queue %s is closed because of %q; want it open: %t", q.Address, q.Unavailable, open)
		}
		if others := m.model.others(m.model.queueAccount(q.Address)); !maps.Equal(others, amounts(q.Account.Others)) {
			t.Fatalf("others use %s in %s; want %v", q.Account.Others, q.Address, others)
		}
		for dimension, available := range q.Available.All() {
			if least, limited := m.model.least(q.Address, dimension); !limited || available != least {
				t.Fatalf("in %s is available %s; want %d of %s", q.Address, q.Available, least, dimension)
			}
		}
		return true
	})
	for _, name := range clusterNames {
		if got, want := m.ledger.Applications(name), slices.Sorted(maps.Keys(m.model.owners(name))); !slices.Equal(got, want) {
			t.Fatalf("ask %s for %v; want %v", name, got, want)
		}
	}
}

// least is what a queue and those above it have left of a dimension.
func (m *model) least(at resource.Address, dimension string) (least int64, limited bool) {
	for _, above := range upwards(at) {
		a := m.queueAccount(above)
		most, here := a.limits(dimension)
		if !here {
			continue
		}
		used, reserved, _ := m.sums(a)
		if left := max(0, most-used[dimension]-reserved[dimension]-m.others(a)[dimension]); !limited || left < least {
			least, limited = left, true
		}
	}
	return least, limited
}

// owners says which allocation each application counts in.
func (m *model) owners(name ledger.ClusterName) map[string]ledger.ID {
	owners := make(map[string]ledger.ID)
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(m.rows))) {
		r := m.rows[id]
		if r.State == ledger.Active && slices.ContainsFunc(r.Entitled.External, func(x resource.External) bool { return clusterOf(x.Address) == name }) {
			for _, application := range r.ApplicationIDs {
				owners[application] = id
			}
		}
	}
	return owners
}

func (m *machine) putProvider(t *rapid.T) {
	p := ledger.ProviderRecord{
		ClusterName: rapid.SampledFrom(clusterNames).Draw(t, "cluster"), Default: rapid.IntRange(0, 3).Draw(t, "default") == 0,
		Settings: map[string]string{"addresses": rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(t, "addresses")},
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
	m.do(t, nothing, func(l *ledger.Ledger) { err = l.DeleteProvider(m.model.now, name) })
	wantKind(t, wantError, err)
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
			r.Queues = append(r.Queues, q)
		}
		for _, id := range applicationIDs {
			v := resource.Vector{}.WithMemory(rapid.Int64Range(0, 4).Draw(t, id))
			r.Applications = append(r.Applications, ledger.ApplicationReport{
				ID: id, Known: true, Queue: rapid.SampledFrom([]string{"root.a.x", "x", "y", "a", "root.b"}).Draw(t, id+" in"), Allocated: map[string]resource.Vector{ledger.AnyPartition: v},
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
		switch rapid.IntRange(0, 9).Draw(t, id) {
		case 0:
			continue
		case 1:
			a.Known = false
		case 2:
			a.Ended = true
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

// read takes over a report, and says which allocations are over with their applications.
func (m *machine) read(c *modelCluster, r *ledger.ClusterReport, want expected) {
	if r.Incarnation != c.incarnation || r.Untrusted != "" {
		c.answers = nil
	}
	c.asked, c.until, c.good, c.incarnation = r.Asked, r.Asked.Add(r.GoodFor), r.Untrusted == "", r.Incarnation
	c.queues = make(map[resource.Address]ledger.QueueReport)
	for _, q := range r.Queues {
		c.queues[resource.Address{Kind: c.name.Kind, Cluster: c.name.Cluster, Path: q.Path, Partition: q.Partition}] = q
	}
	answers := make(map[string]ledger.ApplicationReport)
	for _, a := range r.Applications {
		if r.Untrusted == "" {
			answers[a.ID] = a
		}
	}
	owners := m.model.owners(c.name)
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
			granted[part.Address] = resource.Vector{}
			if len(row.ApplicationIDs) == 0 && settled {
				granted[part.Address] = part.Vector
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
		row.over[c.name] = row.finished(answers, settled)
		if row.over[c.name] && !slices.ContainsFunc(row.Entitled.External, func(x resource.External) bool { return !row.over[clusterOf(x.Address)] }) {
			want[row.ID] = []ledger.State{ledger.Released}
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

// held is what an application holds of a row's part: in that queue and partition, where it can be told from the row's other parts.
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

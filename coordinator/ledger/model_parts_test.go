package ledger_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// What requests and reports are made of.
var (
	clusterNames   = []ledger.ClusterName{{Kind: "yarn", Cluster: "p"}, {Kind: "yarn", Cluster: "q"}}
	queuePaths     = []string{"root", "root.a", "root.a.x", "root.a.y", "root.b", "root.b.x"}
	partitionPaths = []string{"root", "root.b"} // that have the partition "g" too
	applicationIDs = []string{"app1", "app2", "app3", "app4", "app5"}
)

// parts draws the external parts of a request: mostly none.
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
			list = append(list, resource.External{Address: at, Vector: quantity(t, quantity(t, request(t), resource.AMMemory, 3, 8), resource.AMCPU, 3, 8)})
		}
	}
	return list
}

// partsAbroad draws what a request of a run that is about clusters asks for: little, in few queues.
func partsAbroad(t *rapid.T) []resource.External {
	var list []resource.External
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"root.a.x", "root.a.x", "root.a.y", "root.b", "root.a"}), 1, 2, rapid.ID[string]).Draw(t, "queues") {
		v := resource.Vector{}.WithMemory(rapid.Int64Range(0, 4).Draw(t, path))
		v = quantity(t, v, resource.AMMemory, 3, 8)
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

// overlaid replaces what is set, and reports whether every part is one that is there. A part that
// changes is no smaller than its master.
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
		for master, whole := range map[string]string{resource.AMMemory: resource.Memory, resource.AMCPU: resource.CPU} {
			n, _ := v.Get(master)
			if all, _ := v.Get(whole); n > all {
				v = v.With(whole, n)
			}
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
		own := m.model.queueAccount(q.Address).queue
		open = open && !own.holdsBack()
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
		if got, want := m.ledger.Applications(name), m.model.named(name); !slices.Equal(got, want) {
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

// runsIn reports whether a row is active with a part in a cluster.
func (r *modelRow) runsIn(name ledger.ClusterName) bool {
	return r.State == ledger.Active && slices.ContainsFunc(r.Entitled.External, func(x resource.External) bool { return clusterOf(x.Address) == name })
}

// named are the applications of rows in a cluster, sorted.
func (m *model) named(name ledger.ClusterName) []string {
	all := make(map[string]bool)
	for _, r := range m.rows {
		for _, application := range r.ApplicationIDs {
			if r.runsIn(name) {
				all[application] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// owners says which allocation each application counts in, by the answers of a report: the oldest
// one of its user, else the oldest that names it, if nobody can tell whose it is.
func (m *model) owners(c *modelCluster, answers map[string]ledger.ApplicationReport) map[string]ledger.ID {
	owners := make(map[string]ledger.ID)
	for _, whose := range []string{"its own", "untold"} {
		for _, id := range slices.Sorted(maps.Keys(m.rows)) {
			r := m.rows[id]
			for _, application := range r.ApplicationIDs {
				if r.runsIn(c.name) && c.whose(r, answers[application]) == whose && owners[application] == 0 {
					owners[application] = id
				}
			}
		}
	}
	return owners
}

// whose says of an application whether it is a row's own or a foreign one, or that it is untold.
func (c *modelCluster) whose(r *modelRow, a ledger.ApplicationReport) string {
	switch {
	case a.User == "" || !c.configured:
		return "untold"
	case a.User == c.userIn(r.Labels):
		return "its own"
	}
	return "foreign"
}

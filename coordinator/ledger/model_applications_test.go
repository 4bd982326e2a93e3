package ledger_test

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// modelConfig is that of the ledgers that are compared with the model. Clusters at the address "2"
// round the containers of masters, and nothing is granted in their queues while they hold
// applications back; at "3" another label names the user.
func modelConfig() ledger.Config {
	return ledger.Config{Terms: func(r ledger.ProviderRecord) ledger.Terms {
		terms := ledger.Terms{Application: resource.Vector{}.With(resource.AMMemory, 2).With(resource.Applications, 1), UserLabel: userLabelOf(r.Settings["addresses"])}
		if r.Settings["addresses"] == "2" {
			terms.AwaitStarts = true
			terms.Container = resource.Normalization{
				Minimum: resource.Vector{}.WithMemory(smallestMemory).WithCPU(smallestCPU), Increment: resource.Vector{}.WithMemory(stepOfMemory),
			}
		}
		return terms
	}}
}

// userLabelOf is the label that names the user in a cluster with such settings.
func userLabelOf(settings string) string {
	if settings == "3" {
		return "creator"
	}
	return "user"
}

// What a cluster at the address "2" makes of a master's container: at least so much, in such steps.
const (
	smallestMemory, stepOfMemory = 2, 3
	smallestCPU                  = 2
)

// clusterMoves draws, now and then, what the limits of a queue may become, and what its cluster
// holds back there.
func clusterMoves(t *rapid.T, q *ledger.QueueReport) {
	if rapid.IntRange(0, 2).Draw(t, "the cluster moves") > 0 {
		return
	}
	if q.Details == nil {
		q.Details = &ledger.QueueDetails{}
	}
	d := q.Details
	d.MayGrow = quantity(t, quantity(t, d.MayGrow, resource.Memory, 16, 3), "gpu", 3, 6)
	d.UsersMayGrow = quantity(t, d.UsersMayGrow, resource.Memory, 16, 3)
	if rapid.IntRange(0, 2).Draw(t, "held back") == 0 {
		d.HeldBack = ledger.HeldBack{Applications: 1, Reason: "fragmented"}
	}
}

// mayGrowTo is what a limit of a queue may become.
func (q *modelQueue) mayGrowTo(dimension string) int64 {
	if q == nil || q.report == nil || q.report.Details == nil {
		return 0
	}
	n, _ := q.report.Details.MayGrow.Get(dimension)
	return n
}

// holdsBack reports whether nothing is granted in a queue because its cluster does not start what
// waits there.
func (q *modelQueue) holdsBack() bool {
	return q.cluster.settings == "2" && q.report != nil && q.report.Details != nil && q.report.Details.HeldBack.Applications > 0
}

// counted is what a part counts as.
func (c *modelCluster) counted(v resource.Vector) resource.Vector {
	if v.IsZero() {
		return v
	}
	master := int64(2)
	if v.Has(resource.Memory) {
		master = min(master, v.Memory())
	}
	if !v.Has(resource.AMMemory) {
		v = v.With(resource.AMMemory, master)
	}
	if !v.Has(resource.Applications) {
		v = v.With(resource.Applications, 1)
	}
	// A container that is too small, or between two steps, is one larger. So is what it is in.
	grow := func(master, whole string, wrong func(n int64) bool) {
		n, asked := v.Get(master)
		for c.settings == "2" && asked && n > 0 && wrong(n) {
			n++
			v = v.With(master, n)
		}
		if all, _ := v.Get(whole); n > all {
			v = v.With(whole, n)
		}
	}
	grow(resource.AMMemory, resource.Memory, func(n int64) bool { return n < smallestMemory || n%stepOfMemory != 0 })
	grow(resource.AMCPU, resource.CPU, func(n int64) bool { return n < smallestCPU })
	return v
}

// limitMasters draws, now and then, how large the container of a master may be. Only the queues
// that applications run in have that.
func limitMasters(t *rapid.T, q *ledger.QueueReport) {
	for _, other := range queuePaths {
		if strings.HasPrefix(other, q.Path+".") {
			return
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "a largest container") == 0 {
		largest := quantity(t, resource.Vector{}.WithMemory(rapid.Int64Range(1, 4).Draw(t, "its memory")), resource.CPU, 3, 5)
		if q.Details == nil {
			q.Details = &ledger.QueueDetails{}
		}
		q.Details.LargestContainer = largest
	}
}

// tooLargeFor reports whether a master has more than one container of the queue may have.
func (q *modelQueue) tooLargeFor(asked resource.Vector) bool {
	if q == nil || q.report == nil || q.report.Details == nil {
		return false
	}
	memory, limited := q.report.Details.LargestContainer.Get(resource.Memory)
	cpu, limitedCPU := q.report.Details.LargestContainer.Get(resource.CPU)
	master, _ := asked.Get(resource.AMMemory)
	cores, _ := asked.Get(resource.AMCPU)
	return limited && master > memory || limitedCPU && cores > cpu
}

// limitApplications draws, now and then, limits of masters, of applications and of users.
func limitApplications(t *rapid.T, q *ledger.QueueReport) {
	if rapid.IntRange(0, 3).Draw(t, "limits of applications") > 0 {
		return
	}
	q.Limit = quantity(t, quantity(t, q.Limit, resource.AMMemory, 5, 3), resource.Applications, 4, 6)
	q.Used = quantity(t, quantity(t, q.Used, resource.AMMemory, 3, 6), resource.Applications, 2, 6)
	q.FirstIsFree = rapid.Bool().Draw(t, "the first is free")
	q.Users = &ledger.QueueUsers{}
	q.Users.Limit = quantity(t, quantity(t, q.Users.Limit, resource.AMMemory, 3, 6), resource.Memory, 8, 6)
	for _, user := range []string{"a", "b"} {
		if rapid.Bool().Draw(t, user+" is listed") {
			u := ledger.UserReport{User: user, Limit: quantity(t, quantity(t, resource.Vector{}, resource.AMMemory, 4, 6), resource.Memory, 8, 6)}
			u.Used = quantity(t, quantity(t, u.Used, resource.AMMemory, 2, 6), resource.Memory, 4, 6)
			q.Users.Listed = append(q.Users.Listed, u)
		}
	}
}

// userAccount is what a user has of a queue.
func (m *model) userAccount(at resource.Address, user string) modelAccount {
	a := m.queueAccount(at)
	q := *a.queue
	q.user = user
	if q.report != nil {
		said := ledger.QueueReport{}
		if users := q.report.Users; users != nil {
			said.Limit = users.Limit
			for _, u := range users.Listed {
				if u.User == user {
					said = ledger.QueueReport{Limit: u.Limit, Used: u.Used}
				}
			}
		}
		if d := q.report.Details; d != nil {
			said.Details = &ledger.QueueDetails{MayGrow: d.UsersMayGrow}
		}
		q.report, a.most = &said, mostOf(said.Limit, resource.Vector{})
	}
	a.name, a.queue = a.name+" user "+user, &q
	return a
}

// firstIsFree reports whether any master may start in a queue, since none runs there.
func (m *model) firstIsFree(a modelAccount) bool {
	if a.queue == nil {
		return false
	}
	whole := m.queueAccount(a.queue.at)
	if whole.queue.report == nil || !whole.queue.report.FirstIsFree {
		return false
	}
	used, reserved, _ := m.sums(whole)
	others := m.others(whole)
	masters := int64(0)
	for _, dimension := range []string{resource.AMMemory, resource.AMCPU} {
		masters += used[dimension] + reserved[dimension] + others[dimension]
	}
	return masters == 0
}

// userIn is the user of an allocation in a cluster; empty: that is not known.
func (c *modelCluster) userIn(labels label.Set) string {
	if !c.configured {
		return ""
	}
	return labels.Value(userLabelOf(c.settings))
}

package ledger_test

import (
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// modelConfig is that of the ledgers that are compared with the model.
func modelConfig() ledger.Config {
	return ledger.Config{Terms: func(p ledger.ProviderRecord) ledger.Terms {
		return ledger.Terms{
			Application: resource.Vector{}.With(resource.AMMemory, 2).With(resource.Applications, 1), UserLabel: "user",
			AwaitStarts: p.Settings["addresses"] == awaitingStarts,
		}
	}}
}

// awaitingStarts is the setting of clusters in whose queues nothing is granted while they hold
// applications back.
const awaitingStarts = "2"

// clusterMoves draws, now and then, what the limits of a queue may become, and what its cluster
// holds back there.
func clusterMoves(t *rapid.T, q *ledger.QueueReport) {
	if rapid.IntRange(0, 2).Draw(t, "the cluster moves") > 0 {
		return
	}
	d := &ledger.QueueDetails{}
	d.MayGrow = quantity(t, quantity(t, d.MayGrow, resource.Memory, 16, 3), "gpu", 3, 6)
	d.UsersMayGrow = quantity(t, d.UsersMayGrow, resource.Memory, 16, 3)
	if rapid.IntRange(0, 2).Draw(t, "held back") == 0 {
		d.HeldBack = ledger.HeldBack{Applications: 1, Reason: "fragmented"}
	}
	q.Details = d
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
	return q.cluster.settings == awaitingStarts && q.report.Details != nil && q.report.Details.HeldBack.Applications > 0
}

// counted is what a part counts as.
func counted(v resource.Vector) resource.Vector {
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
	return v
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

// knownUsers are the queues of a new allocation in which its user is known: those of clusters that
// are configured.
func (m *model) knownUsers(a *ledger.Allocation) map[resource.Address]bool {
	users := make(map[resource.Address]bool)
	for _, part := range a.Entitled.External {
		if m.cluster(clusterOf(part.Address)).configured && a.Labels.Value("user") != "" {
			users[part.Address] = true
		}
	}
	return users
}

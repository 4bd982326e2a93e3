package ledger_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// model is what an outside observer knows of a ledger: the rules and hosts that it got, and the
// allocations by the transitions that it announced. It computes everything again each time, in the
// most obvious way.
type model struct {
	now   ledger.Instant
	rules []ledger.Quota // in force
	all   []ledger.Quota // with those that are hidden
	hosts map[string]*modelHost
	// expected are names that were cordoned before their hosts came.
	expected map[string]*modelHost
	rows     map[ledger.ID]*modelRow // live
	// clusters are those that are configured, and those that were.
	clusters map[ledger.ClusterName]*modelCluster
	ended    map[ledger.ID]ledger.Allocation
	judged   ledger.Instant // until then no host is too small for anything
}

// modelRow is a live allocation with what is not part of it.
type modelRow struct {
	ledger.Allocation
	callers  int
	detached ledger.Instant
	touched  int64 // of its memory, as of the last sample
	overUse  overUse
	brought  bool // by an agent, and the ledger did not know the request
	elsewhere
}

func (r *modelRow) present() bool { return r.Async || r.callers > 0 }

// tracked reports whether an agent watches a process of it.
func (r *modelRow) tracked() bool { return r.State == ledger.Active && r.Process.PID != 0 }

// modelHost is a host as its agent and the operators made it.
type modelHost struct {
	id                  string
	labels              label.Set
	capacity, protected resource.Vector
	cordoned, draining  bool
	incarnation         uint64
	boot                string
	sequence            uint64

	heard    bool // since the last load
	lost     bool
	needFull bool
	lastSync ledger.Instant

	measured bool
	sample   ledger.Instant // by its agent's clock
	sampleAt ledger.Instant
	live     int64 // available beyond safety, as of the last sample
	pressure bool
	refused  bool

	stopAt  ledger.Instant // of a host that drains; zero: never
	touched uint64         // revision of the last change of an allocation there
}

// patience is how long a host may be silent, or unmeasured, before it gets no new grants: three
// intervals of 5 s.
const patience = 15 * time.Second

// Times of the ledger's standard configuration.
const (
	lostAfter       = 5 * time.Minute
	callerGrace     = 10 * time.Second
	retention       = 24 * time.Hour
	interval        = 5 * time.Second
	starvationAfter = 30 * time.Second
	reservationTTL  = 2 * time.Minute
)

func newModel() *model {
	return &model{
		now: start, hosts: make(map[string]*modelHost), expected: make(map[string]*modelHost), rows: make(map[ledger.ID]*modelRow), ended: make(map[ledger.ID]ledger.Allocation),
		clusters: make(map[ledger.ClusterName]*modelCluster),
	}
}

// silent reports whether the host is suspect or worse.
func (m *model) silent(h *modelHost) bool {
	return !h.heard || h.lost || h.lastSync.Add(patience) <= m.now
}

func (m *model) fresh(h *modelHost) bool { return h.measured && h.sampleAt.Add(patience) > m.now }

// open reports whether new grants may go there.
func (m *model) open(h *modelHost) bool {
	return !m.silent(h) && !h.cordoned && !h.draining && !h.needFull && m.fresh(h) && !h.pressure && !h.refused
}

// modelAccount is a host, a quota or a queue with what it could give at most, in the dimensions
// that it limits.
type modelAccount struct {
	name  string
	host  *modelHost  // of a host
	queue *modelQueue // of a queue
	rule  ledger.Quota
	most  map[string]int64
	// place is, of a quota's account for external parts, whose parts count in it, and quota the
	// name of the account next to it.
	place *resource.Address
	quota string
}

// limits reports what the account could give of a dimension. A host, or a queue that its cluster
// has, has none of a custom one that it does not list.
func (a modelAccount) limits(dimension string) (int64, bool) {
	most, limited := a.most[dimension]
	custom := dimension != resource.Memory && dimension != resource.CPU && dimension != resource.Instances
	listsAll := a.host != nil || a.queue != nil && a.queue.user == "" && a.queue.report != nil && !resource.OfApplications(dimension)
	return most, limited || listsAll && custom
}

// asked is what a resource asks of the account.
func (a modelAccount) asked(r resource.Resource) resource.Vector {
	switch {
	case a.queue != nil:
		return a.queue.sum(r.External)
	case a.place != nil:
		total := resource.Vector{}
		for _, part := range r.External {
			if a.counts(part.Address) {
				total, _ = total.Add(part.Vector)
			}
		}
		return total
	default:
		return r.Vector
	}
}

// counts reports whether a part at an address counts in an account for external parts.
func (a modelAccount) counts(at resource.Address) bool {
	queues := upwards(at)
	return at.Kind == a.place.Kind && (a.place.Cluster == "*" || a.place.Cluster == at.Cluster) &&
		(a.place.Path == "*" || slices.ContainsFunc(queues, func(queue resource.Address) bool { return queue.Path == a.place.Path }))
}

func mostOf(limit, protected resource.Vector) map[string]int64 {
	most := make(map[string]int64)
	for dimension, quantity := range limit.All() {
		kept, _ := protected.Get(dimension)
		most[dimension] = max(0, quantity-kept)
	}
	return most
}

func hostAccount(h *modelHost) modelAccount {
	return modelAccount{name: "host " + h.id, host: h, most: mostOf(h.capacity, h.protected)}
}

// scopes are the sets of keys that rules are written for, fewest keys first.
func (m *model) scopes() []label.Scope {
	byKey := make(map[string]label.Scope)
	for _, q := range m.rules {
		byKey[q.Selector.Scope().Key()] = q.Selector.Scope()
	}
	return slices.SortedFunc(maps.Values(byKey), func(a, b label.Scope) int {
		return cmp.Or(cmp.Compare(len(a.Keys()), len(b.Keys())), cmp.Compare(a.Key(), b.Key()))
	})
}

// rule is the most specific rule of a scope for some labels, and how many others are as specific.
func rule(rules []ledger.Quota, scope label.Scope, labels label.Set) (best *ledger.Quota, ties int) {
	for i := range rules {
		q := &rules[i]
		switch {
		case q.Selector.Scope().Key() != scope.Key() || !q.Selector.Matches(labels):
		case best == nil || q.Selector.Exact() > best.Selector.Exact():
			best, ties = q, 0
		case q.Selector.Exact() == best.Selector.Exact():
			ties++
		}
	}
	return best, ties
}

// quotas are the accounts that some labels charge.
func (m *model) quotas(labels label.Set) []modelAccount {
	var list []modelAccount
	for _, scope := range m.scopes() {
		if q, _ := rule(m.rules, scope, labels); q != nil {
			list = append(list, quotaAccounts(scope, *q, labels)...)
		}
	}
	return list
}

// quotaAccounts are the account of a rule for some labels, and those for external parts next to it.
func quotaAccounts(scope label.Scope, q ledger.Quota, labels label.Set) []modelAccount {
	name := ledger.AccountName{Kind: ledger.QuotaAccount, Labels: scope.Project(labels)}
	list := []modelAccount{{name: name.String(), rule: q, most: mostOf(q.Limit, resource.Vector{})}}
	for _, limit := range q.External {
		list = append(list, modelAccount{
			name: name.String() + " in " + limit.Address.String(), rule: q, most: mostOf(limit.Vector, resource.Vector{}),
			place: &limit.Address, quota: name.String(),
		})
	}
	return list
}

// accounts are all accounts that exist: those of hosts, of rules without a "*", and of what is
// live.
func (m *model) accounts() map[string]modelAccount {
	all := make(map[string]modelAccount)
	for _, h := range m.hosts {
		a := hostAccount(h)
		all[a.name] = a
	}
	for _, q := range m.rules {
		if q.Selector.Exact() == len(q.Selector.Labels()) {
			for _, a := range quotaAccounts(q.Selector.Scope(), q, q.Selector.Labels()) {
				all[a.name] = a
			}
		}
	}
	for _, r := range m.rows {
		for _, a := range m.quotas(r.Labels) {
			all[a.name] = a
		}
	}
	for at := range m.queues() {
		a := m.queueAccount(at)
		all[a.name] = a
	}
	for _, r := range m.rows {
		for _, part := range r.Entitled.External {
			if user := m.cluster(clusterOf(part.Address)).userIn(r.Labels); user != "" {
				a := m.userAccount(part.Address, user)
				all[a.name] = a
			}
		}
	}
	return all
}

// in reports whether an allocation that holds something counts in the account.
func (m *model) in(r *modelRow, a modelAccount) bool {
	if !r.State.Holds() {
		return false
	}
	if a.host != nil {
		return r.HostID == a.host.id
	}
	if a.queue != nil {
		if a.queue.user != "" && a.queue.cluster.userIn(r.Labels) != a.queue.user {
			return false
		}
		return !a.asked(r.Entitled).IsZero()
	}
	if a.place != nil && !slices.ContainsFunc(r.Entitled.External, func(x resource.External) bool { return a.counts(x.Address) }) {
		return false
	}
	return slices.ContainsFunc(m.quotas(r.Labels), func(b modelAccount) bool { return b.name == a.name })
}

// sums is what an account's allocations are entitled to, by state.
func (m *model) sums(a modelAccount) (used, reserved map[string]int64, held int) {
	used, reserved = make(map[string]int64), make(map[string]int64)
	for _, r := range m.rows {
		if !m.in(r, a) {
			continue
		}
		held++
		into := reserved
		if r.State == ledger.Active {
			into = used
		}
		for dimension, quantity := range a.asked(r.Entitled).All() {
			if quantity != 0 {
				into[dimension] += quantity
			}
		}
	}
	return used, reserved, held
}

// short reports whether the account lacks a dimension that is asked for.
func (m *model) short(a modelAccount, request resource.Resource) bool {
	used, reserved, _ := m.sums(a)
	others := m.others(a)
	free := m.firstIsFree(a)
	if a.queue.tooLargeFor(a.asked(request)) {
		return true
	}
	for dimension, asked := range a.asked(request).All() {
		if free && resource.OfMasters(dimension) {
			continue
		}
		if most, limited := a.limits(dimension); asked != 0 && limited && used[dimension]+reserved[dimension]+others[dimension]+asked > most {
			return true
		}
	}
	return false
}

// exceeded reports whether the account has given away more than it could.
func (m *model) exceeded(a modelAccount) bool {
	used, reserved, _ := m.sums(a)
	others := m.others(a)
	for dimension, most := range a.most {
		if used[dimension]+reserved[dimension]+others[dimension] > most {
			return true
		}
	}
	return false
}

// tooSmall reports whether the account could not give the request even if nothing were used.
func (a modelAccount) tooSmall(request resource.Resource) bool {
	if a.queue.tooLargeFor(a.asked(request)) {
		return true
	}
	for dimension, asked := range a.asked(request).All() {
		if a.queue != nil && resource.OfMasters(dimension) {
			continue // that limit moves
		}
		if most, limited := a.limits(dimension); asked != 0 && limited && asked > most && asked > a.queue.mayGrowTo(dimension) {
			return true
		}
	}
	return false
}

// headroom is the memory that a host's last sample showed, less what engines may still use of what
// they were promised.
func (m *model) headroom(h *modelHost) int64 {
	left := h.live
	for _, r := range m.rows {
		if r.State.Holds() && r.HostID == h.id {
			left -= max(0, r.Entitled.Memory()-r.touched)
		}
	}
	return left
}

// takes reports whether a host would take the request now.
func (m *model) takes(h *modelHost, request resource.Resource) bool {
	return m.open(h) && !m.short(hostAccount(h), request) && (request.Memory() == 0 || request.Memory() <= m.headroom(h))
}

// matches reports whether a host is wished for.
func matches(h *modelHost, w *ledger.Wishes) bool {
	return w == nil || (w.Host == "" || w.Host == h.id) && h.labels.MatchesFilter(w.Required) && !slices.Contains(w.Avoid, h.id)
}

// fits lists the hosts on which a request could be granted now: no account that it charges is
// short, or held for another.
func (m *model) fits(a *ledger.Allocation, held holds) []string {
	request := a.Entitled
	for _, quota := range m.quotas(a.Labels) {
		if m.short(quota, request) || m.against(held, quota, request, a.ID) {
			return nil
		}
	}
	for _, queue := range m.chains(a) {
		if m.shut(queue.queue) || m.short(queue, request) || m.against(held, queue, request, a.ID) {
			return nil
		}
	}
	var hosts []string
	for _, h := range m.hosts {
		if !m.takes(h, request) {
			continue
		}
		account := hostAccount(h)
		switch named := a.Wishes != nil && a.Wishes.Host != ""; {
		case m.against(held, account, request, a.ID):
		case named && (a.Wishes.Host != h.id || !h.labels.MatchesFilter(a.Wishes.Required)):
		case !named && !matches(h, a.Wishes):
		default:
			hosts = append(hosts, h.id)
		}
	}
	return hosts
}

// normalize rounds a request by the rules, one scope after the other.
func (m *model) normalize(labels label.Set, v resource.Vector) (resource.Vector, error) {
	for _, scope := range m.scopes() {
		if q, _ := rule(m.rules, scope, labels); q != nil && q.Normalization != nil {
			rounded, err := q.Normalization.Apply(v)
			if err != nil {
				return v, fmt.Errorf("%s: %w", q.Selector, err)
			}
			v = rounded
		}
	}
	return v, nil
}

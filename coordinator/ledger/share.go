package ledger

import (
	"slices"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// share is the use of the whole fleet, and of each external cluster, by a user or by an account
// whose rule sets a weight or a guarantee. Among requests of one priority the one with the smallest
// share goes first (weighted dominant resource fairness).
type share struct {
	key        string
	weight     int64
	guaranteed resource.Vector

	amounts                // on hosts: the sum of the entitlements of its reserved and active allocations
	clusters []*clusterUse // one for each cluster that it uses
	promised []promise     // guarantees of external parts
	sets     int           // account sets that count in it

	// value is the order: the largest of its fractions of the fleet and of clusters, divided by the
	// weight. Shares within their guarantee come before all others.
	value   float64
	valued  uint64   // the change of a cluster's capacity that it was last valued after
	groups  []*group // the groups in which requests of it wait
	starved starvation
	uses    map[*account]*shareUse
	account *account // the one whose rule sets its weight or guarantee; nil: it is a user's
}

// shareUse is a share's use of one account: the sum of the entitlements of its reserved and active
// allocations there.
type shareUse struct {
	account *account
	sum     resource.Sum
	refs    int         // account sets, or allocations in a cluster queue, that count here
	cluster *clusterUse // of which it is a part, if the account is that of a cluster's top queue
}

// aboveGuarantee is added to the value of a share that is above its guarantee, or has no guarantee.
// A fraction of the fleet is at most 1 by the accounts, one of a cluster is more only if the
// cluster has shrunk, and a weight is at least 1.
const aboveGuarantee = 1 << 20

// fleet is the capacity of all hosts. Dominant shares are fractions of it.
type fleet struct {
	memory, cpu int64
	custom      counts
}

// add adds the capacity of a host, or subtracts it with sign -1.
func (f *fleet) add(a *account, sign int64) {
	f.memory += sign * known(a.most[0])
	f.cpu += sign * known(a.most[1])
	for _, q := range a.limit.Custom() {
		f.custom.add(q.Name, sign*a.mostOf(q.Name))
	}
}

// amounts are sums of quantities.
type amounts struct {
	memory, cpu, instances int64
	custom                 counts
}

// add adds a vector, or subtracts it with sign -1.
func (h *amounts) add(v resource.Vector, sign int64) {
	h.memory += sign * v.Memory()
	h.cpu += sign * v.CPU()
	h.instances += sign * v.Instances()
	for _, q := range v.Custom() {
		if q.Value != 0 {
			h.custom.add(q.Name, sign*q.Value)
		}
	}
}

// dominant returns the largest fraction of any dimension.
func (h *amounts) dominant(of *fleet) float64 {
	value := max(fraction(h.memory, of.memory), fraction(h.cpu, of.cpu))
	for name, has := range h.custom {
		value = max(value, fraction(has, of.custom[name]))
	}
	return value
}

// counts are sums of custom countables, by name. None is zero.
type counts map[string]int64

func (c *counts) add(name string, n int64) {
	if *c == nil {
		*c = make(counts)
	}
	if (*c)[name] += n; (*c)[name] == 0 {
		delete(*c, name)
	}
}

func (s *share) revalue(f *fleet) {
	s.value = s.dominant(f)
	for _, c := range s.clusters {
		s.value = max(s.value, c.dominant(&c.cluster.capacity))
	}
	s.value /= float64(s.weight)
	if !s.withinGuarantee() {
		s.value += aboveGuarantee
	}
}

// fraction returns part/whole, and zero if the whole is unknown.
func fraction(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (s *share) withinGuarantee() bool {
	if s.guaranteed.IsUnset() && len(s.promised) == 0 {
		return false
	}
	for i, dimension := range [...]string{resource.Memory, resource.CPU, resource.Instances} {
		if most, listed := s.guaranteed.Get(dimension); listed && [...]int64{s.memory, s.cpu, s.instances}[i] >= most {
			return false
		}
	}
	for _, most := range s.guaranteed.Custom() {
		if s.custom[most.Name] >= most.Value {
			return false
		}
	}
	return s.withinPromises()
}

// count adds to the share's use, or subtracts with sign -1, and restores the order of its queues.
func (s *share) count(v resource.Vector, sign int64, f *fleet) {
	s.add(v, sign)
	s.reorder(f)
}

// reorder computes the value again, and restores the order of the queues.
func (s *share) reorder(f *fleet) {
	s.revalue(f)
	for _, g := range s.groups {
		g.queue.groups.fix(g.index)
	}
}

// use finds or makes the share's use of an account, and counts one more reference.
func (s *share) use(a *account) *shareUse {
	u := s.uses[a]
	if u == nil {
		u = &shareUse{account: a, cluster: s.clusterUse(a)}
		s.uses[a] = u
	}
	u.refs++
	return u
}

// dropUse undoes use.
func (s *share) dropUse(u *shareUse) {
	if u.refs--; u.refs == 0 {
		delete(s.uses, u.account)
		s.dropClusterUse(u.cluster)
	}
}

// add counts a resource. It cannot overflow: the account's sums have it, too.
func (u *shareUse) add(v resource.Vector) {
	if err := u.sum.Add(v); err != nil {
		panic("ledger: a share in " + u.account.name.String() + ": " + err.Error())
	}
	if u.cluster != nil {
		u.cluster.count(v, 1)
	}
}

// subtract reverses add.
func (u *shareUse) subtract(v resource.Vector) {
	if err := u.sum.Minus(v); err != nil {
		panic("ledger: a share in " + u.account.name.String() + ": " + err.Error())
	}
	if u.cluster != nil {
		u.cluster.count(v, -1)
	}
}

// blocks reports whether the share's own use of an account keeps its request from fitting there,
// even if all other shares gave back their use.
func (s *share) blocks(c charge) bool {
	if s.memory == 0 && s.cpu == 0 && s.instances == 0 && len(s.custom) == 0 && !c.account.name.OfParts() {
		return false
	}
	own := &resource.Sum{}
	if h := c.host(); h != nil {
		for i, e := range h.entries {
			if i == ownCounted {
				return true
			}
			if e.share == s && own.Add(e.request()) != nil {
				return true
			}
		}
	} else if u := s.uses[c.account]; u != nil {
		own = &u.sum
	}
	for dimension, asked := range c.vector.All() {
		if most := c.account.mostOf(dimension); asked != 0 && most < unlimited && asked > most-own.Get(dimension) {
			return true
		}
	}
	return false
}

// ownCounted is the number of engines of a host among which the ledger looks for those of one
// share. A host with more engines is not held for a share that has any use.
const ownCounted = 256

// alone reports whether only the share, or the user of its requests, counts in an account.
func (s *share) alone(a *account) bool {
	return a.rule != nil && (a == s.account || s.account != nil && a.abroad() == s.account || a.name.Labels.Value(userKey) != "")
}

// drop removes a group without waiting requests.
func (s *share) drop(g *group) {
	s.groups = slices.DeleteFunc(s.groups, func(other *group) bool { return other == g })
}

// shareOf finds or makes the share of a request: that of its first quota account whose rule sets a
// weight or a guarantee, otherwise that of its user. The rule for everything does not count: with
// any weight of it, all requests would have the same share, and the order among users would be
// lost.
func (l *Ledger) shareOf(f *accountSet, labels label.Set) *share {
	buf := make([]byte, 0, 64)
	var of *account
	for _, a := range f.accounts {
		if len(a.rule.Selector.Labels()) > 0 && a.rule.ownShare() {
			of = a
			buf = append(append(buf, 'q'), a.key...)
			break
		}
	}
	if of == nil {
		buf = append(append(buf, 'u'), labels.Value(userKey)...)
	}
	s := l.shares[string(buf)]
	if s == nil {
		s = &share{key: string(buf), weight: 1, account: of, uses: make(map[*account]*shareUse)}
		if of != nil {
			s.weight, s.guaranteed = max(1, int64(of.rule.Weight)), of.rule.Guaranteed
			s.promised = promisesOf(of.rule)
		}
		s.starved.last = l.holders.last(s.key)
		l.shares[s.key] = s
	}
	s.sets++
	return s
}

func (l *Ledger) dropShare(s *share) {
	s.sets--
	if s.sets == 0 {
		delete(l.shares, s.key)
	}
}

// revalueAll recomputes all shares after a change of the fleet.
func (l *Ledger) revalueAll() {
	queues := make(map[*queue]bool)
	for _, s := range l.shares {
		s.revalue(&l.fleet)
		for _, g := range s.groups {
			queues[g.queue] = true
		}
	}
	for q := range queues {
		q.groups.rebuild()
	}
}

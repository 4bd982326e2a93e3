package ledger

import (
	"maps"
	"math"
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Shares of external clusters
//
// What a share has in the queues of a cluster is a fraction of what the top queues of the cluster
// may have together, as its last reading says. That is the capacity of the cluster. The largest of
// the fractions of the fleet and of all clusters is the value of the share. What is not known of a
// capacity does not count: the cluster was not read since the load, or with its present settings,
// or it does not limit one of its top queues. A cluster that is silent keeps its capacity.
//
// If a reading brings another capacity, the shares that have something in the cluster are valued
// again in steps. A share of which nothing waits is valued when something of it begins to wait.

// clusterUse is what a share has in one cluster, in all partitions. Applications and their masters
// are left out: what masters take is a part of the memory and the cpu.
type clusterUse struct {
	cluster *cluster
	amounts
	tops int // uses of top queues that count in it
}

// count adds what the share has in a top queue, or subtracts it with sign -1.
func (u *clusterUse) count(v resource.Vector, sign int64) {
	u.memory += sign * v.Memory()
	u.cpu += sign * v.CPU()
	for _, q := range v.Custom() {
		if q.Value != 0 && !resource.OfApplications(q.Name) {
			u.custom.add(q.Name, sign*q.Value)
		}
	}
}

// isTop reports whether there is no queue above it.
func (q *clusterQueue) isTop() bool { return q.parent == nil && q.of == nil }

// clusterUse finds or makes what the share has in the cluster whose top queue an account is of, and
// counts one that counts there; nil: it is another account.
func (s *share) clusterUse(a *account) *clusterUse {
	q := a.queue.clusterQueue
	if q == nil || !q.isTop() {
		return nil
	}
	i := slices.IndexFunc(s.clusters, func(u *clusterUse) bool { return u.cluster == q.cluster })
	if i < 0 {
		i = len(s.clusters)
		s.clusters = append(s.clusters, &clusterUse{cluster: q.cluster})
	}
	s.clusters[i].tops++
	return s.clusters[i]
}

// dropClusterUse undoes clusterUse.
func (s *share) dropClusterUse(u *clusterUse) {
	if u == nil {
		return
	}
	if u.tops--; u.tops == 0 {
		s.clusters = slices.DeleteFunc(s.clusters, func(other *clusterUse) bool { return other == u })
	}
}

// promise is a guarantee of external parts, and what the share has there.
type promise struct {
	resource.External
	has resource.Sum
}

// promisesOf are the guarantees of external parts of a rule.
func promisesOf(r *rule) []promise {
	list := make([]promise, len(r.GuaranteedExternal))
	for i := range list {
		list[i].External = r.GuaranteedExternal[i]
	}
	return list
}

// withinPromises reports whether the share has less than it is guaranteed of external parts, in
// each dimension that a guarantee lists.
func (s *share) withinPromises() bool {
	for i := range s.promised {
		for dimension, most := range s.promised[i].All() {
			if s.promised[i].has.Get(dimension) >= most {
				return false
			}
		}
	}
	return true
}

// countParts counts external parts in the guarantees that cover them, or gives them back with
// sign -1.
func (s *share) countParts(parts []resource.External, sign int) {
	if len(s.promised) == 0 {
		return
	}
	for i := range parts {
		s.countPart(parts[i].Address, parts[i].Vector, sign)
	}
}

// countPart is countParts for one part. It cannot overflow: see mostTogether.
func (s *share) countPart(at resource.Address, v resource.Vector, sign int) {
	for i := range s.promised {
		if p := &s.promised[i]; p.Covers(at) {
			err := p.has.Add
			if sign < 0 {
				err = p.has.Minus
			}
			if err := err(v); err != nil {
				panic("ledger: what " + s.key + " is guaranteed in " + p.Address.String() + ": " + err.Error())
			}
		}
	}
}

// topLimits is what the top queues of a report may have together. If one of them is not limited,
// nothing is known of the whole: that is 0.
func (r *ClusterReport) topLimits() (f fleet) {
	memory, cpu := true, true
	for i := range r.Queues {
		if _, below := parentPath(r.Queues[i].Path); below {
			continue
		}
		limit := clamped(r.Queues[i].Limit)
		memory, cpu = memory && limit.Has(resource.Memory), cpu && limit.Has(resource.CPU)
		f.memory, f.cpu = capped(f.memory, limit.Memory()), capped(f.cpu, limit.CPU())
		for _, q := range limit.Custom() {
			if q.Value > 0 && !resource.OfApplications(q.Name) {
				f.custom.add(q.Name, capped(f.custom[q.Name], q.Value)-f.custom[q.Name])
			}
		}
	}
	if !memory {
		f.memory = 0
	}
	if !cpu {
		f.cpu = 0
	}
	return f
}

// capped is a sum of what is not negative, and the largest number if that is too small.
func capped(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func (f *fleet) equal(other *fleet) bool {
	return f.memory == other.memory && f.cpu == other.cpu && maps.Equal(f.custom, other.custom)
}

// setCapacity sets what the cluster has, by a reading; shares are valued by it from now on. Those
// that have something there are valued again by revalueShares.
func (r *reading) setCapacity(l *Ledger) {
	if r.valid(l.now) && !r.cluster.capacity.equal(&r.capacity) {
		r.cluster.capacity = r.capacity
		l.valuations++
		r.valuation = l.valuations
	}
}

// revalueShares values the shares that have something in the cluster again if its capacity is
// another one.
func (r *reading) revalueShares(l *Ledger, left *int) (done bool) {
	if r.valuation == 0 {
		return true
	}
	return r.eachMember(left, 0, func(e *entry) {
		*left -= 1 + l.revalueOnce(e.share, r.valuation)
	})
}

// revalueOnce values a share again if it was not after this change of a cluster. It returns in how
// many queues its place may have changed.
func (l *Ledger) revalueOnce(s *share, valuation uint64) int {
	if s.valued == valuation {
		return 0
	}
	s.valued = valuation
	s.reorder(&l.fleet)
	return len(s.groups)
}

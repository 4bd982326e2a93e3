package ledger

import (
	"maps"
	"math"
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Shares of external clusters
//
// A share's use of a cluster is a fraction of the cluster's capacity: the sum of the limits of its
// top queues, by its last reading. The value of the share is the largest of its fractions of the
// fleet and of all clusters. An unknown capacity does not count: the cluster was not read since the
// load, or not with its present settings, or it does not limit one of its top queues. A silent
// cluster keeps its capacity.
//
// If a reading brings another capacity, the ledger values the shares with a use of the cluster
// again, in steps. A share without waiting requests is valued when one begins to wait.

// clusterUse is a share's use of one cluster, in all partitions. Applications and their masters are
// left out: a master is a part of the memory and the cpu.
type clusterUse struct {
	cluster *cluster
	amounts
	tops int // uses of top queues that count in it
}

// count adds the share's use of a top queue, or subtracts it with sign -1.
func (u *clusterUse) count(v resource.Vector, sign int64) {
	u.memory += sign * v.Memory()
	u.cpu += sign * v.CPU()
	for _, q := range v.Custom() {
		if q.Value != 0 && !resource.OfApplications(q.Name) {
			u.custom.add(q.Name, sign*q.Value)
		}
	}
}

// isTop reports whether the queue has no queue above it.
func (q *clusterQueue) isTop() bool { return q.parent == nil && q.of == nil }

// clusterUse finds or makes the share's use of the cluster to which a top queue's account belongs,
// and counts one more use of a top queue; nil: the account is not that of a top queue.
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

// promise is a guarantee of external parts, and the share's use of it.
type promise struct {
	resource.External
	has resource.Sum
}

// promisesOf returns the guarantees of external parts of a rule.
func promisesOf(r *rule) []promise {
	list := make([]promise, len(r.GuaranteedExternal))
	for i := range list {
		list[i].External = r.GuaranteedExternal[i]
	}
	return list
}

// withinPromises reports whether the share's use of external parts is below its guarantees, in each
// dimension that a guarantee lists.
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

// countParts adds external parts to the guarantees that cover them, or subtracts them with sign -1.
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

// topLimits returns the sum of the limits of a report's top queues. A dimension is 0, unknown, if
// one of them does not limit it.
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

// capped returns the sum of two numbers that are not negative, at most the largest number.
func capped(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func (f *fleet) equal(other *fleet) bool {
	return f.memory == other.memory && f.cpu == other.cpu && maps.Equal(f.custom, other.custom)
}

// setCapacity sets the cluster's capacity by a reading. From now on shares are valued by it, and
// revalueShares values the shares with a use of the cluster again.
func (r *reading) setCapacity(l *Ledger) {
	if r.valid(l.now) && !r.cluster.capacity.equal(&r.capacity) {
		r.cluster.capacity = r.capacity
		l.valuations++
		r.valuation = l.valuations
	}
}

// revalueShares values the shares with a use of the cluster again if its capacity has changed.
func (r *reading) revalueShares(l *Ledger, left *int) (done bool) {
	if r.valuation == 0 {
		return true
	}
	return r.eachMember(left, 0, func(e *entry) {
		*left -= 1 + l.revalueOnce(e.share, r.valuation)
	})
}

// revalueOnce values a share again unless it was valued after this change of a cluster. It returns
// the number of queues in which its place may have changed.
func (l *Ledger) revalueOnce(s *share, valuation uint64) int {
	if s.valued == valuation {
		return 0
	}
	s.valued = valuation
	s.reorder(&l.fleet)
	return len(s.groups)
}

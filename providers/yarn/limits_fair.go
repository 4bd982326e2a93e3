package yarn

import (
	"math"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// The FairScheduler divides a queue's resources among its active children. A queue is active if an
// application runs or waits in it. It divides by weight, but never below a child's minimum or above
// its maximum. The parent's policy decides whether it divides only memory, or cores as well.
// Masters may use a part of the queue's share. In a dimension that is not divided, and if a queue
// has no share yet, the limit is a part of the free resources of the cluster, and of at most the
// queue's maximum.
//
// An answer has the shares but no weights. The weights follow from the steady shares, which assume
// that all queues are active: a steady share is proportional to the weight, unless it equals the
// minimum or the maximum.

// amShare returns the FairScheduler's maxAMShare; negative: masters are not limited.
func (s *Scheduler) amShare() float64 {
	if s.Assume.AMShare == 0 {
		return defaultAMShare
	}
	return s.Assume.AMShare
}

// masters returns the part of a queue's share that its masters may use; 0: not limited, or unknown.
// No answer contains it. The answer has the limit at the last start of a master: if this limit
// cannot be the configured part of any share of the queue, the queue uses another part.
func (s *Scheduler) masters(q *providers.Queue, e *Entry) float64 {
	part := s.amShare()
	switch {
	case part < 0 || e.AMLimit == nil || e.LeavesOnly:
		return 0
	case e.AMLimit.IsZero():
		if e.AMUsed != nil && !e.AMUsed.IsZero() {
			return 0 // masters run but were never compared with a limit
		}
		return part
	case e.SteadyShare == nil || e.AMLimit.Memory() == 0:
		return part
	}
	was := e.AMLimit.Memory()
	least, most := e.SteadyShare.Memory()-2*mebibyte, max(s.most(q).Memory(), q.Guaranteed.Memory())
	if s.part(part, least, mebibyte) <= was && was <= s.part(part, most, mebibyte) {
		return part
	}
	of := most
	if e.active() && e.FairShare != nil && e.FairShare.Memory() > 0 {
		of = min(most, e.FairShare.Memory())
	}
	return min(1, (float64(was)-mebibyte/2)/float64(max(of, was)))
}

// part returns a part of an amount in whole units, rounded up like in YARN.
func (s *Scheduler) part(part float64, of, unit int64) int64 {
	return int64(math.Ceil(float64(max(0, of)/unit)*float64(float32(part)))) * unit
}

// most returns the maximum of a queue, capped at the size of the cluster.
func (s *Scheduler) most(q *providers.Queue) (most resource.Vector) {
	for _, dimension := range containerDimensions {
		n, _ := s.Totals[""].Get(dimension)
		if limit, limited := q.Limit.Get(dimension); limited {
			n = min(n, limit)
		}
		most = most.With(dimension, n)
	}
	return most
}

// active reports whether an application runs or waits in the queue.
func (e *Entry) active() bool {
	return e.Active != nil && *e.Active > 0 || e.Pending != nil && *e.Pending > 0
}

// fairAMLimit returns the limit for masters in a queue of the FairScheduler at its present share;
// nil: unknown or not limited. used is the use of all queues. estimated lists the dimensions in
// which YARN used another limit at the last start of a master, or may use another one next.
func (s *Scheduler) fairAMLimit(q *providers.Queue, e *Entry, used resource.Vector) (limit *resource.Vector, estimated []string) {
	part := s.masters(q, e)
	if part == 0 {
		return nil, nil
	}
	if e.FairShare == nil && !e.AMLimit.IsZero() {
		return e.AMLimit, []string{resource.AMMemory, resource.AMCPU}
	}
	most := s.most(q)
	var v resource.Vector
	for _, dimension := range containerDimensions {
		total, _ := s.Totals[""].Get(dimension)
		taken, _ := used.Get(dimension)
		of, _ := most.Get(dimension)
		of = min(of, max(0, total-taken))
		share := int64(0)
		if e.FairShare != nil && e.active() {
			share, _ = e.FairShare.Get(dimension)
		}
		if share > 0 {
			of = share
		}
		n := s.part(part, of, unitOf(dimension))
		v = v.With(dimension, n)
		if was, _ := e.AMLimit.Get(dimension); share == 0 || was != n {
			estimated = append(estimated, amDimension[dimension])
		}
	}
	return &v, estimated
}

// amDimension maps each dimension of a container to that of masters.
var amDimension = map[string]string{resource.Memory: resource.AMMemory, resource.CPU: resource.AMCPU}

// dominantPolicy is the policy that divides cores, too; all others divide only memory.
const dominantPolicy = "DRF"

// dividedBy returns the dimensions that a policy divides.
func dividedBy(policy string) []string {
	if strings.EqualFold(policy, dominantPolicy) {
		return containerDimensions[:]
	}
	return containerDimensions[:1:1]
}

// divide sets Division and ChildDivision of the FairScheduler's queues, if the answer has the
// shares.
func (s *Scheduler) divide(queues []providers.Queue) {
	below, policies := make(map[string][]int), map[string]string{"": dominantPolicy} // above the root
	for i := range queues {
		if s.Entries[i].SteadyShare == nil || s.Entries[i].AMLimit == nil {
			return // the use of masters is unknown
		}
		below[queues[i].Parent] = append(below[queues[i].Parent], i)
		policies[queues[i].Path] = s.Entries[i].Policy
	}
	for above, list := range below {
		s.divideAmong(queues, list, dividedBy(policies[above]))
	}
	for i := range queues {
		if q := &queues[i]; q.CreatesChildren && q.LeavesOnly && s.amShare() > 0 {
			q.ChildDivision = s.childDivision(queues, below[q.Path], q, dividedBy(policies[q.Path]))
		}
	}
}

// steady returns a queue's steady share in MiB if it shows the weight, else 0.
func (s *Scheduler) steady(q *providers.Queue, e *Entry) int64 {
	if !s.tells(q, e.SteadyShare) {
		return 0
	}
	return e.SteadyShare.Memory() / mebibyte
}

// exactShare is the size in MiB from which two shares that differ by at most one count as the same
// weight; YARN's rounding can cause that difference.
const exactShare = 1024

// commonWeight returns the weight that all queues of a list have in common, among those whose share
// shows it. 0: the weights differ, no share shows a weight, or the shares are too small.
func (s *Scheduler) commonWeight(queues []providers.Queue, list []int) int64 {
	common := int64(0)
	for _, i := range list {
		switch n := s.steady(&queues[i], &s.Entries[i]); {
		case n == 0:
		case n < exactShare, common != 0 && (n < common-1 || n > common+1):
			return 0
		default:
			common = max(common, n)
		}
	}
	return common
}

// divideAmong sets Division of the queues below one parent.
func (s *Scheduler) divideAmong(queues []providers.Queue, list []int, divided []string) {
	common, scale, crowded := s.commonWeight(queues, list), s.scale(queues, list), s.crowded(queues, list)
	for _, i := range list {
		q, e := &queues[i], &s.Entries[i]
		d := &providers.Division{
			Divided: divided, Least: q.Guaranteed, Most: s.most(q), Masters: float64(float32(s.masters(q, e))),
			Step: resource.Vector{}.WithMemory(mebibyte).WithCPU(core),
		}
		if q.Parent == "" {
			d.Least, d.Most = s.Totals[""], s.Totals[""]
		}
		d.Weight, d.LeastWeight = s.weight(q, e, common, scale, crowded)
		q.Division = d
	}
}

// scale is the ratio of a steady share to a present share, from the queue with the largest present
// share that shows both; 0 if there is none.
func (s *Scheduler) scale(queues []providers.Queue, list []int) (scale float64) {
	most := int64(0)
	for _, i := range list {
		q, e := &queues[i], &s.Entries[i]
		if n := s.steady(q, e); n > 0 && s.tells(q, e.FairShare) && e.FairShare.Memory() > most {
			most = e.FairShare.Memory()
			scale = float64(n) / float64(most/mebibyte)
		}
	}
	return scale
}

// crowded reports whether the minimums of some queues may use up the shares of the others.
func (s *Scheduler) crowded(queues []providers.Queue, list []int) bool {
	least := false
	for _, i := range list {
		q, e := &queues[i], &s.Entries[i]
		if share := e.SteadyShare.Memory(); share/mebibyte >= exactShare && share > q.Guaranteed.Memory() {
			return false
		}
		least = least || q.Guaranteed.Memory() > 0
	}
	return least
}

// tells reports whether a share shows the weight of the queue: it is neither the minimum nor the
// maximum.
func (s *Scheduler) tells(q *providers.Queue, share *resource.Vector) bool {
	return share != nil && share.Memory() > q.Guaranteed.Memory() && share.Memory() < s.most(q).Memory()
}

// weight returns the largest and smallest possible weight of a queue, in MiB of its steady share.
// common is the weight of all queues that show it. If crowded, a share of zero does not mean a
// weight of zero.
func (s *Scheduler) weight(q *providers.Queue, e *Entry, common int64, scale float64, crowded bool) (most, least int64) {
	steady := e.SteadyShare.Memory() / mebibyte
	switch {
	case steady == 0 && e.FairShare != nil && e.FairShare.Memory() == 0 && (e.active() || !crowded):
		return 0, 0
	case steady == 0:
		return 1, 0
	case s.tells(q, e.SteadyShare):
		if common > 0 {
			return common, common
		}
		return steady + 1, steady
	case scale > 0 && s.tells(q, e.FairShare):
		n := int64(math.Round(float64(e.FairShare.Memory()/mebibyte) * scale))
		if common > 0 && common-1 <= n && n <= common+1 {
			return common, common
		}
		return n + 1 + n/exactShare, max(0, n-1-n/exactShare)
	case e.SteadyShare.Memory() >= s.most(q).Memory():
		if q.Guaranteed.Memory() >= e.SteadyShare.Memory() {
			return mostWeight, 0 // the minimum equals the maximum: any weight
		}
		return mostWeight, steady // this weight or more
	}
	return steady + 1, 0 // this weight or less
}

// mostWeight is above every real weight: a queue with it reaches its maximum first.
const mostWeight = 1 << 50

// childDivision describes a child queue that does not exist yet. YARN gives it the weight 1 and no
// minimum. It counts with its siblings' weight if they all have the same one. Otherwise its Weight
// is their largest one and its LeastWeight their smallest.
func (s *Scheduler) childDivision(queues []providers.Queue, list []int, above *providers.Queue, divided []string) *providers.Division {
	d := &providers.Division{
		Divided: divided, Most: s.most(above), Masters: float64(float32(s.amShare())),
		Step: resource.Vector{}.WithMemory(mebibyte).WithCPU(core),
	}
	least := int64(mostWeight)
	for _, i := range list {
		of := queues[i].Division
		d.Weight = max(d.Weight, of.LeastWeight)
		if of.LeastWeight > 0 {
			least = min(least, of.LeastWeight)
		}
	}
	d.Weight = max(1, d.Weight)
	d.LeastWeight = min(least, d.Weight)
	return d
}

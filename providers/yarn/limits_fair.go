package yarn

import (
	"math"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// The FairScheduler divides what a queue has among the queues below it that are active: in which
// an application runs or may run. It does so by weight, but gives each no less than its minimum
// and no more than its maximum. A policy of the queue above says whether memory alone is
// divided, or cores as well. Masters may have a part of this share. Of what is not divided, or
// if a queue has no share yet, it is a part of what is free in the cluster, and no more than of
// the maximum.
//
// Answers tell the share, but no weights. What they tell of all queues as if all were active
// gives the weights: such a share is in proportion to the weight, unless the minimum or the
// maximum is it.

// amShare is the FairScheduler's maxAMShare; negative: masters are not limited.
func (s *Scheduler) amShare() float64 {
	if s.Assume.AMShare == 0 {
		return defaultAMShare
	}
	return s.Assume.AMShare
}

// masters is the part of its share that masters may have in a queue of the FairScheduler; 0:
// they are not limited, or that is not known. No answer tells it. If the limit of when a master
// was last to start cannot be that part of any share of the queue, it is another part.
func (s *Scheduler) masters(q *providers.Queue, e *Entry) float64 {
	part := s.amShare()
	switch {
	case part < 0 || e.AMLimit == nil || e.LeavesOnly:
		return 0
	case e.AMLimit.IsZero():
		if e.AMUsed != nil && !e.AMUsed.IsZero() {
			return 0 // masters run, and none was ever compared with a limit: there is none
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

// part is a part of something, in whole units, rounded up as YARN does it.
func (s *Scheduler) part(part float64, of, unit int64) int64 {
	return int64(math.Ceil(float64(max(0, of)/unit)*float64(float32(part)))) * unit
}

// most is the maximum of a queue, and no more than there is.
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

// fairAMLimit is what masters may have in a queue of the FairScheduler by its present share;
// nil: it is not known, or they are not limited. Used is what all queues use. Estimated are the
// dimensions in which YARN did not use this limit when a master was last to start, or may use
// another one next.
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

// amDimension is the dimension of masters for each one that a container has.
var amDimension = map[string]string{resource.Memory: resource.AMMemory, resource.CPU: resource.AMCPU}

// dominantPolicy is the word for what divides cores, too; others divide memory alone.
const dominantPolicy = "DRF"

// dividedBy are the dimensions that a policy divides.
func dividedBy(policy string) []string {
	if strings.EqualFold(policy, dominantPolicy) {
		return containerDimensions[:]
	}
	return containerDimensions[:1:1]
}

// divide says of each queue of the FairScheduler how it takes part in the division of the one
// above, if the answer has the shares.
func (s *Scheduler) divide(queues []providers.Queue) {
	below, policies := make(map[string][]int), map[string]string{"": dominantPolicy} // above the root
	for i := range queues {
		if s.Entries[i].SteadyShare == nil || s.Entries[i].AMLimit == nil {
			return // it is not known what masters have
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

// steady is the share of a queue that its weight gives, in MiB; 0: it does not tell the weight.
func (s *Scheduler) steady(q *providers.Queue, e *Entry) int64 {
	if !s.tells(q, e.SteadyShare) {
		return 0
	}
	return e.SteadyShare.Memory() / mebibyte
}

// exactShare is from how many MiB on two shares that differ by up to one, which is what YARN
// rounds, are taken to be of the same weight.
const exactShare = 1024

// commonWeight is the weight that all queues of a list have which tell it; 0: they have not all
// the same, or none tells it, or shares are too small to say it.
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

// divideAmong says it of the queues below one.
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

// scale is what a MiB of a present share is in one of all queues, by a queue that tells both; 0:
// none does.
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

// crowded reports whether the minimums of queues may leave nothing to the others.
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

// tells reports whether a share is what the weight of the queue gives, so that it tells the
// weight: it is neither the minimum nor the maximum.
func (s *Scheduler) tells(q *providers.Queue, share *resource.Vector) bool {
	return share != nil && share.Memory() > q.Guaranteed.Memory() && share.Memory() < s.most(q).Memory()
}

// weight is the weight of a queue, at most and at least: in MiB of the share that it has if all
// queues are active. The common weight is that of all queues which tell it.
// If the minimums leave nothing to others, no share is not no weight.
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
			return mostWeight, 0 // the maximum is the minimum: it may be any
		}
		return mostWeight, steady // it is this or more
	}
	return steady + 1, 0 // it is this or less
}

// mostWeight is more than any that a queue has: who has it gets its maximum first.
const mostWeight = 1 << 50

// childDivision is that of a queue that is not there yet. In YARN it has the weight 1, and no
// minimum. Those beside it are taken to have the same, if these are all alike; else the largest
// weight counts for them and the least for itself.
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

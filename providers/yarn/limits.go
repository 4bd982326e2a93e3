package yarn

import (
	"math"
	"slices"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// A queue with free room may still start nothing, because YARN also limits applications:
//
//   - Their number. The CapacityScheduler refuses an application above maxApplications, and above
//     one user's maxApplicationsPerUser. It lets applications above maxParallelApps wait, as the
//     FairScheduler does above maxRunningApps. This package counts waiting applications like
//     running ones: YARN starts them before a later one.
//   - The total of their masters (AMs). The CapacityScheduler starts an application if its master
//     fits under the limits of the queue and of the user, next to the running masters, or if no
//     master runs in the queue. A user's limit is the smaller of the queue's limit and guaranteed ·
//     AM percent · min(1, weight · max(user percent, 1/active)) · factor (the user counts as
//     active), rounded up; without a factor guaranteed · AM percent.
//   - One user's use: guaranteed · factor, rounded down, and then up to a whole container. YARN
//     gives one more container to a user who is not above that; this package does not count on it.
//
// YARN rounds the last two up to a multiple of the smallest container. No answer contains its size,
// so it is a setting; without the setting nothing is rounded up.

// Calculator is YARN's way to compare resources.
type Calculator string

// The calculators. The CapacityScheduler's default one compares only memory.
const (
	CalculatorDefault  Calculator = "default"
	CalculatorDominant Calculator = "dominant"
)

// Assumptions holds configuration that an answer does not contain. The zero value assumes nothing.
type Assumptions struct {
	// Calculator is the configured calculator; empty: derive it from the answer if possible.
	Calculator Calculator
	// Container is the smallest container. An absent dimension is one MiB or one core.
	Container resource.Vector
	// AMShare is the FairScheduler's maxAMShare, for answers that do not show its effect. Zero:
	// 0.5, YARN's default; negative: masters are not limited.
	AMShare float64
	// GrowsTo is the maximum size of the default partition, in memory and cpu. An absent dimension
	// does not grow.
	GrowsTo resource.Vector
	// Undeclared adds parent queues that create children on first use to those in the answer.
	Undeclared Undeclared
}

// Undeclared selects parent queues below which YARN creates queues on first use. The zero value
// selects none.
type Undeclared struct {
	// Fair: all parents of a FairScheduler, which is its default.
	Fair bool
	// Parents selects parents by full path, together with the queues below them.
	Parents []string
}

// below reports whether YARN creates queues below this parent on first use.
func (u *Undeclared) below(path string, by SchedulerKind) bool {
	return u.Fair && by == FairScheduler || slices.ContainsFunc(u.Parents, func(parent string) bool {
		return path == parent || strings.HasPrefix(path, parent+".")
	})
}

// parentsIn returns the selected parents below a queue; nil if there are none.
func (u *Undeclared) parentsIn(path string) (list []string) {
	for _, parent := range u.Parents {
		if strings.HasPrefix(parent, path+".") {
			list = append(list, parent)
		}
	}
	return list
}

// containerDimensions are the dimensions of containers, in which YARN rounds shares.
var containerDimensions = [...]string{resource.Memory, resource.CPU}

// defaultAMShare is the FairScheduler's queueMaxAMShareDefault.
const defaultAMShare = 0.5

// limitApplications adds the limits on applications, masters and users to queues.
func (s *Scheduler) limitApplications(queues []providers.Queue) {
	by := s.calculator(queues)
	left := leftTo(queues)
	var used resource.Vector
	for i := range queues {
		if queues[i].Parent == "" && queues[i].Partition == "" {
			used = queues[i].Used
		}
	}
	for i := range queues {
		q, e := &queues[i], &s.Entries[i]
		if most := s.mostApplications(e); most != nil && q.Applications != nil {
			q.Limit = q.Limit.With(resource.Applications, int64(*most))
			q.Used = q.Used.With(resource.Applications, int64(*q.Applications))
		}
		if e.LeavesOnly {
			continue
		}
		q.LargestContainer = largestContainer(e)
		switch s.Kind {
		case CapacityScheduler:
			q.FirstIsFree, q.UserPercent = true, e.softUserLimit()
			// The default calculator sets one core for any amount of memory.
			oneCore := by == "" && e.AMLimit != nil && e.AMLimit.CPU() == core
			byMemory := oneCore || by == CalculatorDefault
			limit, estimated := s.capacityAMLimit(q, e, left, by)
			q.Limit, q.Used = withMasters(q.Limit, limit, byMemory), withMasters(q.Used, e.AMUsed, false)
			if estimated {
				q.Estimated = []string{resource.AMMemory}
			}
			s.limitUsers(q, e, by, byMemory)
		case FairScheduler:
			limit, estimated := s.fairAMLimit(q, e, used)
			q.Limit, q.Used, q.Estimated = withMasters(q.Limit, limit, false), withMasters(q.Used, e.AMUsed, false), estimated
		case FifoScheduler:
		}
	}
	if s.Kind == FairScheduler {
		s.divide(queues)
	}
	if by == CalculatorDefault {
		for i := range queues {
			q := &queues[i]
			q.NotEnforced = []string{resource.CPU}
			q.Limit, q.UserLimit = q.Limit.Without(resource.CPU), q.UserLimit.Without(resource.CPU)
			for j := range q.Users {
				q.Users[j].Limit = q.Users[j].Limit.Without(resource.CPU)
			}
		}
	}
}

// largestContainer returns the maximum of one container, as far as it is known: an answer contains
// 0 if nothing is configured.
func largestContainer(e *Entry) (largest resource.Vector) {
	if e.LargestContainer == nil {
		return largest
	}
	for _, dimension := range containerDimensions {
		if n, told := e.LargestContainer.Get(dimension); told && n > 0 {
			largest = largest.With(dimension, n)
		}
	}
	return largest
}

// softUserLimit returns the guaranteed share of each user among several, in percent; nil: the whole
// queue, or unknown.
func (e *Entry) softUserLimit() *float64 {
	if e.UserPercent == nil || *e.UserPercent <= 0 || *e.UserPercent >= 100 {
		return nil
	}
	return e.UserPercent
}

// mostApplications returns the maximum number of applications in the queue; nil: unlimited.
func (s *Scheduler) mostApplications(e *Entry) *int32 {
	most := counted(e.MaxApplications)
	if e.AutoCreated {
		most = nil // YARN ignores it there
	}
	if parallel := counted(e.ParallelApplications); parallel != nil && (most == nil || *parallel < *most) {
		most = parallel
	}
	return most
}

// withMasters adds the resources of masters to a limit or to a use.
func withMasters(v resource.Vector, am *resource.Vector, memoryOnly bool) resource.Vector {
	if am == nil {
		return v
	}
	if am.Has(resource.Memory) {
		v = v.With(resource.AMMemory, am.Memory())
	}
	if am.Has(resource.CPU) && !memoryOnly {
		v = v.With(resource.AMCPU, am.CPU())
	}
	return v
}

// limitUsers adds the limits for users in a queue of the CapacityScheduler.
func (s *Scheduler) limitUsers(q *providers.Queue, e *Entry, by Calculator, byMemory bool) {
	active := 0
	for i := range e.Users {
		if e.Users[i].Active {
			active++
		}
	}
	for i := range e.Users {
		from := &e.Users[i]
		among := active
		if !from.Active {
			among++
		}
		weight := 1.0
		if from.Weight != nil {
			weight = *from.Weight
		}
		am := s.userAMLimit(q, e, by, weight, among)
		if from.AMLimit != nil && from.AMLimit.Memory() > 0 {
			am = from.AMLimit // already computed and rounded by YARN
		}
		u := providers.User{Name: from.Name, Limit: s.userLimit(q, e, am, byMemory)}
		if from.Used != nil {
			u.Used = *from.Used
		}
		u.Used = withMasters(u.Used, from.AMUsed, false)
		if from.Applications != nil {
			u.Used = u.Used.With(resource.Applications, int64(*from.Applications))
		}
		q.Users = append(q.Users, u)
	}
	q.UserLimit = s.userLimit(q, e, s.userAMLimit(q, e, by, 1, active+1), byMemory)
}

// userLimit returns a user's limit in a queue. am is the limit for masters; byMemory: only its
// memory counts.
func (s *Scheduler) userLimit(q *providers.Queue, e *Entry, am *resource.Vector, byMemory bool) resource.Vector {
	var limit resource.Vector
	if e.UserFactor != nil {
		limit = userCap(q.Guaranteed, q.Limit, *e.UserFactor, s.Assume.Container)
	}
	limit = withMasters(limit, am, byMemory)
	if most := counted(e.ApplicationsPerUser); most != nil && !e.AutoCreated {
		limit = limit.With(resource.Applications, int64(*most))
	}
	return limit
}

// userCap returns one user's maximum in memory and cpu: the queue's guarantee, or the smallest
// container if that is larger, times the factor. -1: the queue's maximum.
func userCap(guaranteed, most resource.Vector, factor float64, container resource.Vector) resource.Vector {
	var limit resource.Vector
	for _, dimension := range containerDimensions {
		if factor < 0 {
			if n, limited := most.Get(dimension); limited {
				limit = limit.With(dimension, n)
			}
			continue
		}
		promised, _ := guaranteed.Get(dimension)
		step, _ := container.Get(dimension)
		unit := unitOf(dimension)
		whole := math.Floor(float64(max(promised, step)/unit) * float64(float32(factor)))
		limit = limit.With(dimension, upTo(whole, unit, step))
	}
	return limit
}

// userAMLimit returns the limit for the masters of one user; nil: unknown.
func (s *Scheduler) userAMLimit(q *providers.Queue, e *Entry, by Calculator, weight float64, active int) *resource.Vector {
	switch {
	case e.UserAMLimit != nil && e.AMPercent == nil:
		return e.UserAMLimit
	case e.AMPercent == nil || e.UserFactor == nil || e.UserPercent == nil:
		return nil
	}
	share := *e.AMPercent / 100
	if factor := *e.UserFactor; factor >= 0 {
		share *= userShare(*e.UserPercent, weight, active) * factor
	}
	limit := portion(share, q.Guaranteed, s.Assume.Container, by)
	if e.AMLimit != nil {
		for _, dimension := range containerDimensions {
			if most, limited := e.AMLimit.Get(dimension); limited {
				n, _ := limit.Get(dimension)
				limit = limit.With(dimension, min(n, most))
			}
		}
	}
	return &limit
}

// userShare returns a user's guaranteed share of a queue, from 0 to 1.
func userShare(percent, weight float64, active int) float64 {
	return min(1, weight*max(percent/100, 1/float64(max(active, 1))))
}

// portion returns a share of memory and cpu in whole containers. The dominant calculator rounds up.
// The default one rounds to the nearest MiB first: just above a whole container, its result is one
// container less. An unknown calculator counts as the default one.
func portion(share float64, of, container resource.Vector, by Calculator) resource.Vector {
	var v resource.Vector
	for _, dimension := range containerDimensions {
		total, _ := of.Get(dimension)
		step, _ := container.Get(dimension)
		unit := unitOf(dimension)
		exact := float64(total/unit) * share * (1 - lost)
		whole := math.Floor(exact + 0.5)
		if by == CalculatorDominant {
			whole = math.Ceil(exact)
		}
		v = v.With(dimension, upTo(whole, unit, step))
	}
	return v
}

// lost is the largest relative error of a share in YARN's 32-bit numbers: a tenth of ten is
// 1.0000000149 there.
const lost = 2.5e-7

// upTo converts units to base units, rounds up to a multiple of step, and caps at
// resource.MaxQuantity.
func upTo(units float64, unit, step int64) int64 {
	n := int64(min(units, float64(resource.MaxQuantity/unit))) * unit
	if step > 0 && n%step != 0 {
		n += step - n%step
	}
	return min(n, resource.MaxQuantity)
}

func unitOf(dimension string) int64 {
	if dimension == resource.CPU {
		return core
	}
	return mebibyte
}

// calculator returns the CapacityScheduler's calculator, as configured or proved by the answer;
// empty: unknown. Two cores used by one container prove the dominant one. More than one core as a
// limit for masters proves it, too: the default one sets one core for any amount of memory. One
// core there proves the default one if the share would be more.
func (s *Scheduler) calculator(queues []providers.Queue) Calculator {
	switch {
	case s.Kind != CapacityScheduler:
		return ""
	case s.Assume.Calculator != "":
		return s.Assume.Calculator
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.Containers != nil && e.Used != nil && e.Partition == "" && e.Used.CPU() > int64(*e.Containers)*core {
			return CalculatorDominant
		}
		if e.AMLimit != nil && e.AMLimit.CPU() > core {
			return CalculatorDominant
		}
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.AMPercent == nil || e.AMLimit == nil || e.AMLimit.CPU() != core {
			continue
		}
		if cores := float64(queues[i].Guaranteed.CPU() / core); cores**e.AMPercent/100 >= 2 {
			return CalculatorDefault
		}
	}
	return ""
}

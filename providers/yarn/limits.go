package yarn

import (
	"math"
	"slices"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// A queue that has room may still start nothing. What else limits applications in it:
//
//   - How many there are. The CapacityScheduler refuses one above maxApplications, and above
//     maxApplicationsPerUser of one user. Those above maxParallelApps wait, and those above the
//     FairScheduler's maxRunningApps. Here those that wait count like those that run: they are
//     started before a later one.
//   - What their masters (AMs) have together. The CapacityScheduler starts an application if its
//     master fits under the limit with those that run, in the queue and of its user, or if no
//     master runs in the queue. A user's limit is that of the queue, or if it is less
//     guaranteed · AM percent · min(1, weight · max(user percent, 1/active)) · factor
//     with the user among the active ones, rounded up; without a factor guaranteed · AM percent.
//   - What one user has: guaranteed · factor, rounded down, and then up to a whole container. YARN
//     gives one more container to who is not above that; it is not granted here.
//
// The last two are rounded up to a multiple of the smallest container, which no answer tells: it is
// a setting, and without it nothing is rounded up.

// Calculator is what YARN compares resources by.
type Calculator string

// The calculators. The default one of the CapacityScheduler looks at memory alone.
const (
	CalculatorDefault  Calculator = "default"
	CalculatorDominant Calculator = "dominant"
)

// Assumptions are what an answer does not say. The zero value assumes nothing.
type Assumptions struct {
	// Calculator is what is configured; empty: it follows from the answer, as far as it can.
	Calculator Calculator
	// Container is the smallest container. What is not set is one MiB, or one core.
	Container resource.Vector
	// AMShare is the FairScheduler's maxAMShare where the answer does not tell what it amounts to;
	// zero: 0.5, as is YARN's default; negative: masters are not limited.
	AMShare float64
	// GrowsTo is how large the default partition may become, in memory and cpu. What is not set
	// does not grow.
	GrowsTo resource.Vector
	// Undeclared is where queues are made by using them, next to where the answer says so.
	Undeclared Undeclared
}

// Undeclared says below which parent queues others are made by using them. The zero value: below
// none.
type Undeclared struct {
	// Fair: below any, if the FairScheduler answers. It does so unless it is configured otherwise.
	Fair bool
	// Parents are the full paths of those that do so, and those below them.
	Parents []string
}

// below reports whether a queue below this parent is made by using it.
func (u *Undeclared) below(path string, by SchedulerKind) bool {
	return u.Fair && by == FairScheduler || slices.ContainsFunc(u.Parents, func(parent string) bool {
		return path == parent || strings.HasPrefix(path, parent+".")
	})
}

// parentsIn are those of the parents that are below a queue; nil: none.
func (u *Undeclared) parentsIn(path string) (list []string) {
	for _, parent := range u.Parents {
		if strings.HasPrefix(parent, path+".") {
			list = append(list, parent)
		}
	}
	return list
}

// containerDimensions are those that containers have, and that shares are rounded in.
var containerDimensions = [...]string{resource.Memory, resource.CPU}

// defaultAMShare is the FairScheduler's queueMaxAMShareDefault.
const defaultAMShare = 0.5

// limitApplications adds to queues what else is limited there.
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

// largestContainer is the most that one container may have, as far as it is known: an answer says
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

// softUserLimit is the share of the queue that each of several users is sure of, in percent; nil:
// it is all of it, or not known.
func (e *Entry) softUserLimit() *float64 {
	if e.UserPercent == nil || *e.UserPercent <= 0 || *e.UserPercent >= 100 {
		return nil
	}
	return e.UserPercent
}

// mostApplications is how many applications the queue may have at the same time; nil: any number.
func (s *Scheduler) mostApplications(e *Entry) *int32 {
	most := counted(e.MaxApplications)
	if e.AutoCreated {
		most = nil // YARN does not look at it there
	}
	if parallel := counted(e.ParallelApplications); parallel != nil && (most == nil || *parallel < *most) {
		most = parallel
	}
	return most
}

// withMasters adds what masters may have, or have.
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

// limitUsers adds what the CapacityScheduler's queue limits for users.
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
			am = from.AMLimit // as YARN computed it, and rounded
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

// userLimit is the most that a user may have of a queue, with this limit for masters, or for their
// memory alone.
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

// userCap is the most that one user may have, in memory and cpu: what the queue is promised, or the
// smallest container if that is more, times the factor; -1: all that the queue may have.
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

// userAMLimit is what the masters of one user may have; nil: that is not known.
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

// userShare is the share of a queue that a user is sure of, of one.
func userShare(percent, weight float64, active int) float64 {
	return min(1, weight*max(percent/100, 1/float64(max(active, 1))))
}

// portion is a share of memory and cpu in whole containers. The dominant calculator rounds up. The
// default one rounds to the nearest MiB first: just above a whole container, that is one container
// less. It is that as long as the calculator is not known.
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

// lost is what a share may gain, relatively, on its way through numbers of 32 bits in YARN: a tenth
// of ten is 1.0000000149 there.
const lost = 2.5e-7

// upTo is so many units in base units, rounded up to a multiple of a step, and countable.
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

// calculator is what the CapacityScheduler compares resources by, as far as it is configured or
// proven; empty: it is not known. Two cores used by one container prove the dominant one. So does
// more than one core as the limit for the masters of a queue: the default one sets one core for any
// amount of memory. One core there proves the default one if the share would be more.
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

package ledger

import (
	"math"

	"github.com/bursar/bursar/resource"
)

// unlimited is what an account may give of a dimension that it does not list: so much more than
// all live allocations together have (see mostTogether) that it is never used up.
const unlimited = math.MaxInt64 / 2

// account is one thing that limits. available = limit - protected - used - reserved - others, per
// dimension. The fields that every decision reads come first, in few cache lines: in a large
// fleet, fetching an account costs more than everything that is done with it.
type account struct {
	// most is limit less protected in memory, cpu and instances, or unlimited if the limit does
	// not list it.
	most [3]int64

	sums
	others resource.Vector // in an external queue: what is used and is not ours

	claim *claim // it is held for one request; nil: it is not
	held  int    // live allocations that count in it
	// complete says that the account has no custom countable that the limit does not list, but for
	// those of applications. If it is false, such a countable is not limited.
	complete bool
	// exceeded says that more may be used than the limit allows, because the limit shrank or
	// engines were adopted.
	exceeded bool
	queue    queue // requests that wait behind it

	name      AccountName
	limit     resource.Vector
	protected resource.Vector
	key       string // of a quota: within its scope
	rule      *rule  // of a quota
	// external is of a quota whose rule limits external parts; its accounts for these have it, too.
	external *externalAccounts
	grants   grants
	rests    Instant // until then it is not held again
	wanted   uint64  // the last visit of the starved in which a request could not get it yet
	sets     int     // that charge it
}

// setLimit changes what the account may give.
func (a *account) setLimit(limit, protected resource.Vector) {
	a.limit, a.protected = limit, protected
	for i, dimension := range [...]string{resource.Memory, resource.CPU, resource.Instances} {
		most, limited := limit.Get(dimension)
		if !limited {
			a.most[i] = unlimited
			continue
		}
		kept, _ := protected.Get(dimension)
		a.most[i] = max(0, most-kept)
	}
	a.exceeded = a.overLimit()
}

// available is what is left of the dimension; below zero if more is used than the limit allows.
func (a *account) available(dimension string) int64 {
	switch dimension {
	case resource.Memory:
		return a.most[0] - a.used.Memory() - a.reserved.Memory() - a.others.Memory()
	case resource.CPU:
		return a.most[1] - a.used.CPU() - a.reserved.CPU() - a.others.CPU()
	case resource.Instances:
		return a.most[2] - a.used.Instances() - a.reserved.Instances() - a.others.Instances()
	}
	return a.mostOf(dimension) - a.used.Get(dimension) - a.reserved.Get(dimension) - get(a.others, dimension)
}

// mostOf is what the account could give of the dimension if nothing were used. A host or a queue
// that does not list a custom countable has none; a quota that does not list it does not limit it.
// Nor does a cluster queue limit what it does not list of applications.
func (a *account) mostOf(dimension string) int64 {
	switch dimension {
	case resource.Memory:
		return a.most[0]
	case resource.CPU:
		return a.most[1]
	case resource.Instances:
		return a.most[2]
	}
	limit, limited := a.limit.Get(dimension)
	if !limited {
		if a.complete && (a.queue.clusterQueue == nil || !resource.OfApplications(dimension)) {
			return 0
		}
		return unlimited
	}
	return max(0, limit-get(a.protected, dimension))
}

func get(v resource.Vector, dimension string) int64 {
	quantity, _ := v.Get(dimension)
	return quantity
}

// fits reports whether every dimension that the request asks for is there.
func (a *account) fits(request resource.Vector) bool {
	if m := request.Memory(); m != 0 && m > a.most[0]-a.used.Memory()-a.reserved.Memory()-a.others.Memory() {
		return false
	}
	if c := request.CPU(); c != 0 && c > a.most[1]-a.used.CPU()-a.reserved.CPU()-a.others.CPU() {
		return false
	}
	if n := request.Instances(); n != 0 && n > a.most[2]-a.used.Instances()-a.reserved.Instances()-a.others.Instances() {
		return false
	}
	for _, q := range request.Custom() {
		if q.Value != 0 && q.Value > a.available(q.Name) {
			return false
		}
	}
	return true
}

// couldEverFit reports whether the request would fit if nothing were used.
func (a *account) couldEverFit(request resource.Vector) bool {
	for dimension, asked := range request.All() {
		if asked != 0 && asked > a.mostOf(dimension) {
			return false
		}
	}
	return true
}

// shortfalls appends what the account lacks for the request.
func (a *account) shortfalls(list []Shortfall, request resource.Vector) []Shortfall {
	for dimension, asked := range request.All() {
		available := a.available(dimension)
		if asked == 0 || asked <= available {
			continue
		}
		short := a.shortfall(dimension, asked, available, "")
		a.judgeLimit(&short)
		list = append(list, short)
	}
	return list
}

// judgeLimit says of a shortfall that the limit is less than what is asked for, if so: for good, or
// as long as the cluster is no larger.
func (a *account) judgeLimit(s *Shortfall) {
	if s.Requested <= a.mostOf(s.Dimension) || resource.OfMasters(s.Dimension) { // their limit moves with the cluster
		return
	}
	s.Note, s.Largest = NoteNever, a.mayGrowTo(s.Dimension)
	if s.Requested <= s.Largest {
		s.Note = NoteMayGrow
	}
}

func (a *account) shortfall(dimension string, asked, available int64, note Note) Shortfall {
	limit := a.mostOf(dimension)
	if limit == unlimited {
		limit = 0
	}
	return Shortfall{
		Account: a.name, Dimension: dimension, Requested: asked, Available: max(0, available), Limit: limit, Note: note,
	}
}

// closedShortfall says that the account gives nothing of what a request asks for. It names the
// first dimension that the request asks for.
func (a *account) closedShortfall(request resource.Vector, note Note) Shortfall {
	for dimension, asked := range request.All() {
		if asked != 0 {
			return a.shortfall(dimension, asked, 0, note)
		}
	}
	return a.shortfall(resource.Instances, 0, 0, note) // it asks for nothing, and gets nothing
}

// overLimit reports whether more is used than the limit allows.
func (a *account) overLimit() bool {
	for dimension := range a.limit.All() {
		if a.available(dimension) < 0 {
			return true
		}
	}
	return false
}

// shown is what is used and reserved, each with every dimension that the other has or the limit
// lists, also those that are zero: so that what readers get does not depend on what was there
// before.
func (a *account) shown() (used, reserved resource.Vector) {
	used, reserved = a.used.Vector(), a.reserved.Vector()
	return withZeros(used, a.limit, reserved), withZeros(reserved, a.limit, used)
}

func withZeros(v resource.Vector, others ...resource.Vector) resource.Vector {
	for _, other := range others {
		for dimension := range other.All() {
			if !v.Has(dimension) {
				v = v.With(dimension, 0)
			}
		}
	}
	return v
}

// sums are what allocations hold.
type sums struct {
	used     resource.Sum // of active allocations
	reserved resource.Sum // of reservations
}

// in is the sum of allocations in a state.
func (s *sums) in(state State) *resource.Sum {
	if state == Active {
		return &s.used
	}
	return &s.reserved
}

// canCount reports whether a resource that is not checked against the limit can be added without
// an overflow.
func (a *account) canCount(v resource.Vector) bool {
	for dimension, quantity := range v.All() {
		if quantity < 0 || quantity > unlimited-a.used.Get(dimension)-a.reserved.Get(dimension) {
			return false
		}
	}
	return true
}

// add counts a resource. A resource that fits, or that canCount has accepted, cannot overflow. A
// ledger whose sums are wrong must not go on, so it panics.
func (a *account) add(s State, v resource.Vector) {
	if err := a.in(s).Add(v); err != nil {
		panic("ledger: " + a.name.String() + ": " + err.Error())
	}
}

// subtract gives back what add counted.
func (a *account) subtract(s State, v resource.Vector) {
	if err := a.in(s).Minus(v); err != nil {
		panic("ledger: " + a.name.String() + ": " + err.Error())
	}
	if a.exceeded {
		a.exceeded = a.overLimit()
	}
}

// replace counts another resource instead of the one that was counted. An account that was over
// its limit may stay over it.
func (a *account) replace(from, to State, before, after resource.Vector) {
	exceeded := a.exceeded
	a.subtract(from, before)
	a.add(to, after)
	a.exceeded = exceeded && a.overLimit()
}

// free is what is left in memory, cpu and instances.
func (a *account) free() [3]int64 {
	return [3]int64{a.available(resource.Memory), a.available(resource.CPU), a.available(resource.Instances)}
}

// info is the account for readers.
func (a *account) info() AccountInfo {
	q := a.queue.clusterQueue
	if q != nil {
		q.updateMasters()
	}
	used, reserved := a.shown()
	info := AccountInfo{
		Name: a.name, Limit: a.limit, Protected: a.protected, Used: used, Reserved: reserved, Others: a.others,
		Allocations: a.held, Waiting: a.queue.waiting, OverLimit: a.overLimit(),
	}
	for dimension := range a.limit.All() {
		info.Available = info.Available.With(dimension, max(0, a.available(dimension)))
	}
	if q != nil {
		q.addInfo(&info)
	}
	if a.claim != nil {
		info.HeldFor, info.HeldUntil, info.Kept = a.claim.entry.ID, a.claim.until, a.idle()
	}
	return info
}

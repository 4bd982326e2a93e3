package ledger

import (
	"math"

	"github.com/bursar/bursar/resource"
)

// unlimited is the amount of a dimension that an account's limit does not list. It exceeds all live
// allocations together so far (see mostTogether) that it is never used up.
const unlimited = math.MaxInt64 / 2

// account is one limit. available = limit - protected - used - reserved - others, per dimension.
// The fields that every decision reads come first, in few cache lines: in a large fleet, fetching
// an account costs more than computing with it.
type account struct {
	// most is limit less protected in memory, cpu and instances, or unlimited if the limit does
	// not list it.
	most [3]int64

	sums
	others resource.Vector // in an external queue: the use of others

	claim *claim // the hold for one request; nil: none
	held  int    // live allocations that count in it
	// complete says that the limit lists all custom countables of the account, except those of
	// applications. If it is false, an unlisted countable is not limited.
	complete bool
	// exceeded says that the use may exceed the limit, because the limit shrank or engines were
	// adopted.
	exceeded bool
	queue    queue // requests that wait behind it

	name      AccountName
	limit     resource.Vector
	protected resource.Vector
	key       string // of a quota: within its scope
	rule      *rule  // of a quota
	// external is set in a quota account whose rule limits external parts, and in its accounts for
	// these.
	external *externalAccounts
	grants   grants
	rests    Instant // the account is not held again before then
	wanted   uint64  // the last visit of the starved in which a request could not get it yet
	sets     int     // account sets that charge it
}

// setLimit changes the limit of the account.
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

// available returns the available amount of the dimension; below zero if the use exceeds the limit.
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

// mostOf returns the amount of the dimension that the account could give if nothing were used. If a
// host or a queue does not list a custom countable, it has none; if a quota does not list it, it is
// not limited. Nor does a cluster queue limit unlisted dimensions of applications.
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

// fits reports whether every dimension that the request asks for is available.
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

// shortfalls appends the amounts that the account lacks for the request.
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

// judgeLimit notes on a shortfall that the limit is less than the request, for good or as long as
// the cluster is no larger.
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

// closedShortfall returns the shortfall of an account that gives nothing to a request. It names the
// first dimension that the request asks for.
func (a *account) closedShortfall(request resource.Vector, note Note) Shortfall {
	for dimension, asked := range request.All() {
		if asked != 0 {
			return a.shortfall(dimension, asked, 0, note)
		}
	}
	return a.shortfall(resource.Instances, 0, 0, note) // it asks for nothing, and gets nothing
}

// overLimit reports whether the use exceeds the limit.
func (a *account) overLimit() bool {
	for dimension := range a.limit.All() {
		if a.available(dimension) < 0 {
			return true
		}
	}
	return false
}

// shown returns the used and the reserved amounts. Each has every dimension of the other and of the
// limit, also those that are zero, so that the result does not depend on earlier use.
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

// sums are the sums of allocations.
type sums struct {
	used     resource.Sum // of active allocations
	reserved resource.Sum // of reservations
}

// in returns the sum of allocations in a state.
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

// subtract reverses add.
func (a *account) subtract(s State, v resource.Vector) {
	if err := a.in(s).Minus(v); err != nil {
		panic("ledger: " + a.name.String() + ": " + err.Error())
	}
	if a.exceeded {
		a.exceeded = a.overLimit()
	}
}

// replace counts a resource instead of the one that was counted. An account that was over its limit
// may stay over it.
func (a *account) replace(from, to State, before, after resource.Vector) {
	exceeded := a.exceeded
	a.subtract(from, before)
	a.add(to, after)
	a.exceeded = exceeded && a.overLimit()
}

// free returns the available memory, cpu and instances.
func (a *account) free() [3]int64 {
	return [3]int64{a.available(resource.Memory), a.available(resource.CPU), a.available(resource.Instances)}
}

// info returns the account for readers.
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

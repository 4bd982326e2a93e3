package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Limits of external parts
//
// A rule may limit what its accounts have in the queues of clusters. Each entry of its External
// makes an account of its own next to each account of the rule: with a queue of requests that wait
// behind it, a claim, and what shares have there. What an allocation asks of it is the sum of its
// parts that the entry covers: see resource.Address.Covers. If several entries of a rule cover a
// part, it counts in each of their accounts, and has to fit into all of them.
//
// Which entries cover a part depends on its address alone. So the allocations of one account set
// whose parts have the same addresses are one part set, which knows the accounts, and what its
// allocations hold at each address. With other rules that counts elsewhere at once, as that of the
// account set does.

// checkExternal checks the limits and the guarantees of external parts. The error is a *FieldError.
func (q *Quota) checkExternal() error {
	if err := resource.ValidateLimits(q.External); err != nil {
		return outOfRange(q.Selector.Text()+": limit", err)
	}
	if err := resource.ValidateGuarantees(q.GuaranteedExternal, q.External); err != nil {
		return outOfRange(q.Selector.Text()+": guaranteed", err)
	}
	return nil
}

// externalAccounts are the accounts for external parts of a quota account: one for each entry of
// the rule's External, in that order.
type externalAccounts struct {
	quota *account
	list  []*account
}

// externals are the accounts for external parts of a quota account.
func (a *account) externals() []*account {
	if a.external == nil {
		return nil
	}
	return a.external.list
}

// abroad returns the quota account that this one, which is for external parts, is next to; nil if
// it is another account.
func (a *account) abroad() *account {
	if a.name.External == nil {
		return nil
	}
	return a.external.quota
}

// addExternal makes the accounts for external parts of a quota account.
func (s *scope) addExternal(quota *account) {
	if len(quota.rule.External) == 0 {
		return
	}
	quota.external = &externalAccounts{quota: quota}
	for i := range quota.rule.External {
		at := &quota.rule.External[i].Address
		key := appendText(appendText(appendText([]byte(quota.key), at.Kind), at.Cluster), at.Path)
		a := &account{name: quota.name, key: string(key), rule: quota.rule, external: quota.external}
		a.name.External = at
		a.queue.account = a
		a.rests = s.rests[a.key]
		quota.external.list = append(quota.external.list, a)
		a.setLimit(a.ruleLimit(), resource.Vector{})
		s.order.Set(a.key, a)
	}
}

// ruleLimit is what the rule of a quota account says of its limit.
func (a *account) ruleLimit() resource.Vector {
	if a.name.External == nil {
		return a.rule.Limit
	}
	return a.rule.External[slices.Index(a.external.list, a)].Vector
}

// findExceeded finds out which accounts have more than they may.
func (s *scope) findExceeded() {
	s.order.Scan(func(_ string, a *account) bool {
		a.exceeded = a.overLimit()
		return true
	})
}

// partSet is the allocations of an account set whose external parts have the same addresses.
type partSet struct {
	text  string // of the addresses
	parts []heldPart
	live  int // allocations that share it
	held  int // of those, the ones that hold something
	// limits are those in which some of the parts count.
	limits []partLimit
}

// heldPart is what allocations hold at one address.
type heldPart struct {
	address resource.Address
	sums
}

// partLimit is an external limit, and which parts count there.
type partLimit struct {
	account *account
	counts  [resource.MaxExternal]bool // by the index of the part
	use     *shareUse
}

// joinPartSet gives an entry with external parts its part set in its account set.
func (l *Ledger) joinPartSet(e *entry) {
	l.scratch = l.scratch[:0]
	for i := range e.Entitled.External {
		at := &e.Entitled.External[i].Address
		l.scratch = appendText(appendText(appendText(appendText(l.scratch, at.Kind), at.Cluster), at.Path), at.Partition)
	}
	set := e.partSets[string(l.scratch)]
	if set == nil {
		set = &partSet{text: string(l.scratch), parts: make([]heldPart, len(e.Entitled.External))}
		for i := range set.parts {
			set.parts[i].address = e.Entitled.External[i].Address
		}
		set.charge(e.accountSet)
		if e.partSets == nil {
			e.partSets = make(map[string]*partSet)
		}
		e.partSets[set.text] = set
	}
	set.live++
	e.external.set = set
}

// leave takes an allocation, which holds nothing there, out of a part set of an account set.
func (set *partSet) leave(of *accountSet) {
	if set.live--; set.live > 0 {
		return
	}
	delete(of.partSets, set.text)
	for i := range set.limits {
		of.share.dropUse(set.limits[i].use)
	}
}

// movePartSet moves an entry with external parts, whose account set is another one now, to the part
// set there. The accounts and the share are the same, so that nothing counts elsewhere.
func (l *Ledger) movePartSet(e *entry, from *accountSet) {
	if e.external == nil {
		return
	}
	before := e.external.set
	l.joinPartSet(e)
	if e.State.Holds() {
		before.count(e.State, e.Entitled.External, -1)
		e.external.set.count(e.State, e.Entitled.External, 1)
	}
	before.leave(from)
}

// charge finds the limits in which the parts count, by the accounts of the account set.
func (set *partSet) charge(of *accountSet) {
	set.limits = nil
	for _, quota := range of.accounts {
		for _, a := range quota.externals() {
			limit, some := partLimit{account: a}, false
			for i := range set.parts {
				limit.counts[i] = a.name.External.Covers(set.parts[i].address)
				some = some || limit.counts[i]
			}
			if some {
				limit.use = of.share.use(a)
				set.limits = append(set.limits, limit)
			}
		}
	}
}

// count counts an allocation that begins to hold something, with 1, or that holds nothing any more,
// with -1.
func (set *partSet) count(s State, parts []resource.External, by int) {
	set.held += by
	if by > 0 {
		set.add(s, parts)
	} else {
		set.subtract(s, parts)
	}
}

// add adds what an allocation has at each address to what its part set holds. It cannot overflow:
// see mostTogether.
func (set *partSet) add(s State, parts []resource.External) {
	for i := range parts {
		set.parts[i].must(set.parts[i].in(s).Add(parts[i].Vector))
	}
}

// subtract takes away what add added.
func (set *partSet) subtract(s State, parts []resource.External) {
	for i := range parts {
		set.parts[i].must(set.parts[i].in(s).Minus(parts[i].Vector))
	}
}

func (p *heldPart) must(err error) {
	if err != nil {
		panic("ledger: what allocations hold in " + p.address.String() + ": " + err.Error())
	}
}

// countAll counts what the allocations of the set hold in its limits and in the guarantees of its
// share, which are new.
func (set *partSet) countAll(s *share) {
	for i := range set.parts {
		p := &set.parts[i]
		s.countPart(p.address, p.used.Vector(), 1)
		s.countPart(p.address, p.reserved.Vector(), 1)
	}
	for i := range set.limits {
		set.limits[i].account.held += set.held
	}
	set.addToLimits()
}

// addToLimits adds the sums of the set to the accounts of its limits.
func (set *partSet) addToLimits() {
	for i := range set.limits {
		limit := &set.limits[i]
		for j := range set.parts {
			if limit.counts[j] {
				used, reserved := set.parts[j].used.Vector(), set.parts[j].reserved.Vector()
				limit.account.add(Active, used)
				limit.account.add(Reserved, reserved)
				limit.use.add(used)
				limit.use.add(reserved)
			}
		}
	}
}

// sum adds up the parts that count in a limit. Parts that Validate lets pass cannot overflow here.
func (limit *partLimit) sum(parts []resource.External) resource.Vector {
	total := resource.Vector{}
	for i := range parts {
		if !limit.counts[i] {
			continue
		}
		sum, err := total.Add(parts[i].Vector)
		if err != nil {
			panic("ledger: " + limit.account.name.String() + ": " + err.Error())
		}
		total = sum
	}
	return total
}

// growth is, for each limit, what the next parts need there beyond those before. Parts that count
// in the same limit can trade: what one part gives up, another part may take.
func (set *partSet) growth(before, next []resource.External) []resource.Vector {
	list := make([]resource.Vector, len(set.limits))
	for i := range set.limits {
		list[i] = growth(set.limits[i].sum(before), set.limits[i].sum(next))
	}
	return list
}

// limitCharges yields what an entry with external parts asks of each limit of these. It reports
// whether to go on.
func (e *entry) limitCharges(yield func(charge) bool) bool {
	x := e.external
	for i := range x.set.limits {
		limit := &x.set.limits[i]
		c := charge{account: limit.account}
		if x.growth != nil {
			c.vector = x.growth[i]
		} else {
			c.vector = limit.sum(e.Entitled.External)
		}
		if !yield(c) {
			return false
		}
	}
	return true
}

// limitCharge is what an entry asks of one limit of external parts.
func (e *entry) limitCharge(of *account) resource.Vector {
	if e.external != nil {
		for i := range e.external.set.limits {
			if limit := &e.external.set.limits[i]; limit.account == of {
				return limit.sum(e.Entitled.External)
			}
		}
	}
	return resource.Vector{}
}

// holdParts counts the external parts of an entry, which is reserved or active, in the limits of
// these.
func (e *entry) holdParts() {
	set, parts := e.external.set, e.Entitled.External
	set.count(e.State, parts, 1)
	e.share.countParts(parts, 1)
	for i := range set.limits {
		limit := &set.limits[i]
		v := limit.sum(parts)
		limit.account.add(e.State, v)
		limit.account.held++
		limit.use.add(v)
	}
}

// unholdParts gives back what holdParts counted.
func (l *Ledger) unholdParts(e *entry) {
	set, parts := e.external.set, e.Entitled.External
	set.count(e.State, parts, -1)
	e.share.countParts(parts, -1)
	for i := range set.limits {
		limit := &set.limits[i]
		v := limit.sum(parts)
		limit.account.subtract(e.State, v)
		limit.account.held--
		limit.use.subtract(v)
		l.freed(limit.account)
	}
}

// activateParts moves what an entry's parts hold from reserved to used.
func (e *entry) activateParts() {
	set, parts := e.external.set, e.Entitled.External
	set.count(Reserved, parts, -1)
	set.count(Active, parts, 1)
	for i := range set.limits {
		v := set.limits[i].sum(parts)
		set.limits[i].account.replace(Reserved, Active, v, v)
	}
}

// entitleParts counts the parts of an entry that holds something instead of those before.
func (l *Ledger) entitleParts(e *entry, before []resource.External) {
	set, parts := e.external.set, e.Entitled.External
	set.count(e.State, before, -1)
	set.count(e.State, parts, 1)
	e.share.countParts(before, -1)
	e.share.countParts(parts, 1)
	for i := range set.limits {
		limit := &set.limits[i]
		was, is := limit.sum(before), limit.sum(parts)
		limit.account.replace(e.State, e.State, was, is)
		limit.use.subtract(was)
		limit.use.add(is)
		l.freed(limit.account)
	}
}

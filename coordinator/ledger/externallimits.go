package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Limits of external parts
//
// A rule may limit the use of its accounts in the queues of clusters. Each entry of its External
// makes an account next to each account of the rule, with a queue of waiting requests, a claim, and
// the use of shares. An allocation asks it for the sum of the parts that the entry covers: see
// resource.Address.Covers. If several entries of a rule cover a part, the part counts in each of
// their accounts, and has to fit into all of them.
//
// The address of a part alone decides which entries cover it. So the allocations of one account set
// whose parts have the same addresses form one part set. It knows the accounts, and the sums of its
// allocations at each address. After a change of rules these sums count in other accounts at once,
// as that of the account set does.

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

// externals returns the accounts for external parts of a quota account.
func (a *account) externals() []*account {
	if a.external == nil {
		return nil
	}
	return a.external.list
}

// abroad returns the quota account to which this account for external parts belongs; nil if it is
// another account.
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

// ruleLimit returns the limit of a quota account by its rule.
func (a *account) ruleLimit() resource.Vector {
	if a.name.External == nil {
		return a.rule.Limit
	}
	return a.rule.External[slices.Index(a.external.list, a)].Vector
}

// findExceeded updates which accounts exceed their limits.
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
	// limits are the external limits in which some of the parts count.
	limits []partLimit
}

// heldPart is the sum of allocations at one address.
type heldPart struct {
	address resource.Address
	sums
}

// partLimit is an external limit, with the parts that count there.
type partLimit struct {
	account *account
	counts  [resource.MaxExternal]bool // by the index of the part
	use     *shareUse
}

// joinPartSet adds an entry with external parts to its part set in its account set.
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

// leave removes an allocation that holds nothing there from a part set of an account set.
func (set *partSet) leave(of *accountSet) {
	if set.live--; set.live > 0 {
		return
	}
	delete(of.partSets, set.text)
	for i := range set.limits {
		of.share.dropUse(set.limits[i].use)
	}
}

// movePartSet moves an entry with external parts to the part set in its new account set. The
// accounts and the share are the same, so no other sum changes.
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

// count adds an allocation that begins to hold resources, with 1, or subtracts one that no longer
// holds any, with -1.
func (set *partSet) count(s State, parts []resource.External, by int) {
	set.held += by
	if by > 0 {
		set.add(s, parts)
	} else {
		set.subtract(s, parts)
	}
}

// add adds an allocation's parts to the sums of its part set. It cannot overflow: see mostTogether.
func (set *partSet) add(s State, parts []resource.External) {
	for i := range parts {
		set.parts[i].must(set.parts[i].in(s).Add(parts[i].Vector))
	}
}

// subtract reverses add.
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

// countAll adds the sums of the set to its limits and to the guarantees of its share, which are
// new.
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

// sum adds up the parts that count in a limit. Parts that pass Validate cannot overflow here.
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

// growth returns, for each limit, the need of the next parts beyond the earlier parts. Parts that
// count in the same limit can trade: one part may take the amount that another gives up.
func (set *partSet) growth(before, next []resource.External) []resource.Vector {
	list := make([]resource.Vector, len(set.limits))
	for i := range set.limits {
		list[i] = growth(set.limits[i].sum(before), set.limits[i].sum(next))
	}
	return list
}

// limitCharges yields the charges of an entry with external parts to each of their limits. It
// reports whether to go on.
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

// limitCharge returns an entry's charge to one limit of external parts.
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

// holdParts adds the external parts of a reserved or active entry to their limits.
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

// unholdParts reverses holdParts.
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

// activateParts moves an entry's parts from reserved to used.
func (e *entry) activateParts() {
	set, parts := e.external.set, e.Entitled.External
	set.count(Reserved, parts, -1)
	set.count(Active, parts, 1)
	for i := range set.limits {
		v := set.limits[i].sum(parts)
		set.limits[i].account.replace(Reserved, Active, v, v)
	}
}

// entitleParts replaces the earlier parts of an entry that holds resources by its present parts.
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

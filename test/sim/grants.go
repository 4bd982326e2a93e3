package sim

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// checkHeadroom holds invariant 9 from the sample and the reports that the coordinator has taken
// in: what is promised on a host is there.
func (r *callerRecord) checkHeadroom(l *ledger.Ledger, a *ledger.Allocation, info ledger.HostInfo) {
	if a.Entitled.Memory() == 0 || info.Sample == nil || info.Sample.MemoryAvailable == nil {
		return
	}
	left := *info.Sample.MemoryAvailable - info.Sample.MemorySafety
	l.HostAllocations(a.HostID, func(other *ledger.Allocation) bool {
		left -= max(0, other.Entitled.Memory()-other.Unreclaimable)
		return true
	})
	if left < 0 {
		r.w.failf(9, "the grant of %s put host %s %d bytes below its live headroom", a.ID, a.HostID, -left)
	}
}

// checkGrants holds invariants 1 and 9 at the moment of every grant: right after it, no account
// that it touches is short.
func (r *callerRecord) checkGrants(c *coord) {
	l := c.core.Ledger()
	if l == nil || l.Revision() == c.granted || r.w.crowd != nil { // which has its own checks
		return
	}
	var fresh []ledger.Allocation
	l.Allocations(0, func(a *ledger.Allocation) bool {
		// Other changes of it are no grants.
		if a.State == ledger.Reserved && a.GrantRevision > c.granted {
			fresh = append(fresh, *a)
		}
		return true
	})
	r.checkQueueGrants(c)
	if len(fresh) > 0 {
		c.checkRules()
	}
	c.granted = l.Revision()
	for i := range fresh {
		a := &fresh[i]
		info, _ := l.Host(a.HostID)
		r.checkAccount(a, info.Account, a.Entitled.Vector)
		r.checkWished(a, &info)
		r.checkHeadroom(l, a, info)
		scopes, limits := 0, 0
		l.QuotaAccounts("", func(_ string, account ledger.AccountInfo) bool {
			abroad := account.Name.External != nil
			switch {
			case !touches(a, account):
			case !abroad:
				r.checkAccount(a, account, a.Entitled.Vector)
				c.checkLimit(account)
				scopes++
			default:
				asked, counts := partsIn(a, *account.Name.External)
				r.checkAccount(a, account, asked)
				c.checkLimit(account)
				limits += counts
			}
			return true
		})
		if want := c.rules.scopes(a.Labels); scopes != want {
			r.w.failf(1, "the grant of %s for %s counts in %d accounts of quotas, want %d", a.ID, a.Labels, scopes, want)
		}
		if want := c.rules.limitsOf(a); limits != want {
			r.w.failf(1, "the parts of the grant of %s for %s count %d times in limits of external parts, want %d", a.ID, a.Labels, limits, want)
		}
		if limits > 0 {
			r.w.tally.LimitedGrants++
		}
		if c.rules.promises(a) {
			r.w.tally.PromisedGrants++
		}
	}
}

// touches reports whether an allocation counts in a quota account, by its labels alone. Of a
// user's own rule and the rule for any user only the first one's account exists.
func touches(a *ledger.Allocation, account ledger.AccountInfo) bool {
	for _, l := range account.Name.Labels {
		if a.Labels.Value(l.Key) != l.Value {
			return false
		}
	}
	return true
}

// checkAccount holds invariant 1 in the dimensions that the grant asks for there.
func (r *callerRecord) checkAccount(a *ledger.Allocation, account ledger.AccountInfo, v resource.Vector) {
	for dimension, asked := range v.All() {
		limit, limited := account.Limit.Get(dimension)
		if !limited || asked == 0 {
			continue
		}
		used, _ := account.Used.Get(dimension)
		reserved, _ := account.Reserved.Get(dimension)
		if used+reserved > limit {
			r.w.failf(1, "the grant of %s put %s over its limit: %s used %d, reserved %d, limit %d", a.ID, account.Name, dimension, used, reserved, limit)
		}
	}
}

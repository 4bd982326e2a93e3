package ledger

import "github.com/bursar/bursar/resource"

// countedLimit is an allocation's part of a limit of external parts when it was counted.
type countedLimit struct {
	account *account
	vector  resource.Vector
}

// countLimits finds the limits of external parts that an entry, which holds something, counts in,
// by the addresses of its parts.
func (a *auditor) countLimits(e *entry, c *counted) {
	if e.external == nil {
		return
	}
	found := 0
	for _, quota := range c.quotas {
		for _, of := range quota.externals() {
			sum, some := resource.Vector{}, false
			for i := range e.Entitled.External {
				if part := &e.Entitled.External[i]; of.name.External.Covers(part.Address) {
					sum, _ = sum.Add(part.Vector)
					some = true
				}
			}
			if !some {
				continue
			}
			if has := e.limitCharge(of); !has.Equal(sum) {
				a.reportf(3, "allocation %s has %s in %s, its parts there are %s", e.ID, has, of.name, sum)
			}
			found++
			c.limits = append(c.limits, countedLimit{of, sum})
		}
	}
	if touches := len(e.external.set.limits); touches != found {
		a.reportf(3, "allocation %s touches %d limits of external parts, its parts %d", e.ID, touches, found)
	}
}

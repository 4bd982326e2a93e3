package ledger

import "github.com/bursar/bursar/resource"

// charge is a request's charge to one of its accounts.
type charge struct {
	account *account
	vector  resource.Vector
	part    *queueCharge // of a cluster queue; nil: of a quota or a host
}

// charges are a request's charges to all its accounts.
type charges struct {
	entry *entry
	host  *host // that it is on, or the only one that it wants; nil: any, or that one is not there
}

func (l *Ledger) charges(e *entry) charges {
	if e.HostID == "" {
		return charges{e, nil}
	}
	return charges{e, l.hosts[e.HostID]}
}

// all yields the charges in the order in which they are decided: quotas, from the widest; their
// limits of external parts; cluster queues, those above before those below; the host. All code that
// charges every account of a request uses this list, so that it all agrees. Ranging over it
// allocates nothing.
func (c charges) all(yield func(charge) bool) {
	request := c.entry.request()
	for _, quota := range c.entry.accounts {
		if !yield(charge{account: quota, vector: request}) {
			return
		}
	}
	if x := c.entry.external; x != nil && !c.entry.limitCharges(yield) {
		return
	}
	parts := c.entry.queueCharges()
	for i := range parts {
		if !yield(charge{&parts[i].queue.account, parts[i].vector, &parts[i]}) {
			return
		}
	}
	if c.host != nil {
		yield(charge{account: &c.host.account, vector: request})
	}
}

// host is the host whose account it is; nil: it is another's.
func (c charge) host() *host { return c.account.queue.host }

// fits reports whether the charge fits in the account: for a host also by its health and by
// measurement, for a cluster queue by the state of its cluster.
func (c charge) fits() bool {
	switch {
	case c.part != nil:
		return c.part.fits()
	case c.host() != nil:
		return c.host().fits(c.vector)
	}
	return c.account.fits(c.vector)
}

// tooLarge reports whether the account could not give that much even if nothing else were used. A
// cluster queue of which nothing is known could, and one whose limit may become that large.
func (c charge) tooLarge() bool {
	if c.part != nil {
		return c.part.queue.tooLarge(c.vector)
	}
	return !c.account.couldEverFit(c.vector)
}

// tooLargeNow is tooLarge without regard to clusters that may grow: it does not help that others
// give something back.
func (c charge) tooLargeNow() bool {
	if c.part != nil {
		return c.part.queue.tooLargeNow(c.vector)
	}
	return c.tooLarge()
}

// closedTo reports whether a host takes none of the request's kind, however much of it is free: it
// does not have the labels, or its caller has its share of the host.
func (l *Ledger) closedTo(e *entry, h *host) bool { return !h.suits(e.Wishes) || l.crowded(e, h) }

// accountInfos are the accounts of a request, for readers.
func (l *Ledger) accountInfos(e *entry) []AccountInfo {
	var list []AccountInfo
	for c := range l.charges(e).all {
		if c.part != nil && c.part.queue.of != nil && c.account.limit.IsUnset() {
			continue // the cluster does not limit users there
		}
		if h := c.host(); h != nil {
			list = append(list, l.hostInfo(h).Account)
		} else {
			info := c.account.info()
			if c.part != nil && c.part.queue.grantsNothing(l.now) {
				info.Available = resource.Vector{} // the room that the books show is none
			}
			list = append(list, info)
		}
	}
	return list
}

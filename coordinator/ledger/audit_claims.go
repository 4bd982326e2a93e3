package ledger

// auditClaims checks the holds: what is held is held for a starved request that waits, on all that
// it lacked together, in a window that ends, and on few hosts.
func (l *Ledger) auditClaims(sums map[*account]*balances, report func(int, string, ...any)) {
	claimed, hosts := 0, 0
	for i, c := range l.claims {
		e := c.entry
		if c.index != i || e.claim != c || l.entry(e.ID) != e || e.State != Waiting || !e.present() || !e.starved {
			report(12, "a hold is for %s, which is %s, present %t, starved %t", e.ID, e.State, e.present(), e.starved)
		}
		if c.until <= l.now && !l.Behind() || c.until.Sub(c.since) > longestWindow || len(c.held) == 0 {
			report(12, "the hold for %s of %d accounts lasts from %d until %d; it is %d", e.ID, len(c.held), c.since, c.until, l.now)
		}
		for j := range c.held {
			a := c.held[j].account
			claimed++
			if a.claim != c || sums[a] == nil {
				report(12, "%s is held for %s, and does not know that", a.name, e.ID)
			}
			if a.queue.host != nil {
				hosts++
			}
		}
	}
	for a := range sums {
		if a.claim != nil {
			claimed--
		}
	}
	if claimed != 0 || hosts != l.claimedHosts {
		report(12, "%d accounts more are in holds than are held; %d hosts are, and it counts %d", claimed, hosts, l.claimedHosts)
	}
	l.auditStarved(report)
}

// auditStarved checks that the starved requests are in order.
func (l *Ledger) auditStarved(report func(int, string, ...any)) {
	starved := 0
	for _, s := range l.starved.items {
		starved += len(s.starved.requests.items)
	}
	l.entries.Scan(func(_ ID, e *entry) bool {
		if e.starved {
			starved--
		}
		return true
	})
	if starved != 0 {
		report(12, "%d starved requests more are in order than there are", starved)
	}
}

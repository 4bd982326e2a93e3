package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// A long list is read in steps, so that nobody else has to wait for more than one of them.
const (
	// allocationStep is how many allocations one step looks at: about half a millisecond.
	allocationStep = 4096
	// hostStep is how many hosts, which cost more: their accounts are copied.
	hostStep = 256
	// queueStep is how many queues: what they have left is looked up in all queues above them.
	queueStep = 256
)

// step is what one visit to the ledger found.
type step[T any, P any] struct {
	found    []T
	place    P // the last one that was looked at
	more     bool
	revision uint64
}

// scan visits the ledger until it has found as many as wanted or has seen all. revision is that of the first visit: whoever
// watches from there misses nothing of what the page may have missed.
func scan[T any, P any](ctx context.Context, b books, after P, want int, visit func(l *ledger.Ledger, after P, want int) step[T, P]) (step[T, P], error) {
	all := step[T, P]{place: after}
	for first := true; ; first = false {
		var s step[T, P]
		err := b.do(ctx, func(l *ledger.Ledger, _ ledger.Instant) {
			s = visit(l, all.place, want-len(all.found))
			s.revision = l.Revision()
		})
		if err != nil {
			return all, err
		}
		if first {
			all.revision = s.revision
		}
		all.found = append(all.found, s.found...)
		all.place, all.more = s.place, s.more
		if !s.more || len(all.found) >= want {
			return all, nil
		}
	}
}

// allocationsWhere finds live allocations that a filter lets through.
func allocationsWhere(keep func(*ledger.Allocation) bool) func(*ledger.Ledger, ledger.ID, int) step[ledger.Allocation, ledger.ID] {
	return func(l *ledger.Ledger, after ledger.ID, want int) step[ledger.Allocation, ledger.ID] {
		s := step[ledger.Allocation, ledger.ID]{place: after}
		looked := 0
		l.Allocations(after, func(a *ledger.Allocation) bool {
			if looked == allocationStep || len(s.found) == want {
				s.more = true
				return false
			}
			looked++
			s.place = a.ID
			if keep(a) {
				s.found = append(s.found, *a)
			}
			return true
		})
		return s
	}
}

// hostsWhere finds hosts that a filter lets through.
func hostsWhere(keep func(*ledger.HostInfo) bool) func(*ledger.Ledger, string, int) step[ledger.HostInfo, string] {
	return func(l *ledger.Ledger, after string, want int) step[ledger.HostInfo, string] {
		s := step[ledger.HostInfo, string]{place: after}
		looked := 0
		l.Hosts(after, func(h ledger.HostInfo) bool {
			if looked == hostStep || len(s.found) == want {
				s.more = true
				return false
			}
			looked++
			s.place = h.ID
			if keep(&h) {
				s.found = append(s.found, h)
			}
			return true
		})
		return s
	}
}

// quotaAccount is an account of a rule, with its place in the order of all.
type quotaAccount struct {
	ledger.AccountInfo

	key string
}

// quotaAccountsWhere finds accounts of rules that a filter lets through. The ledger sorts all of them for every visit, so
// one visit looks at as many as it takes.
func quotaAccountsWhere(keep func(*quotaAccount) bool) func(*ledger.Ledger, string, int) step[quotaAccount, string] {
	return func(l *ledger.Ledger, after string, want int) step[quotaAccount, string] {
		s := step[quotaAccount, string]{place: after}
		l.QuotaAccounts(after, func(key string, a ledger.AccountInfo) bool {
			if len(s.found) == want {
				s.more = true
				return false
			}
			s.place = key
			if found := (quotaAccount{a, key}); keep(&found) {
				s.found = append(s.found, found)
			}
			return true
		})
		return s
	}
}

// queuesWhere finds queues that a filter lets through.
func queuesWhere(keep func(*ledger.QueueInfo) bool) func(*ledger.Ledger, resource.Address, int) step[ledger.QueueInfo, resource.Address] {
	return func(l *ledger.Ledger, after resource.Address, want int) step[ledger.QueueInfo, resource.Address] {
		s := step[ledger.QueueInfo, resource.Address]{place: after}
		looked := 0
		l.Queues(after, func(q ledger.QueueInfo) bool {
			if looked == queueStep || len(s.found) == want {
				s.more = true
				return false
			}
			looked++
			s.place = q.Address
			if keep(&q) {
				s.found = append(s.found, q)
			}
			return true
		})
		return s
	}
}

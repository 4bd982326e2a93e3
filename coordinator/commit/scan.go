package commit

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

// Step is what one visit to the ledger found.
type Step[T any, P any] struct {
	Found    []T
	Place    P // the last one that was looked at
	More     bool
	Revision uint64
}

// Scan visits the ledger until it has found as many as wanted or has seen all. revision is that of the first visit: whoever
// watches from there misses nothing of what the page may have missed.
func Scan[T any, P any](ctx context.Context, b Reader, after P, want int, visit func(l *ledger.Ledger, after P, want int) Step[T, P]) (Step[T, P], error) {
	all := Step[T, P]{Place: after}
	for first := true; ; first = false {
		var s Step[T, P]
		err := b.Do(ctx, func(l *ledger.Ledger, _ ledger.Instant) {
			s = visit(l, all.Place, want-len(all.Found))
			s.Revision = l.Revision()
		})
		if err != nil {
			return all, err
		}
		if first {
			all.Revision = s.Revision
		}
		all.Found = append(all.Found, s.Found...)
		all.Place, all.More = s.Place, s.More
		if !s.More || len(all.Found) >= want {
			return all, nil
		}
	}
}

// AllocationsWhere finds live allocations that a filter lets through.
func AllocationsWhere(keep func(*ledger.Allocation) bool) func(*ledger.Ledger, ledger.ID, int) Step[ledger.Allocation, ledger.ID] {
	return func(l *ledger.Ledger, after ledger.ID, want int) Step[ledger.Allocation, ledger.ID] {
		s := Step[ledger.Allocation, ledger.ID]{Place: after}
		looked := 0
		l.Allocations(after, func(a *ledger.Allocation) bool {
			if looked == allocationStep || len(s.Found) == want {
				s.More = true
				return false
			}
			looked++
			s.Place = a.ID
			if keep(a) {
				s.Found = append(s.Found, *a)
			}
			return true
		})
		return s
	}
}

// HostsWhere finds hosts that a filter lets through.
func HostsWhere(keep func(*ledger.HostInfo) bool) func(*ledger.Ledger, string, int) Step[ledger.HostInfo, string] {
	return func(l *ledger.Ledger, after string, want int) Step[ledger.HostInfo, string] {
		s := Step[ledger.HostInfo, string]{Place: after}
		looked := 0
		l.Hosts(after, func(h ledger.HostInfo) bool {
			if looked == hostStep || len(s.Found) == want {
				s.More = true
				return false
			}
			looked++
			s.Place = h.ID
			if keep(&h) {
				s.Found = append(s.Found, h)
			}
			return true
		})
		return s
	}
}

// QuotaAccount is an account of a rule, with its place in the order of all.
type QuotaAccount struct {
	ledger.AccountInfo

	Key string
}

// QuotaAccountsWhere finds accounts of rules that a filter lets through. The ledger sorts all of them for every visit, so
// one visit looks at as many as it takes.
func QuotaAccountsWhere(keep func(*QuotaAccount) bool) func(*ledger.Ledger, string, int) Step[QuotaAccount, string] {
	return func(l *ledger.Ledger, after string, want int) Step[QuotaAccount, string] {
		s := Step[QuotaAccount, string]{Place: after}
		l.QuotaAccounts(after, func(key string, a ledger.AccountInfo) bool {
			if len(s.Found) == want {
				s.More = true
				return false
			}
			s.Place = key
			if found := (QuotaAccount{a, key}); keep(&found) {
				s.Found = append(s.Found, found)
			}
			return true
		})
		return s
	}
}

// QueuesWhere finds queues that a filter lets through.
func QueuesWhere(keep func(*ledger.QueueInfo) bool) func(*ledger.Ledger, resource.Address, int) Step[ledger.QueueInfo, resource.Address] {
	return func(l *ledger.Ledger, after resource.Address, want int) Step[ledger.QueueInfo, resource.Address] {
		s := Step[ledger.QueueInfo, resource.Address]{Place: after}
		looked := 0
		l.Queues(after, func(q ledger.QueueInfo) bool {
			if looked == queueStep || len(s.Found) == want {
				s.More = true
				return false
			}
			looked++
			s.Place = q.Address
			if keep(&q) {
				s.Found = append(s.Found, q)
			}
			return true
		})
		return s
	}
}

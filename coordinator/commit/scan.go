package commit

import (
	"context"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// A long list is read in steps, so that other commands wait for one step at most.
const (
	// allocationStep is how many allocations one step visits: about half a millisecond.
	allocationStep = 4096
	// describedStep bounds the kinds of waiting requests for which one step computes the
	// shortfalls. Each takes some microseconds.
	describedStep = 128
	// hostStep is for hosts, which cost more: their accounts are copied.
	hostStep = 256
	// queueStep is for queues: the free capacity of each depends on all queues above it.
	queueStep = 256
	// quotaStep is for accounts of rules, which are copied.
	quotaStep = 1024
)

// Step is the result of one visit to the ledger.
type Step[T any, P any] struct {
	Found    []T
	Place    P // the last one that was visited
	More     bool
	Revision uint64
}

// Visit reads the ledger from a place on until it has found want rows, or for one step.
type Visit[T any, P any] func(l *ledger.Ledger, after P, want int) Step[T, P]

// Scan visits the ledger until it has found want rows or has seen all. Revision is that of the
// first visit: a watch from there misses no change that the page may have missed.
func Scan[T any, P any](ctx context.Context, r Reader, after P, want int, visit Visit[T, P]) (Step[T, P], error) {
	all := Step[T, P]{Place: after}
	for first := true; ; first = false {
		var s Step[T, P]
		err := r.Do(ctx, func(l *ledger.Ledger, _ ledger.Instant) {
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

// where makes a visit from a walk. It finds the rows for which keep is true, and visits at most
// step rows.
func where[T any, P any](keep func(*T) bool, step int, walk func(l *ledger.Ledger, after P, yield func(P, *T) bool)) Visit[T, P] {
	return func(l *ledger.Ledger, after P, want int) Step[T, P] {
		s := Step[T, P]{Place: after}
		looked := 0
		walk(l, after, func(place P, row *T) bool {
			if looked == step || len(s.Found) == want {
				s.More = true
				return false
			}
			looked++
			s.Place = place
			if keep(row) {
				s.Found = append(s.Found, *row)
			}
			return true
		})
		return s
	}
}

// AllocationsWhere finds live allocations that match a filter. It computes the shortfalls of those
// that wait; a step ends after describedStep of these.
func AllocationsWhere(keep func(*ledger.Allocation) bool) Visit[ledger.Allocation, ledger.ID] {
	return func(l *ledger.Ledger, after ledger.ID, want int) Step[ledger.Allocation, ledger.ID] {
		described := l.Described()
		s := Step[ledger.Allocation, ledger.ID]{Place: after}
		looked := 0
		l.Allocations(after, func(a *ledger.Allocation) bool {
			if looked == allocationStep || len(s.Found) == want || l.Described()-described >= describedStep {
				s.More = true
				return false
			}
			looked++
			s.Place = a.ID
			if keep(a) {
				l.Describe(a)
				s.Found = append(s.Found, *a)
			}
			return true
		})
		return s
	}
}

// HostsWhere finds hosts that match a filter.
func HostsWhere(keep func(*ledger.HostInfo) bool) Visit[ledger.HostInfo, string] {
	return where(keep, hostStep, func(l *ledger.Ledger, after string, yield func(string, *ledger.HostInfo) bool) {
		l.Hosts(after, func(h ledger.HostInfo) bool { return yield(h.ID, &h) })
	})
}

// QuotaAccount is an account of a rule, with its sort key.
type QuotaAccount struct {
	ledger.AccountInfo

	Key string
}

// QuotaAccountsWhere finds accounts of rules that match a filter.
func QuotaAccountsWhere(keep func(*QuotaAccount) bool) Visit[QuotaAccount, string] {
	return where(keep, quotaStep, func(l *ledger.Ledger, after string, yield func(string, *QuotaAccount) bool) {
		l.QuotaAccounts(after, func(key string, a ledger.AccountInfo) bool { return yield(key, &QuotaAccount{a, key}) })
	})
}

// QueuesWhere finds queues that match a filter.
func QueuesWhere(keep func(*ledger.QueueInfo) bool) Visit[ledger.QueueInfo, resource.Address] {
	return where(keep, queueStep, func(l *ledger.Ledger, after resource.Address, yield func(resource.Address, *ledger.QueueInfo) bool) {
		l.Queues(after, func(q ledger.QueueInfo) bool { return yield(q.Address, &q) })
	})
}

package ledger

import (
	"cmp"
	"slices"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// Runner is an allocation that holds something which a starved request lacks.
type Runner struct {
	ID     ID
	User   string
	Size   resource.Vector // what it counts with in the account
	Since  Instant         // when it was granted
	HostID string
}

// Runners are the allocations of one account that stand in the way of a starved request.
type Runners struct {
	Account   AccountName
	Dimension string // the first one that the account is short of
	// Largest are those who hold most of the dimension, the largest first, at most mostRunners, and
	// only those that the asker may see.
	Largest []Runner
	// Looked is how many of the account's Of allocations were looked at. If that is not all, they
	// are the oldest ones of a quota, because a long-running allocation is the least likely to end
	// soon, and any of a host or a queue.
	Looked, Of int
}

const (
	// mostRunners is how many allocations of one account are named.
	mostRunners = 5
	// runnersLooked is how many allocations are looked at for each kind of account. One takes about
	// 0.1 µs.
	runnersLooked = 2048
)

// runners returns the allocations in the way of a request, in the accounts that are short for it:
// the largest ones that the actor may see. An actor that comes through a host's agent sees those of
// that host.
func (l *Ledger) runners(e *entry, short []Shortfall, actor *identity.Actor) (list []Runners) {
	var accounts []*account
	for i := range short {
		s := &short[i]
		a := l.accountOf(e, s)
		if a == nil || slices.Contains(accounts, a) || s.Note != "" && s.Note != NoteHeld && s.Note != NoteMeasured {
			continue
		}
		accounts = append(accounts, a)
		list = append(list, Runners{Account: a.name, Dimension: s.Dimension, Of: a.held})
	}
	quotas := false
	for i, a := range accounts {
		switch {
		case a.queue.host != nil:
			for _, held := range a.queue.host.entries[:min(len(a.queue.host.entries), runnersLooked)] {
				list[i].look(held, held.request(), actor)
			}
		case a.queue.clusterQueue != nil:
			members := a.queue.clusterQueue.cluster.members
			for _, held := range members[:min(len(members), runnersLooked)] {
				list[i].lookIn(held, a, actor)
			}
		default:
			quotas = true
		}
	}
	left := runnersLooked
	l.entries.Scan(func(_ ID, held *entry) bool {
		if left--; !quotas || left < 0 {
			return false
		}
		if !held.State.Holds() {
			return true
		}
		for c := range (charges{entry: held}).all {
			if i := slices.Index(accounts, c.account); i >= 0 && c.part == nil {
				list[i].look(held, c.vector, actor)
			}
		}
		return true
	})
	return list
}

// accountOf is the account of a shortfall of a request; nil: it is not one of its accounts now.
func (l *Ledger) accountOf(e *entry, s *Shortfall) *account {
	if s.Account.Kind == HostAccount {
		if h := l.hosts[s.Account.Labels.Value(hostKey)]; h != nil {
			return &h.account
		}
		return nil
	}
	for c := range l.charges(e).all {
		if c.account.name.Equal(s.Account) {
			return c.account
		}
	}
	return nil
}

// lookIn looks at an allocation that has a part in the cluster of a queue's account.
func (r *Runners) lookIn(held *entry, a *account, actor *identity.Actor) {
	for _, t := range held.queueCharges() {
		if &t.queue.account == a {
			r.look(held, t.vector, actor)
		}
	}
}

// look counts an allocation, and remembers it if it is one of the largest.
func (r *Runners) look(held *entry, size resource.Vector, actor *identity.Actor) {
	r.Looked++
	n := get(size, r.Dimension)
	if n == 0 || actor.Host != "" && actor.Host != held.HostID {
		return
	}
	if len(r.Largest) == mostRunners && n <= get(r.Largest[mostRunners-1].Size, r.Dimension) {
		return
	}
	r.Largest = append(r.Largest, Runner{
		ID: held.ID, User: held.Labels.Value(userKey), Size: size, Since: held.Reserved, HostID: held.HostID,
	})
	slices.SortStableFunc(r.Largest, func(x, y Runner) int {
		return cmp.Or(-cmp.Compare(get(x.Size, r.Dimension), get(y.Size, r.Dimension)), cmp.Compare(x.ID, y.ID))
	})
	r.Largest = r.Largest[:min(len(r.Largest), mostRunners)]
}

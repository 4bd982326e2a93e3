package ledger_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// holds is for whom accounts are held, by name.
type holds map[string]ledger.ID

// against reports whether a request does not fit next to what is kept in an account for another
// one: in each dimension what that one needs, or all that is free if that is less.
func (m *model) against(held holds, a modelAccount, request resource.Resource, id ledger.ID) bool {
	holder := m.rows[held[a.name]]
	if holder == nil || holder.ID == id {
		return false
	}
	used, reserved, _ := m.sums(a)
	others := m.others(a)
	needs := amounts(a.asked(holder.Entitled))
	for dimension, asked := range a.asked(request).All() {
		most, limited := a.limits(dimension)
		if asked == 0 || !limited {
			continue
		}
		free := most - used[dimension] - reserved[dimension] - others[dimension]
		if a.host != nil && dimension == resource.Memory {
			free = min(free, m.headroom(a.host))
		}
		if asked > free-max(0, min(needs[dimension], free)) {
			return true
		}
	}
	return false
}

// window is a hold as it was seen: it has lasted at least that long.
type window struct {
	until       ledger.Instant // zero: it is over
	first, last ledger.Instant
}

// checkWindows: invariant 12. A hold lasts for an hour at most, and then the account is not held
// for as long as it was.
func (m *machine) checkWindows(t *rapid.T) {
	t.Helper()
	seen := make(map[string]window)
	m.accounts(func(a ledger.AccountInfo) {
		name, now := a.Name.String(), m.model.now
		w, before := m.windows[name]
		switch {
		case a.HeldFor == 0 && before:
			w.until = 0
		case a.HeldFor == 0:
			return
		case before && w.until == a.HeldUntil:
			w.last = now
		default:
			if rests := w.last.Add(w.last.Sub(w.first)); before && now < rests {
				t.Fatalf("%s is held for %s at %d: it was held from %d until %d, and rests until %d", name, a.HeldFor, now, w.first, w.last, rests)
			}
			w = window{a.HeldUntil, now, now}
		}
		if w.last.Sub(w.first) > time.Hour || a.HeldFor != 0 && (a.HeldUntil <= now || a.HeldUntil.Sub(w.first) > time.Hour) {
			t.Fatalf("%s is held for %s from %d until %d; it is %d", name, a.HeldFor, w.first, a.HeldUntil, now)
		}
		seen[name] = w
	})
	m.windows = seen
}

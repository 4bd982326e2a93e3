package ledger_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// holds is for whom accounts are held, by name.
type holds map[string]ledger.ID

// against reports whether a request does not fit next to what is kept in an account for another
// one: in each dimension what that one needs, or all that is free if that is less.
func (m *model) against(held holds, a modelAccount, request resource.Resource, id ledger.ID) bool {
	return m.keptFrom(held, a, a.asked(request), id)
}

// keptFrom is that for what a request, or the growth of an allocation, asks of the account.
func (m *model) keptFrom(held holds, a modelAccount, v resource.Vector, id ledger.ID) bool {
	holder := m.rows[held[a.name]]
	if holder == nil || holder.ID == id {
		return false
	}
	used, reserved, _ := m.sums(a)
	others := m.others(a)
	needs := amounts(a.asked(holder.Entitled))
	for dimension, asked := range v.All() {
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

// checkShares: a share has one hold on shared accounts at a time, which are all but the hosts'.
// Then it has none for as long as that lasted.
func (m *machine) checkShares(t *rapid.T) {
	t.Helper()
	type hold struct {
		id    ledger.ID
		until ledger.Instant
	}
	holding := make(map[string]hold)
	m.accounts(func(a ledger.AccountInfo) {
		if a.HeldFor == 0 || a.Name.Kind == ledger.HostAccount {
			return
		}
		key, _ := m.model.shareOf(m.model.rows[a.HeldFor].Labels)
		h := hold{a.HeldFor, a.HeldUntil}
		if other, has := holding[key]; has && other != h {
			t.Fatalf("%s is held for %s, whose share %s has a hold for %s", a.Name, a.HeldFor, key, other.id)
		}
		holding[key] = h
	})
	now := m.model.now
	for key, w := range m.shares {
		if _, has := holding[key]; !has {
			w.until = 0
			m.shares[key] = w
		}
	}
	for key, h := range holding {
		w, before := m.shares[key]
		if before && w.until == h.until {
			w.last = now
			m.shares[key] = w
			continue
		}
		if rests := w.last.Add(w.last.Sub(w.first)); before && now < rests {
			t.Fatalf("shared accounts are held for %s of share %s at %d: they were from %d until %d, and it rests until %d", h.id, key, now, w.first, w.last, rests)
		}
		if m.shares == nil {
			m.shares = make(map[string]window)
		}
		m.shares[key] = window{h.until, now, now}
	}
}

// keptOut lists the requests that would be granted if nothing were held, each with the holds that
// are against it.
func (m *machine) keptOut(held holds) map[ledger.ID]holds {
	kept := make(map[ledger.ID]holds)
	if len(held) == 0 {
		return kept
	}
	for _, r := range m.model.rows {
		if r.State != ledger.Waiting || !r.present() {
			continue
		}
		hosts := m.model.fits(&r.Allocation, nil)
		if len(hosts) == 0 || len(m.model.fits(&r.Allocation, held)) > 0 {
			continue
		}
		by := make(holds)
		accounts := append(m.model.quotas(r.Labels), m.model.chains(&r.Allocation)...)
		for _, id := range hosts {
			accounts = append(accounts, hostAccount(m.model.hosts[id]))
		}
		for _, a := range accounts {
			if m.model.against(held, a, r.Entitled, r.ID) {
				by[a.name] = held[a.name]
			}
		}
		kept[r.ID] = by
	}
	return kept
}

// checkKeptOut: if the holds that kept a request out have ended, and it would be granted but for
// others, it is granted, unless those are for more urgent ones. If they were of hosts only, it may
// still be kept out by those of other hosts.
func (m *machine) checkKeptOut(t *rapid.T, before map[ledger.ID]holds) {
	t.Helper()
	now := m.holds()
	for id, others := range m.keptOut(now) {
		was, kept := before[id]
		if !kept {
			continue
		}
		r := m.model.rows[id]
		same := func(name string, holder ledger.ID) bool { return now[name] == holder }
		urgent := func(holder ledger.ID) bool { return m.model.rows[holder].Priority > r.Priority }
		notHost := func(name string, _ ledger.ID) bool { return !strings.HasPrefix(name, "host ") }
		isHost := func(name string, holder ledger.ID) bool { return !notHost(name, holder) }
		if r.HostID == "" && !anyOf(maps.All(was), notHost) && anyOf(maps.All(others), isHost) {
			continue
		}
		if !anyOf(maps.All(was), same) && !slices.ContainsFunc(slices.Collect(maps.Values(others)), urgent) {
			t.Fatalf("%s was kept out by holds for %v, and is now by those for %v", id, was, others)
		}
	}
}

func anyOf(all func(func(string, ledger.ID) bool), is func(string, ledger.ID) bool) bool {
	for name, id := range all {
		if is(name, id) {
			return true
		}
	}
	return false
}

// sheltered reports whether a request that waited may get what an account keeps for another: a hold
// has ended of an account that it touches, or of a host, and the other is no more urgent.
func (m *machine) sheltered(a *ledger.Allocation, before, now holds, of modelAccount) bool {
	row := m.model.rows[a.ID]
	if row == nil || row.State != ledger.Waiting || m.model.rows[now[of.name]].Priority > a.Priority {
		return false
	}
	accounts := append(m.model.quotas(a.Labels), m.model.chains(a)...)
	for _, h := range m.model.hosts {
		accounts = append(accounts, hostAccount(h))
	}
	return slices.ContainsFunc(accounts, func(b modelAccount) bool { return before[b.name] != 0 && before[b.name] != now[b.name] })
}

// own is what the rows held when they were seen, of each share in each account.
type own map[ledger.ID]resource.Resource

// holding is what holds something.
func (m *machine) holding() own {
	has := make(own)
	for _, r := range m.model.rows {
		if r.State.Holds() {
			has[r.ID] = r.Entitled
		}
	}
	return has
}

// checkOwn: nothing begins to be held for a request that what its own share has keeps from fitting,
// unless nobody but the share, or the user, counts in what is held. had is what there was before.
func (m *machine) checkOwn(t *rapid.T, before holds, had own) {
	t.Helper()
	accounts := make(map[ledger.ID][]modelAccount)
	for name, id := range m.holds() {
		if before[name] != id {
			r := m.model.rows[id]
			all := append(m.model.quotas(r.Labels), m.model.chains(&r.Allocation)...)
			for _, h := range m.model.hosts {
				all = append(all, hostAccount(h))
			}
			accounts[id] = append(accounts[id], all[slices.IndexFunc(all, func(a modelAccount) bool { return a.name == name })])
		}
	}
	for id, list := range accounts {
		r := m.model.rows[id]
		key, _ := m.model.shareOf(r.Labels)
		shared := func(a modelAccount) bool {
			return a.host != nil || a.queue != nil || a.name != key && (a.place == nil || a.quota != key) && !slices.Contains(a.rule.Selector.Scope().Keys(), label.User)
		}
		if !slices.ContainsFunc(list, shared) {
			continue
		}
		for _, a := range list {
			for dimension, asked := range a.asked(r.Entitled).All() {
				most, limited := a.limits(dimension)
				own := int64(0)
				for _, other := range m.model.rows {
					if share, _ := m.model.shareOf(other.Labels); share == key && m.model.in(other, a) {
						own += min(get(a.asked(other.Entitled), dimension), get(a.asked(had[other.ID]), dimension))
					}
				}
				if asked != 0 && limited && own+asked > most {
					t.Fatalf("%s is held for %s, which asks for %d of %d %s; its share %s has %d there", a.name, id, asked, most, dimension, key, own)
				}
			}
		}
	}
}

func get(v resource.Vector, dimension string) int64 {
	quantity, _ := v.Get(dimension)
	return quantity
}

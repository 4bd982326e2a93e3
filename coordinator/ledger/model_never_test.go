package ledger_test

import "github.com/bursar/bursar/coordinator/ledger"

// never reports whether a request could not be granted even if everything else ended: a quota, a
// queue, or the host that it names is smaller. A custom countable that this host declares and has
// none of may come back.
func (m *model) never(a *ledger.Allocation) bool {
	for _, quota := range m.quotas(a.Labels) {
		if quota.tooSmall(a.Entitled) {
			return true
		}
	}
	for _, queue := range m.chains(a) {
		if m.knows(queue.queue.cluster) && queue.queue.report != nil && queue.tooSmall(a.Entitled) {
			return true
		}
	}
	if m.now < m.judged || a.Wishes == nil || a.Wishes.Host == "" {
		return false
	}
	h := m.hosts[a.Wishes.Host]
	if h == nil { // it may come, and be large enough
		return false
	}
	wanted := a.Entitled
	if n, declared := h.capacity.Get("gpu"); declared && n == 0 {
		wanted.Vector = wanted.Without("gpu")
	}
	return hostAccount(h).tooSmall(wanted)
}

// possible reports whether a host could take a request if nothing ran there.
func (m *model) possible(a *ledger.Allocation) bool {
	for _, h := range m.hosts {
		if matches(h, a.Wishes) && !hostAccount(h).tooSmall(a.Entitled) {
			return true
		}
	}
	return false
}

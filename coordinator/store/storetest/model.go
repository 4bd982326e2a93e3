package storetest

import (
	"cmp"
	"maps"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/resource"
)

// model is what a store must hold after the batches that it was given: the slow and obvious way.
type model struct {
	sequence    uint64
	lastID      ledger.ID
	allocations map[ledger.ID]ledger.Allocation
	hosts       map[string]ledger.HostRecord
	quotas      map[string]ledger.Quota
}

func newModel() *model {
	return &model{
		allocations: make(map[ledger.ID]ledger.Allocation), hosts: make(map[string]ledger.HostRecord), quotas: make(map[string]ledger.Quota),
	}
}

func (m *model) commit(c ledger.Changes) {
	if (store.Batch{Changes: c}).Empty() {
		return
	}
	m.sequence, m.lastID = c.Revision, c.LastID
	for _, a := range c.Transitions {
		a.Measured, a.Unreclaimable = resource.Vector{}, 0
		m.allocations[a.ID] = a
	}
	for _, id := range c.HostsRemoved {
		delete(m.hosts, id)
	}
	for _, h := range c.Hosts {
		m.hosts[h.ID] = h
	}
	for _, selector := range c.QuotasRemoved {
		delete(m.quotas, selector)
	}
	for _, q := range c.Quotas {
		m.quotas[q.Selector.String()] = q
	}
}

// snapshot is what Load must return.
func (m *model) snapshot(since ledger.Instant) ledger.Snapshot {
	s := ledger.Snapshot{Revision: m.sequence, LastID: m.lastID}
	for _, a := range m.allocations {
		switch {
		case a.State.Live():
			s.Allocations = append(s.Allocations, a)
		case a.RequestID != "" && !a.Forget && a.Ended >= since:
			s.Remembered = append(s.Remembered, ledger.Remembered{
				Caller: a.Caller, RequestID: a.RequestID, RequestHash: a.RequestHash, ID: a.ID, Ended: a.Ended,
			})
		}
	}
	s.Hosts, s.Quotas = slices.Collect(maps.Values(m.hosts)), slices.Collect(maps.Values(m.quotas))
	return s
}

// history is all that History must return, in its order.
func (m *model) history() []ledger.Allocation {
	var list []ledger.Allocation
	for _, a := range m.allocations {
		if !a.State.Live() {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b ledger.Allocation) int {
		return compare(store.Position{Ended: b.Ended, ID: b.ID}, store.Position{Ended: a.Ended, ID: a.ID})
	})
	return list
}

// byRequest is what GetByRequest must return.
func (m *model) byRequest(caller, requestID string) (latest ledger.Allocation, found bool) {
	for _, a := range m.allocations {
		if requestID == "" || a.RequestID != requestID || a.Caller != caller || a.Forget {
			continue
		}
		if !found || int64(a.ID) > int64(latest.ID) {
			latest, found = a, true
		}
	}
	return latest, found
}

// prune is what Prune must do.
func (m *model) prune(before ledger.Instant, limit int) (pruned int) {
	for _, a := range slices.Backward(m.history()) {
		if pruned == limit || a.Ended >= before {
			break
		}
		delete(m.allocations, a.ID)
		pruned++
	}
	return pruned
}

// Equal are the options by which values of a ledger are compared with what came back from a store: nothing and empty are the
// same, and lists that have no order are taken as sets.
func Equal() gocmp.Options {
	return gocmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.SortSlices(func(a, b ledger.HostRecord) int { return cmp.Compare(a.ID, b.ID) }),
		cmpopts.SortSlices(func(a, b ledger.Quota) int { return cmp.Compare(a.Selector.String(), b.Selector.String()) }),
		cmpopts.SortSlices(func(a, b ledger.Remembered) int { return cmp.Compare(a.ID, b.ID) }),
	}
}

// sorted returns a snapshot whose allocations are in the order of their ids.
func sorted(s ledger.Snapshot) ledger.Snapshot {
	slices.SortFunc(s.Allocations, func(a, b ledger.Allocation) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

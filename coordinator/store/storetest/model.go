package storetest

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/resource"
)

// model is the expected content of a store after its batches, computed the slow and obvious way.
type model struct {
	sequence    uint64
	lastID      ledger.ID
	time        ledger.Instant
	outages     string
	allocations map[ledger.ID]ledger.Allocation
	hosts       map[string]ledger.HostRecord
	quotas      map[string]ledger.Quota
	providers   map[ledger.ClusterName]ledger.ProviderRecord
	refusals    map[string]ledger.Refusal
}

func newModel() *model {
	return &model{
		allocations: make(map[ledger.ID]ledger.Allocation), hosts: make(map[string]ledger.HostRecord), quotas: make(map[string]ledger.Quota),
		providers: make(map[ledger.ClusterName]ledger.ProviderRecord), refusals: make(map[string]ledger.Refusal),
	}
}

func (m *model) commit(c ledger.Changes) {
	if (store.Batch{Changes: c}).Empty() {
		return
	}
	m.sequence, m.lastID, m.time = c.Revision, c.LastID, c.Time
	if c.Outages != "" {
		m.outages = c.Outages
	}
	for _, a := range c.Transitions {
		if a.State.Live() {
			a.Measured, a.Peak, a.CPUTime, a.Unreclaimable = resource.Vector{}, ledger.Peak{}, 0, 0
		}
		if len(a.ApplicationIDs) == 0 {
			a.ApplicationIDs = nil
		}
		if a.Wishes != nil && len(a.Wishes.Avoid) == 0 {
			a.Wishes = &ledger.Wishes{Host: a.Wishes.Host, Required: a.Wishes.Required, Preferred: a.Wishes.Preferred, Rules: a.Wishes.Rules}
		}
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
	for _, name := range c.ProvidersRemoved {
		delete(m.providers, name)
	}
	for _, p := range c.Providers {
		if len(p.Settings) == 0 {
			p.Settings = nil
		}
		m.providers[p.ClusterName] = p
	}
	for _, id := range c.RefusalsRemoved {
		delete(m.refusals, id)
	}
	for _, r := range c.Refusals {
		m.refusals[r.ID()] = r
	}
}

// snapshot returns the expected result of Load.
func (m *model) snapshot(since ledger.Instant) ledger.Snapshot {
	s := ledger.Snapshot{Revision: m.sequence, LastID: m.lastID, Time: m.time, Outages: m.outages}
	for _, a := range m.allocations {
		switch {
		case a.State.Live():
			s.Allocations = append(s.Allocations, a)
		case a.RequestID != "" && !a.Forget && a.Ended >= since:
			s.Remembered = append(s.Remembered, remembered(&a))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		s.Hosts = append(s.Hosts, m.hosts[id])
	}
	for _, selector := range slices.Sorted(maps.Keys(m.quotas)) {
		s.Quotas = append(s.Quotas, m.quotas[selector])
	}
	s.Providers = slices.Collect(maps.Values(m.providers))
	s.Refusals = slices.Collect(maps.Values(m.refusals))
	return sorted(s)
}

// remembered returns the remembered request id of an ended allocation.
func remembered(a *ledger.Allocation) ledger.Remembered {
	return ledger.Remembered{Caller: store.CallerOf(a), RequestID: a.RequestID, RequestHash: a.RequestHash, ID: a.ID, Ended: a.Ended}
}

// history returns the expected result of History, all pages.
func (m *model) history() []ledger.Allocation {
	var list []ledger.Allocation
	for _, a := range m.allocations {
		if !a.State.Live() {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b ledger.Allocation) int {
		return store.Position{Ended: b.Ended, ID: b.ID}.Compare(store.Position{Ended: a.Ended, ID: a.ID})
	})
	return list
}

// byRequest returns the expected result of GetByRequest.
func (m *model) byRequest(caller, requestID string) (latest ledger.Allocation, found bool) {
	for _, a := range m.allocations {
		if requestID == "" || a.RequestID != requestID || store.CallerOf(&a) != caller || a.Forget {
			continue
		}
		if !found || byID(a.ID, latest.ID) > 0 {
			latest, found = a, true
		}
	}
	return latest, found
}

// ends returns the expected result of Ends.
func (m *model) ends(after store.Position, limit int) (list []store.Position) {
	for _, a := range slices.Backward(m.history()) {
		if at := (store.Position{Ended: a.Ended, ID: a.ID}); len(list) < limit && at.Compare(after) > 0 {
			list = append(list, at)
		}
	}
	return list
}

// remove does the work of Delete.
func (m *model) remove(ended []store.Position) (deleted int) {
	for _, at := range ended {
		if a, found := m.allocations[at.ID]; found && !a.State.Live() && a.Ended == at.Ended {
			delete(m.allocations, at.ID)
			deleted++
		}
	}
	return deleted
}

// difference compares values of a ledger with values from a store. Nil and empty are equal.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) { // much faster
		return ""
	}
	return gocmp.Diff(want, got, cmpopts.EquateEmpty())
}

// sorted returns a snapshot in a fixed order: stores may return the lists in any order.
func sorted(s ledger.Snapshot) ledger.Snapshot {
	slices.SortFunc(s.Allocations, func(a, b ledger.Allocation) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Hosts, func(a, b ledger.HostRecord) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Quotas, func(a, b ledger.Quota) int { return cmp.Compare(a.Selector.String(), b.Selector.String()) })
	slices.SortFunc(s.Providers, func(a, b ledger.ProviderRecord) int { return cmp.Compare(a.String(), b.String()) })
	slices.SortFunc(s.Refusals, func(a, b ledger.Refusal) int { return cmp.Compare(a.ID(), b.ID()) })
	slices.SortFunc(s.Remembered, func(a, b ledger.Remembered) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

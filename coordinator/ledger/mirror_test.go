package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// mirror is what a store would hold: the last row of everything in Changes, and nothing else. It
// shows that the changes are complete: a ledger that is restored from them is the same.
type mirror struct {
	retention time.Duration
	rows      map[ledger.ID]ledger.Allocation // live and ended ones
	hosts     map[string]ledger.HostRecord
	quotas    map[string]ledger.Quota   // by selector
	files     map[string][]ledger.Quota // by source; not stored, read again at every start
	providers map[ledger.ClusterName]ledger.ProviderRecord
	// By source; these are not stored either.
	providerFiles map[string][]ledger.ProviderRecord
	revision      uint64
	lastID        ledger.ID
	outages       string
	latest        ledger.Instant // the time of the latest batch of a ledger that was left; 0: no time has passed since

	// filed is what a coordinator that stands by would have filed of the rows, some batches ago;
	// nil: nothing yet. It lacks what has changed.
	filed        *ledger.Filed
	changed      map[ledger.ID]bool
	hostsChanged map[string]bool
	folds        int
}

func newMirror() *mirror {
	return &mirror{
		retention: retention, // scripts have others
		rows:      make(map[ledger.ID]ledger.Allocation),
		hosts:     make(map[string]ledger.HostRecord),
		quotas:    make(map[string]ledger.Quota),
		files:     make(map[string][]ledger.Quota),

		providers:     make(map[ledger.ClusterName]ledger.ProviderRecord),
		providerFiles: make(map[string][]ledger.ProviderRecord),

		changed: make(map[ledger.ID]bool), hostsChanged: make(map[string]bool),
	}
}

// fold takes in a batch, as a store does.
func (m *mirror) fold(c ledger.Changes) {
	if c.Outages != "" {
		m.outages = c.Outages
	}
	for i := range c.Transitions {
		m.rows[c.Transitions[i].ID] = c.Transitions[i]
	}
	for i := range c.Hosts {
		m.hosts[c.Hosts[i].ID] = c.Hosts[i]
	}
	for _, id := range c.HostsRemoved {
		delete(m.hosts, id)
	}
	for _, q := range c.Quotas {
		m.quotas[q.Selector.String()] = q
	}
	for _, selector := range c.QuotasRemoved {
		delete(m.quotas, selector)
	}
	for _, p := range c.Providers {
		m.providers[p.ClusterName] = p
	}
	for _, name := range c.ProvidersRemoved {
		delete(m.providers, name)
	}
	m.revision, m.lastID = c.Revision, c.LastID
	m.followed(c)
}

// followed notes what has changed for the one that stands by, who looks at every third batch.
func (m *mirror) followed(c ledger.Changes) {
	for i := range c.Transitions {
		m.changed[c.Transitions[i].ID] = true
	}
	for i := range c.Hosts {
		m.hostsChanged[c.Hosts[i].ID] = true
	}
	for _, id := range c.HostsRemoved {
		m.hostsChanged[id] = true
	}
	if m.folds++; m.folds%3 == 0 {
		if err := m.catchUp(); err != nil {
			panic(err)
		}
	}
}

// catchUp brings what is filed up to the rows.
func (m *mirror) catchUp() (err error) {
	s := m.snapshot(0)
	if m.filed == nil || !m.filed.Suits(&s) {
		m.filed, err = ledger.File(modelConfig(), &s)
	} else {
		var rows ledger.Snapshot
		var ended []ledger.ID
		var removed []string
		for id := range m.changed {
			if a := m.rows[id]; a.State.Live() {
				a.Measured, a.Peak, a.CPUTime, a.Unreclaimable = resource.Vector{}, ledger.Peak{}, 0, 0 // as in snapshot
				rows.Allocations = append(rows.Allocations, a)
			} else {
				ended = append(ended, id)
			}
		}
		for id := range m.hostsChanged {
			if h, there := m.hosts[id]; there {
				rows.Hosts = append(rows.Hosts, h)
			} else {
				removed = append(removed, id)
			}
		}
		err = m.filed.Update(&rows, ended, removed)
	}
	clear(m.changed)
	clear(m.hostsChanged)
	return err
}

// restoreFiled makes a ledger of what was filed ahead.
func (m *mirror) restoreFiled(now ledger.Instant) (*ledger.Ledger, error) {
	if err := m.catchUp(); err != nil {
		return nil, err
	}
	s := m.snapshot(now)
	s.Allocations, s.Hosts, s.Filed, m.filed = nil, nil, m.filed, nil
	l := s.Filed.Ledger(newPlainPlacer())
	return l, l.Restore(now, s)
}

// snapshot is what a store would load at a moment.
func (m *mirror) snapshot(now ledger.Instant) ledger.Snapshot {
	s := ledger.Snapshot{Revision: m.revision, LastID: m.lastID, Outages: m.outages, Latest: m.latest}
	outages, _ := ledger.ReadOutages(m.outages).Until(now, m.revision, m.latest)
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		a := m.rows[id]
		if a.State.Live() {
			a.Measured, a.Peak, a.CPUTime, a.Unreclaimable = resource.Vector{}, ledger.Peak{}, 0, 0 // not stored of what is live
			s.Allocations = append(s.Allocations, a)
		} else if a.RequestID != "" && !a.Forget && outages.After(a.Ended, m.retention) > now {
			s.Remembered = append(s.Remembered, ledger.Remembered{
				Caller: a.Caller, RequestID: a.RequestID, RequestHash: a.RequestHash, ID: a.ID, Ended: a.Ended,
			})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		s.Hosts = append(s.Hosts, m.hosts[id])
	}
	for _, q := range m.quotas {
		s.Quotas = append(s.Quotas, q)
	}
	for _, quotas := range m.files {
		s.Quotas = append(s.Quotas, quotas...)
	}
	for _, p := range m.providers {
		s.Providers = append(s.Providers, p)
	}
	for _, list := range m.providerFiles {
		s.Providers = append(s.Providers, list...)
	}
	return s
}

// restore makes a ledger of what a store would load.
func (m *mirror) restore(now ledger.Instant, config ledger.Config) (*ledger.Ledger, error) {
	l := ledger.New(config, newPlainPlacer())
	return l, l.Restore(now, m.snapshot(now))
}

// compare says where the ledger differs from a restored one, in what must survive a restart.
func (m *mirror) compare(now ledger.Instant, config ledger.Config, l *ledger.Ledger) string {
	restored, err := m.restore(now, config)
	if err != nil {
		return "restore: " + err.Error()
	}
	var report strings.Builder
	if diff := cmp.Diff(booksOf(l), booksOf(restored), cmpopts.EquateEmpty()); diff != "" {
		fmt.Fprintf(&report, "a restored ledger has other books (-this +restored):\n%s", diff)
	}
	for name, l := range map[string]*ledger.Ledger{"this ledger": l, "a restored one": restored} {
		if got, want := l.Counts(), countsOf(l); got.Waiting != want.Waiting || got.Reserved != want.Reserved || got.Active != want.Active ||
			got.OverUsers != want.OverUsers || !l.Pending() && timePasses(l) {
			fmt.Fprintf(&report, "%s counts %+v; its allocations are %+v\n", name, got, want)
		}
	}
	for _, v := range restored.Audit() {
		fmt.Fprintf(&report, "a restored ledger breaks invariant %d: %s\n", v.Invariant, v.Message)
	}
	for _, r := range m.snapshot(now).Remembered {
		id, live, known := l.ByRequest(r.Caller, r.RequestID)
		otherID, otherLive, otherKnown := restored.ByRequest(r.Caller, r.RequestID)
		if id != otherID || live != otherLive || known != otherKnown {
			fmt.Fprintf(&report, "request %s of %s is %v %t %t, restored %v %t %t\n",
				r.RequestID, r.Caller, id, live, known, otherID, otherLive, otherKnown)
		}
	}
	return report.String()
}

// timePasses reports whether there is an allocation that ends by itself.
func timePasses(l *ledger.Ledger) (some bool) {
	l.Allocations(0, func(a *ledger.Allocation) bool {
		some = some || a.State != ledger.Active || a.Expires != 0
		return true
	})
	return some
}

// countsOf counts allocations one by one.
func countsOf(l *ledger.Ledger) (c ledger.Counts) {
	states := make(map[ledger.State]int)
	l.Allocations(0, func(a *ledger.Allocation) bool {
		states[a.State]++
		if len(a.OverUse) > 0 {
			c.OverUsers++
		}
		return true
	})
	c.Waiting, c.Reserved, c.Active = states[ledger.Waiting], states[ledger.Reserved], states[ledger.Active]
	return c
}

// books is what must be the same after a restart.
type books struct {
	Allocations []ledger.Allocation
	Hosts       map[string]ledger.HostRecord
	Accounts    map[string]balance
	Quotas      []ledger.Quota
	Hidden      []string
	Providers   []ledger.ProviderRecord
}

// balance is the numbers of an account that are added up again.
type balance struct {
	Limit, Protected, Used, Reserved resource.Vector
	Allocations                      int
	OverLimit                        bool
}

func booksOf(l *ledger.Ledger) books {
	b := books{Hosts: make(map[string]ledger.HostRecord), Accounts: make(map[string]balance), Quotas: l.Quotas(), Providers: l.Providers()}
	for _, h := range l.HiddenQuotas() {
		b.Hidden = append(b.Hidden, fmt.Sprint(&h))
	}
	l.Allocations(0, func(a *ledger.Allocation) bool {
		row := *a
		row.Measured, row.Peak, row.CPUTime, row.Unreclaimable = resource.Vector{}, ledger.Peak{}, 0, 0 // reported again
		row.PassedSince = 0                                                                             // waiting begins again
		row.Expires = 0                                                                                 // has a grace after a load
		if row.State == ledger.Waiting {
			row.Reason = "" // what blocks it now, with all hosts still to report
		}
		b.Allocations = append(b.Allocations, row)
		return true
	})
	account := func(a ledger.AccountInfo) {
		b.Accounts[a.Name.String()] = balance{
			Limit: a.Limit, Protected: a.Protected, Used: nonZero(a.Used), Reserved: nonZero(a.Reserved),
			Allocations: a.Allocations, OverLimit: a.OverLimit,
		}
	}
	l.Hosts("", func(h ledger.HostInfo) bool {
		b.Hosts[h.ID] = h.HostRecord
		account(h.Account)
		return true
	})
	l.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		account(a)
		return true
	})
	l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		for _, a := range append(l.QueueUsers(q.Address), q.Account) {
			if a.Allocations > 0 { // what its cluster said of it is not stored
				a.Limit, a.OverLimit = resource.Vector{}, false
				account(a)
			}
		}
		return true
	})
	return b
}

// nonZero leaves out what is zero: a total keeps the dimensions that it once had.
func nonZero(v resource.Vector) resource.Vector {
	for dimension, quantity := range v.All() {
		if quantity == 0 {
			v = v.Without(dimension)
		}
	}
	return v
}

package ledger_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// check compares everything that can be seen from outside.
func (m *machine) check(t *rapid.T) {
	t.Helper()
	for _, v := range m.ledger.Audit() {
		t.Fatalf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
	m.audit.step(t, m.ledger)
	m.checkRows(t)
	m.checkAccounts(t)
	m.checkHosts(t)
	m.checkRequests(t)
	m.checkWaiting(t)
	m.checkQueues(t)
	m.checkOverUsers(t)
	if wrong := m.ledger.CheckShareUses() + m.ledger.CheckAccountSets(); wrong != "" {
		t.Fatal(wrong)
	}
	for id, r := range m.model.rows {
		if got, want := m.ledger.ShareOf(id), m.model.share(r.Labels); got != want {
			t.Fatalf("the share of %s (%s) is %v; want %v", id, r.Labels, got, want)
		}
	}
	if m.step++; m.step%4 == 0 {
		if report := m.mirror.compare(m.model.now, modelConfig(), m.ledger); report != "" {
			t.Fatal(report)
		}
	}
}

// checkBlocker: what an allocation waits for by its reason is an account that it charges, or any
// host.
func (m *machine) checkBlocker(t *rapid.T, a *ledger.Allocation) {
	t.Helper()
	names := []string{"a host"}
	if a.HostID != "" {
		names = []string{"host " + a.HostID}
	}
	for _, account := range append(m.model.quotas(a.Labels), m.model.chains(a)...) {
		names = append(names, account.name)
	}
	_, blocker, said := strings.Cut(a.Reason, "waits for ")
	if strings.Contains(blocker, "none is there yet") || strings.Contains(blocker, " to have ") {
		if m.model.possible(a) {
			t.Fatalf("%s waits because of %q, and there is such a host", a.ID, a.Reason)
		}
		return
	}
	if !said || !slices.Contains(names, blocker) {
		t.Fatalf("%s waits because of %q; it touches %q", a.ID, a.Reason, names)
	}
}

// checkRows: invariant 3, and that the last transition of an allocation is its row.
func (m *machine) checkRows(t *rapid.T) {
	t.Helper()
	seen := make(map[ledger.ID]bool)
	last := ledger.ID(0)
	m.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		row := m.model.rows[a.ID]
		if row == nil || a.ID <= last || seen[a.ID] {
			t.Fatalf("invariant 3: %s is %s and was not announced, or not in order", a.ID, a.State)
		}
		last, seen[a.ID] = a.ID, true
		got, want := *a, row.Allocation
		// what is measured is no transition
		for _, side := range []*ledger.Allocation{&got, &want} {
			side.Measured, side.Peak, side.CPUTime, side.Unreclaimable, side.PassedSince = resource.Vector{}, ledger.Peak{}, 0, 0, 0
		}
		if got.State == ledger.Waiting && got.Reason != want.Reason { // it says what blocks it now
			m.checkBlocker(t, &got)
			got.Reason = want.Reason
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s is not as it was announced:\n%s", a.ID, diff)
		}
		return true
	})
	if len(seen) != len(m.model.rows) {
		t.Fatalf("invariant 3: %d are live; want %d", len(seen), len(m.model.rows))
	}
}

// checkAccounts: invariant 2, and that exactly those accounts exist that should.
func (m *machine) checkAccounts(t *rapid.T) {
	t.Helper()
	want := m.model.accounts()
	m.accounts(func(a ledger.AccountInfo) {
		name := a.Name.String()
		account, exists := want[name]
		if !exists {
			t.Fatalf("there is an account %s", name)
		}
		delete(want, name)
		used, reserved, held := m.model.sums(account)
		if !maps.Equal(used, amounts(a.Used)) || !maps.Equal(reserved, amounts(a.Reserved)) || held != a.Allocations {
			t.Fatalf("invariant 2: %s has used %s reserved %s of %d; want %v %v of %d", name, a.Used, a.Reserved, a.Allocations, used, reserved, held)
		}
		if a.OverLimit != m.model.exceeded(account) {
			t.Fatalf("%s over its limit: %t, with used %v, reserved %v of %v", name, a.OverLimit, used, reserved, account.most)
		}
	})
	for name := range want {
		t.Fatalf("there is no account %s", name)
	}
}

func amounts(v resource.Vector) map[string]int64 {
	list := make(map[string]int64)
	for dimension, quantity := range v.All() {
		if quantity != 0 {
			list[dimension] = quantity
		}
	}
	return list
}

// checkHosts compares health and headroom.
func (m *machine) checkHosts(t *rapid.T) {
	t.Helper()
	for id, h := range m.model.hosts {
		info, known := m.ledger.Host(id)
		if !known {
			t.Fatalf("there is no host %s", id)
		}
		if (info.Unavailable == "") != m.model.open(h) {
			t.Fatalf("host %s is closed because of %q; the model has %+v", id, info.Unavailable, h)
		}
		if (info.State == ledger.LostHost) != h.lost || (info.State == ledger.Returning) != (!h.heard && !h.lost && h.lastSync.Add(patience) > m.model.now) {
			t.Fatalf("host %s is %s; the model has %+v", id, info.State, h)
		}
		if info.Headroom != nil && *info.Headroom != m.model.headroom(h) {
			t.Fatalf("host %s has headroom %d; want %d", id, *info.Headroom, m.model.headroom(h))
		}
	}
}

// checkRequests: invariant 5, as far as it can be seen without asking again.
func (m *machine) checkRequests(t *rapid.T) {
	t.Helper()
	for _, caller := range []string{"local", "a"} {
		for _, request := range requestIDs {
			id, live, known := m.ledger.ByRequest(caller, request)
			wantID, wantLive, wantKnown := m.model.request(caller, request)
			if id != wantID || live != wantLive || known != wantKnown {
				t.Fatalf("invariant 5: request %s of %s is %s %t %t; want %s %t %t", request, caller, id, live, known, wantID, wantLive, wantKnown)
			}
		}
	}
}

// request finds what became of a request: a live allocation, or the last one that ended in the
// last 24 h.
func (m *model) request(caller, request string) (id ledger.ID, live, known bool) {
	for _, r := range m.rows {
		if r.Caller == caller && r.RequestID == request {
			return r.ID, true, true
		}
	}
	var latest ledger.Allocation
	for id := range m.ended {
		a := m.ended[id]
		if m.rows[id] == nil && a.Caller == caller && a.RequestID == request && !a.Forget && a.Ended.Add(retention) > m.now && a.Ended >= latest.Ended {
			latest = a
		}
	}
	return latest.ID, false, latest.ID != 0
}

// checkWaiting: invariant 7, and that no request waits for what is free.
func (m *machine) checkWaiting(t *rapid.T) {
	t.Helper()
	held := m.holds()
	for name, id := range held {
		if r := m.model.rows[id]; r == nil || r.State != ledger.Waiting || !r.present() {
			t.Fatalf("%s is held for %s, which does not wait", name, id)
		}
		if a, _ := m.ledger.Get(id); a.PassedSince == 0 || a.Created.Add(starvationAfter) > m.model.now {
			t.Fatalf("%s is held for %s, which nobody has gone past, or which has not waited for long", name, id)
		}
	}
	m.checkWindows(t)
	m.checkShares(t)
	for _, r := range m.model.rows {
		switch {
		case r.Expires != 0 && r.Expires <= m.model.now:
			t.Fatalf("%s should have expired at %d", r.ID, r.Expires)
		case r.State != ledger.Waiting:
		case r.WaitDeadline <= m.model.now:
			t.Fatalf("invariant 7: %s waits beyond its deadline", r.ID)
		case !r.present() && r.detached.Add(callerGrace) <= m.model.now:
			t.Fatalf("invariant 7: %s waits for its caller for too long", r.ID)
		case r.present():
			x, err := m.ledger.ExplainID(m.model.now, r.ID, identity.Actor{})
			hosts := m.model.fits(&r.Allocation, held)
			if err != nil || x.Verdict == ledger.Fits || len(hosts) > 0 {
				t.Fatalf("%s waits, although it fits on %v: %v, %v", r.ID, hosts, x.Verdict, err)
			}
		}
	}
}

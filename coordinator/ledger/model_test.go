package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// TestLedgerAgreesWithAModel gives a ledger random commands, of every kind, and compares what it announces with a slow and
// obvious model: after every step, as an outside observer could, by the invariants of design §12. For long runs:
//
//	go test -run Model -rapid.checks=20000 -rapid.steps=100
func TestLedgerAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.prepare(t)
		t.Repeat(map[string]func(*rapid.T){
			"allocate": m.allocate, "allocate more": m.allocate, "allocate and wait": m.allocateAndWait, "repeat": m.repeat,
			"detach": m.detach, "explain": m.explain,
			"confirm": m.confirm, "release": m.release, "cancel": m.cancel, "renew": m.renew, "resize": m.resize, "stop": m.stop,
			"start an engine": m.startEngine, "run an engine": m.runEngine, "end an engine": m.endEngine,
			"sync": m.sync, "sync in full": m.syncInFull, "sync out of order": m.syncOutOfOrder, "sync twice": m.sync,
			"register": m.register, "deregister": m.deregister, "cordon": m.cordon,
			"put a quota": m.putQuota, "delete a quota": m.deleteQuota, "set quotas": m.setQuotas,
			"advance": m.advance, "advance to the next timer": m.advanceToTimer, "restart": m.restart,
			"": func(t *rapid.T) { m.check(t) },
		})
		m.settleDown(t)
	})
}

// machine is a ledger, a second one that gets the same commands, the store behind it, and the model beside it.
type machine struct {
	ledger, twin *ledger.Ledger
	mirror       *mirror
	model        *model
	agents       map[string]*modelAgent
	bodies       map[string]ledger.AllocateCommand // by request id
	adopting     map[ledger.ID]adoption            // of the report under way
	step         int
}

func newMachine(*rapid.T) *machine {
	return &machine{
		ledger: ledger.New(ledger.Config{}, newPlainPlacer()), twin: ledger.New(ledger.Config{}, newPlainPlacer()),
		mirror: newMirror(retention), model: newModel(), agents: make(map[string]*modelAgent),
		bodies: make(map[string]ledger.AllocateCommand), adopting: make(map[ledger.ID]adoption),
	}
}

// expected is what a command does to allocations, by the states that each goes through, grants to those who wait left out.
type expected map[ledger.ID][]ledger.State

// do gives a command to both ledgers, follows what they announce, and compares that with what was expected. The command is
// run twice: what it keeps is the ledger's own.
func (m *machine) do(t *rapid.T, want func() expected, command func(l *ledger.Ledger)) {
	t.Helper()
	held := m.holds()
	waited := m.overdue()
	command(m.twin)
	command(m.ledger)
	changes, same := m.ledger.Changes(), m.twin.Changes()
	if diff := cmp.Diff(changes, same); diff != "" {
		t.Fatalf("the same commands do not make the same changes (-one +other):\n%s", diff)
	}
	m.mirror.fold(changes)
	got := make(expected)
	for i := range changes.Transitions {
		a := &changes.Transitions[i]
		if before := m.model.rows[a.ID]; a.State == ledger.Reserved && (before == nil || before.State == ledger.Waiting) {
			m.granted(t, a, held, waited)
		}
		if before := m.model.rows[a.ID]; a.State != ledger.Reserved || before == nil || before.State != ledger.Waiting {
			got[a.ID] = append(got[a.ID], a.State)
		}
		m.follow(t, a)
	}
	if diff := cmp.Diff(want(), got, cmp.Comparer(func(a, b expected) bool {
		return maps.EqualFunc(a, b, slices.Equal[[]ledger.State])
	})); diff != "" {
		t.Fatalf("transitions (-want +got):\n%s", diff)
	}
}

// nothing is what most refusals do.
func nothing() expected { return expected{} }

func only(id ledger.ID, states ...ledger.State) func() expected {
	return func() expected { return expected{id: states} }
}

// follow takes over a transition, if it is one that may be.
func (m *machine) follow(t *rapid.T, a *ledger.Allocation) {
	t.Helper()
	before := m.model.rows[a.ID]
	from := ledger.State(0)
	if before != nil {
		from = before.State
	}
	if !slices.Contains(successors(from), a.State) {
		t.Fatalf("invariant 3: %s goes from %s to %s", a.ID, from, a.State)
	}
	for _, id := range []string{a.HostID, hostOf(before)} {
		if h := m.model.hosts[id]; h != nil && (a.State.Holds() || from.Holds()) {
			h.touched = a.Revision
		}
	}
	if !a.State.Live() {
		m.model.ended[a.ID] = *a
		delete(m.model.rows, a.ID)
		return
	}
	row := &modelRow{Allocation: *a}
	switch {
	case before != nil:
		row.callers, row.detached, row.touched = before.callers, before.detached, before.touched
	case a.State == ledger.Active:
		m.adopt(t, row)
	}
	switch {
	case a.State == ledger.Waiting && from == ledger.Reserved: // taken back: its caller was told otherwise
		row.callers, row.detached, row.touched = 0, m.model.now, 0
	case a.State == ledger.Reserved && from != ledger.Reserved:
		row.callers, row.touched = 0, 0
	}
	m.model.rows[a.ID] = row
}

// adopt checks an engine that an agent has brought: it is as described, and flagged where an account lacks the room.
func (m *machine) adopt(t *rapid.T, row *modelRow) {
	t.Helper()
	by, brought := m.adopting[row.ID]
	if !brought || !row.Entitled.Equal(by.entitled) {
		t.Fatalf("%s is adopted with %s; want %s", row.ID, row.Entitled, by.entitled)
	}
	row.touched = by.touched
	over := false
	for _, account := range append(m.model.quotas(row.Labels), by.host) {
		over = over || m.model.short(account, row.Entitled.Vector)
	}
	if row.OverLimit != over {
		t.Fatalf("%s is adopted with %s, over the limit: %t; want %t", row.ID, row.Entitled, row.OverLimit, over)
	}
}

func hostOf(r *modelRow) string {
	if r == nil {
		return ""
	}
	return r.HostID
}

// successors are the states that may follow a state; zero is an allocation that is new, or that an agent brings back.
func successors(s ledger.State) []ledger.State {
	switch s {
	case 0:
		return []ledger.State{ledger.Waiting, ledger.Reserved, ledger.Active}
	case ledger.Waiting:
		return []ledger.State{ledger.Reserved, ledger.Released, ledger.Expired, ledger.Canceled, ledger.Lost}
	case ledger.Reserved:
		return []ledger.State{
			ledger.Waiting, ledger.Reserved, ledger.Active, ledger.Released, ledger.Expired, ledger.Canceled, ledger.Lost,
		}
	case ledger.Active:
		return []ledger.State{ledger.Active, ledger.Released, ledger.Expired, ledger.Lost}
	default:
		return nil
	}
}

// granted checks a grant at its moment: invariants 1 and 9, who it goes to, and whose turn it was.
func (m *machine) granted(t *rapid.T, a *ledger.Allocation, held holds, waited bool) {
	t.Helper()
	row := m.model.rows[a.ID]
	if row != nil && !row.present() {
		t.Fatalf("%s is granted to nobody", a.ID)
	}
	request := a.Entitled.Vector
	accounts := m.model.quotas(a.Labels)
	h := m.model.hosts[a.HostID]
	if h == nil || !m.model.open(h) || !matches(h, a.Wishes) && (a.Wishes == nil || a.Wishes.Host == "") {
		t.Fatalf("%s is granted on host %q: %+v", a.ID, a.HostID, h)
	}
	accounts = append(accounts, hostAccount(h))
	now := m.holds()
	for _, account := range accounts {
		if m.model.short(account, request) {
			t.Fatalf("invariant 1: %s is granted %s, which %s does not have", a.ID, request, account.name)
		}
		if held[account.name] == now[account.name] && held.against(account, request, a.ID) {
			t.Fatalf("%s is granted %s, which %s keeps for %s", a.ID, request, account.name, held[account.name])
		}
	}
	if asked := request.Memory(); asked != 0 && asked > m.model.headroom(h) {
		t.Fatalf("invariant 9: %s is granted %d bytes on %s, whose headroom is %d", a.ID, asked, h.id, m.model.headroom(h))
	}
	if row == nil || waited || len(held) > 0 || len(now) > 0 {
		return
	}
	for _, other := range m.model.rows {
		if other.State == ledger.Waiting && other.present() && other.ID != a.ID && m.model.before(other, row) &&
			len(m.model.fits(&other.Allocation, nil)) > 0 {
			t.Fatalf("%s is granted, and it was the turn of %s", a.ID, other.ID)
		}
	}
}

// holds reads for whom accounts are held.
func (m *machine) holds() holds {
	h := make(holds)
	m.accounts(func(a ledger.AccountInfo) {
		if a.HeldFor != 0 {
			h[a.Name.String()] = a.HeldFor
		}
	})
	return h
}

func (m *machine) accounts(each func(ledger.AccountInfo)) {
	m.ledger.Hosts("", func(h ledger.HostInfo) bool {
		each(h.Account)
		return true
	})
	m.ledger.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		each(a)
		return true
	})
}

// overdue reports whether somebody has been passed over for so long that an account may be held for it.
func (m *machine) overdue() bool {
	overdue := false
	m.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		overdue = overdue || a.State == ledger.Waiting && a.PassedSince != 0 && a.PassedSince.Add(starvationAfter) <= m.model.now
		return true
	})
	return overdue
}

// check compares everything that can be seen from outside.
func (m *machine) check(t *rapid.T) {
	t.Helper()
	for _, v := range m.ledger.Audit() {
		t.Fatalf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
	m.checkRows(t)
	m.checkAccounts(t)
	m.checkHosts(t)
	m.checkRequests(t)
	m.checkWaiting(t)
	if m.step++; m.step%4 == 0 {
		if report := m.mirror.compare(m.model.now, ledger.Config{}, m.ledger); report != "" {
			t.Fatal(report)
		}
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
		for _, side := range []*ledger.Allocation{&got, &want} { // what is measured is no transition
			side.Measured, side.Unreclaimable, side.PassedSince = resource.Vector{}, 0, 0
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

// request finds what became of a request: a live allocation, or the last one that ended in the last 24 h.
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

// checkWaiting: invariant 7, and that nobody waits for what is there.
func (m *machine) checkWaiting(t *rapid.T) {
	t.Helper()
	held := m.holds()
	for name, id := range held {
		if r := m.model.rows[id]; r == nil || r.State != ledger.Waiting || !r.present() {
			t.Fatalf("%s is held for %s, which does not wait", name, id)
		}
	}
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
			x, err := m.ledger.ExplainID(m.model.now, r.ID)
			hosts := m.model.fits(&r.Allocation, held)
			if err != nil || x.Verdict == ledger.Fits || len(hosts) > 0 {
				t.Fatalf("%s waits, although it fits on %v: %v, %v", r.ID, hosts, x.Verdict, err)
			}
		}
	}
}

// kind names an error by its type.
func kind(err error) string {
	if err == nil {
		return ""
	}
	for name, is := range map[string]bool{
		"insufficient": as[*ledger.InsufficientError](err), "field": as[*ledger.FieldError](err), "not found": as[*ledger.NotFoundError](err),
		"state": as[*ledger.StateError](err), "conflict": as[*ledger.ConflictError](err), "denied": as[*ledger.DeniedError](err),
		"stale": as[*ledger.StaleError](err),
	} {
		if is {
			return name
		}
	}
	return "an error without a type: " + err.Error()
}

func as[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// wantKind compares the kind of an error.
func wantKind(t *rapid.T, want string, err error) {
	t.Helper()
	if kind(err) != want {
		t.Fatalf("error %q is of the kind %q; want %q", fmt.Sprint(err), kind(err), want)
	}
}

// What the commands are made of.
var (
	requestIDs = []string{"r1", "r2", "r3", "r4"}
	labelSets  = []label.Set{
		nil, label.Of("user", "a"), label.Of("user", "b"), label.Of("user", "c"), label.Of("creator", "x"),
		label.Of("user", "a", "creator", "x"), label.Of("user", "a", "creator", "y"), label.Of("user", "b", "creator", "x"),
		label.Of("user", "c", "creator", "x", "tenant", "t"),
	}
	hostIDs = []string{"h1", "h2", "h3"}
)

package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// TestLedgerAgreesWithAModel gives a ledger random commands, of every kind, and compares what it
// announces with a slow and obvious model: after every step, as an outside observer could, by the
// invariants of design §12. For long runs:
//
//	go test -run Model -rapid.checks=20000 -rapid.steps=100
func TestLedgerAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.prepare(t)
		always := map[string]func(*rapid.T){
			"":         func(t *rapid.T) { m.check(t) },
			"allocate": m.allocate, "allocate and wait": m.allocateAndWait, "release": m.release, "time passes": m.beat,
			"read the clusters": m.readClusters,
		}
		sometimes := map[string]func(*rapid.T){
			"allocate more": m.allocate, "wait more": m.allocateAndWait, "repeat": m.repeat, "detach": m.detach, "explain": m.explain,
			"confirm": m.confirm, "cancel": m.cancel, "amend": m.amend, "renew": m.renew, "resize": m.resize, "stop": m.stop,
			"start an engine": m.startEngine, "run an engine": m.runEngine, "end an engine": m.endEngine,
			"sync": m.sync, "sync in full": m.syncInFull, "sync out of order": m.syncOutOfOrder,
			"name what is elsewhere": m.nameOthers,
			"register":               m.register, "deregister": m.deregister, "cordon": m.cordon,
			"put a quota": m.putQuota, "delete a quota": m.deleteQuota, "set quotas": m.setQuotas,
			"put a provider": m.putProvider, "delete a provider": m.deleteProvider, "report a cluster": m.reportCluster,
			"report a cluster again": m.reportCluster, "a cluster is silent": m.clusterSilent,
			"advance": m.advance, "advance to the next timer": m.advanceToTimer, "restart": m.restart,
		}
		if m.abroad {
			maps.DeleteFunc(sometimes, func(name string, _ func(*rapid.T)) bool { return !slices.Contains(aboutClusters, name) })
		}
		// A run with a few kinds of commands gets deeper into what these can do together than one
		// with all of them.
		maps.Copy(always, sometimes)
		if often := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(sometimes))), 0, 8, rapid.ID[string]).Draw(t, "only"); len(often) > 0 {
			for name := range sometimes {
				if !slices.Contains(often, name) {
					delete(always, name)
				}
			}
		}
		t.Repeat(always)
		m.settleDown(t)
	})
}

// machine is a ledger, a second one that gets the same commands, the store behind it, and the
// model.
type machine struct {
	audit        steppedAudit
	ledger, twin *ledger.Ledger
	mirror       *mirror
	model        *model
	agents       map[string]*modelAgent
	bodies       map[string]ledger.AllocateCommand // by request id
	adopting     map[ledger.ID]adoption            // of the report under way
	// who is canceled now, unless stopped, was refused, or never came back: its request is not
	// remembered
	forgets bool
	// amending is the request that a command amends, and amendedAgain says that it waits on.
	amending     ledger.ID
	amendedAgain bool
	step         int
	windows      map[string]window // holds that were seen, by account
	shares       map[string]window // those on shared accounts, by share
	abroad       bool              // this run is about clusters: most of what is asked for is there
}

func newMachine() *machine {
	return &machine{
		ledger: ledger.New(modelConfig(), newPlainPlacer()), twin: ledger.New(modelConfig(), newPlainPlacer()),
		mirror: newMirror(), model: newModel(), agents: make(map[string]*modelAgent),
		bodies: make(map[string]ledger.AllocateCommand), adopting: make(map[ledger.ID]adoption),
	}
}

// expected is what a command does to allocations, by the states that each goes through, without
// the grants of waiting requests.
type expected map[ledger.ID][]ledger.State

// do gives a command to both ledgers, follows what they announce, and compares that with what was
// expected. The command is run twice: what it keeps is the first ledger's.
func (m *machine) do(t *rapid.T, want func() expected, command func(l *ledger.Ledger)) {
	t.Helper()
	held := m.holds()
	kept, had := m.keptOut(held), m.holding()
	waited := m.overdue()
	now := m.model.now
	// time never goes back: this changes nothing
	m.model.now = now.Add(-time.Duration(m.step%3) * time.Hour)
	command(m.twin)
	m.model.now = now
	command(m.ledger)
	goOn(m.twin, now)
	goOn(m.ledger, now)
	changes, same := m.ledger.Changes(), m.twin.Changes()
	if diff := cmp.Diff(changes, same, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the same commands do not make the same changes (-one +other):\n%s", diff)
	}
	m.mirror.fold(changes)
	m.ledger.Durable(now, changes.Revision)
	m.twin.Durable(now, changes.Revision)
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
	m.checkKeptOut(t, kept)
	m.checkOwn(t, held, had)
}

// goOn does what a step has left to the next ones, which are due at once.
func goOn(l *ledger.Ledger, now ledger.Instant) {
	for range 100 {
		if due, set := l.NextTimer(); !set || due > now {
			return
		}
		l.Advance(now)
	}
}

// nothing is what most refusals do.
func nothing() expected { return expected{} }

func only(id ledger.ID, states ...ledger.State) func() expected {
	return func() expected { return expected{id: states} }
}

// follow applies a transition, if it is an allowed one.
func (m *machine) follow(t *rapid.T, a *ledger.Allocation) {
	t.Helper()
	before := m.model.rows[a.ID]
	from := ledger.State(0)
	if before != nil {
		from = before.State
	}
	amended := from == ledger.Waiting && a.State == ledger.Waiting && a.ID == m.amending
	m.amendedAgain = m.amendedAgain || amended
	if !amended && !slices.Contains(successors(from), a.State) {
		t.Fatalf("invariant 3: %s goes from %s to %s", a.ID, from, a.State)
	}
	for _, id := range []string{a.HostID, hostOf(before)} {
		if h := m.model.hosts[id]; h != nil && (a.State.Holds() || from.Holds()) {
			h.touched = a.Revision
		}
	}
	if !a.State.Live() {
		canceled := m.forgets && a.State == ledger.Canceled && !a.Stopping && !strings.Contains(a.Reason, "is drained")
		if a.Forget != (canceled || before.brought) {
			t.Fatalf("%s is %s (%s), its request id free again: %t", a.ID, a.State, a.Reason, a.Forget)
		}
		m.checkOverUse(t, a, before.known())
		m.model.ended[a.ID] = *a
		delete(m.model.rows, a.ID)
		return
	}
	row := &modelRow{Allocation: *a}
	switch {
	case before != nil:
		row.callers, row.detached, row.touched, row.overUse = before.callers, before.detached, before.touched, before.overUse
		row.brought = before.brought
		if from.Holds() && a.State.Holds() {
			row.elsewhere = before.elsewhere
		}
	case a.State == ledger.Active:
		m.adopt(t, row)
	default:
	}
	switch {
	case a.State == ledger.Waiting && from == ledger.Reserved:
		// taken back: its caller was told otherwise
		row.callers, row.detached, row.touched = 0, m.model.now, 0
	case a.State == ledger.Reserved && from != ledger.Reserved:
		row.callers, row.touched = 0, 0
	}
	m.checkOverUse(t, a, row.overUse)
	m.model.rows[a.ID] = row
}

// known is the over-use of a row, which may be missing.
func (r *modelRow) known() overUse {
	if r == nil {
		return nil
	}
	return r.overUse
}

// adopt checks an adopted engine: it is as described, and flagged if an account lacks the room.
func (m *machine) adopt(t *rapid.T, row *modelRow) {
	t.Helper()
	by, brought := m.adopting[row.ID]
	if !brought || !row.Entitled.Equal(by.entitled) {
		t.Fatalf("%s is adopted with %s; want %s", row.ID, row.Entitled, by.entitled)
	}
	row.touched, row.overUse, row.brought = by.touched, by.overUse, by.brought
	if row.Adopted() != by.brought {
		t.Fatalf("%s is adopted without its request being known: %t; want %t", row.ID, row.Adopted(), by.brought)
	}
	over := false
	for _, account := range append(append(m.model.quotas(row.Labels), by.host), m.model.chainsOf(row.Labels, row.Entitled)...) {
		over = over || m.model.short(account, row.Entitled)
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

// successors are the states that may follow a state; zero is an allocation that is new, or that an
// agent brings back.
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
	request := a.Entitled
	accounts := m.model.quotas(a.Labels)
	for _, queue := range m.model.chains(a) {
		if m.model.shut(queue.queue) {
			t.Fatalf("%s is granted %s, and %s is not open", a.ID, request, queue.name)
		}
		accounts = append(accounts, queue)
	}
	h := m.model.hosts[a.HostID]
	if h == nil || !m.model.open(h) || !matches(h, a.Wishes) {
		t.Fatalf("%s is granted on host %q: %+v", a.ID, a.HostID, h)
	}
	accounts = append(accounts, hostAccount(h))
	now := m.holds()
	for _, account := range accounts {
		if m.model.short(account, request) {
			t.Fatalf("invariant 1: %s is granted %s, which %s does not have", a.ID, request, account.name)
		}
		if held[account.name] == now[account.name] && m.model.against(held, account, request, a.ID) && !m.sheltered(a, held, now, account) {
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
		if h.State != ledger.ExpectedHost { // one that has not come has no account
			each(h.Account)
		}
		return true
	})
	m.ledger.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		each(a)
		return true
	})
	m.ledger.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		each(q.Account)
		for _, u := range m.ledger.QueueUsers(q.Address) {
			each(u)
		}
		return true
	})
}

// overdue reports whether somebody has waited for so long that it may be starved: then it is not
// the turn of those who would be first otherwise.
func (m *machine) overdue() bool {
	overdue := false
	m.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		overdue = overdue || a.State == ledger.Waiting && a.Created.Add(starvationAfter) <= m.model.now
		return true
	})
	return overdue
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
	aboutClusters = []string{
		"allocate more", "wait more", "repeat", "detach", "explain", "confirm", "cancel", "amend", "resize", "put a provider", "delete a provider",
		"report a cluster", "report a cluster again", "a cluster is silent", "advance", "advance to the next timer", "restart",
	}
	requestIDs = []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"}
	labelSets  = []label.Set{
		nil, label.Of("user", "a"), label.Of("user", "b"), label.Of("user", "c"), label.Of("creator", "x"),
		label.Of("user", "a", "creator", "x"), label.Of("user", "a", "creator", "y"), label.Of("user", "b", "creator", "x"),
		label.Of("user", "c", "creator", "x", "tenant", "t"), label.Of("user", "a", "cluster", "q"),
	}
	hostIDs = []string{"h1", "h2", "h3"}
)

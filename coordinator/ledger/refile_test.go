package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// sound fails unless every sum of the ledger is that of its allocations.
func sound(t rapid.TB, l *ledger.Ledger) {
	t.Helper()
	for _, v := range l.Audit() {
		t.Fatalf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
	if wrong := l.CheckShareUses(); wrong != "" {
		t.Fatalf("%s", wrong)
	}
	if wrong := l.CheckAccountSets(); wrong != "" {
		t.Fatalf("%s", wrong)
	}
}

func noError(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// accountsOf are the accounts of all rules.
func accountsOf(l *ledger.Ledger) map[string]ledger.AccountInfo {
	accounts := make(map[string]ledger.AccountInfo)
	l.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		accounts[a.Name.String()] = a
		return true
	})
	return accounts
}

// Nothing holds the loop: rules that name no new labels come into force at once, for each account
// set.
func TestAChangeOfAWeightTakesNoLongerWithMoreAllocations(t *testing.T) {
	few, rule := limited(t, 20)
	many, _ := limited(t, 20_000)
	change := func(l *ledger.Ledger) func() time.Duration {
		changed := rule
		return func() time.Duration {
			return took(func() {
				for range 100 {
					changed.Weight = changed.Weight%2 + 1
					must(t, l.PutQuota(start, changed))
					l.Changes()
				}
			})
		}
	}
	wantRatio(t, "a change of a weight", 3, change(few), change(many))
	sound(t, many)
}

// Rules that name new labels come into force when every allocation is in a set of those that agree
// in them. That takes steps. Until then the rules before hold.
func TestRulesForNewLabelsComeIntoForceInSteps(t *testing.T) {
	const live = 10
	l, everybody := limited(t, 0)
	l.SetRefileStep(3)
	ask := func(engine string, memory int64) (ledger.ID, error) {
		a, err := l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "alice", "engine", engine),
			Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)), Wishes: &ledger.Wishes{Host: "h1"},
		})
		return a.Allocation.ID, err
	}
	var ids []ledger.ID
	for i := range live {
		id, err := ask([]string{"spark", "hive"}[i%2], 1)
		must(t, err)
		ids = append(ids, id)
	}
	engines := ledger.Quota{Selector: selector(t, "engine=*"), Limit: resource.Vector{}.WithMemory(6), Source: ledger.SourceAPI}
	must(t, l.PutQuota(start, engines)) // the first three are moved
	if at, due := l.NextTimer(); !due || at != start || !l.Refiling() {
		t.Fatalf("due %t at %d, under way %t: want more steps at once", due, at, l.Refiling())
	}
	if got := l.Quotas(); len(got) != 2 || len(l.Changes().Quotas) != 1 {
		t.Errorf("it lists %v: want the new rule, too, and its row", got)
	}
	must(t, l.PutQuota(start, engines)) // changes nothing, and may begin again
	sound(t, l)

	// Among those that are moved, those that are not, and new ones something happens meanwhile.
	_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: ids[0], Process: ledger.Process{PID: 1}})
	must(t, err)
	_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: ids[1]})
	must(t, err)
	_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: ids[live-1]})
	must(t, err)
	sound(t, l)
	if _, err = ask("spark", 5); err != nil {
		t.Errorf("the new rule is in force too early: %v", err)
	}
	if _, is := accountsOf(l)["quota engine=spark"]; is {
		t.Error("an account of the new rule too early")
	}
	for steps := 0; l.Refiling(); steps++ {
		sound(t, l)
		if steps > live {
			t.Fatal("it does not come to its end")
		}
		l.Advance(start)
	}
	sound(t, l)
	accounts := accountsOf(l)
	if spark, hive := accounts["quota engine=spark"], accounts["quota engine=hive"]; spark.Allocations != 6 || spark.Used.Memory() != 1 || spark.Reserved.Memory() != 9 ||
		!spark.OverLimit || hive.Allocations != 3 || hive.Reserved.Memory() != 3 || accounts["quota user=alice"].Allocations != 9 {
		t.Errorf("got %+v", accounts)
	}
	if _, err := ask("hive", 4); err == nil {
		t.Error("the new rule is not in force")
	}

	// without the rule, and with it again, all labels that it needs are known
	removed := everybody
	must(t, l.DeleteQuota(start, engines.Selector))
	if _, is := accountsOf(l)["quota engine=spark"]; is || l.Refiling() {
		t.Error("a rule that was removed is in force")
	}
	removed.Weight = 3
	must(t, l.PutQuota(start, removed))
	must(t, l.PutQuota(start, engines))
	if l.Refiling() {
		t.Error("what was told apart is told apart again")
	}
	if got := accountsOf(l); !cmp.Equal(got["quota engine=spark"], accounts["quota engine=spark"]) {
		t.Errorf("got %+v: want %+v", got, accounts)
	}
	sound(t, l)
}

// A rule that is removed before it was in force is as if it had never been put.
func TestARuleThatIsRemovedBeforeItIsInForce(t *testing.T) {
	l, _ := limited(t, 10)
	l.SetRefileStep(3)
	before := accountsOf(l)
	engines := ledger.Quota{Selector: selector(t, "engine=*"), Source: ledger.SourceAPI}
	must(t, l.PutQuota(start, engines))
	must(t, l.DeleteQuota(start, engines.Selector))
	if got := accountsOf(l); l.Refiling() || !cmp.Equal(got, before) || len(l.Quotas()) != 1 {
		t.Errorf("got %+v: want %+v", got, before)
	}
	sound(t, l)
}

// TestWhateverHappensWhileRulesComeIntoForce changes rules while others come into force, among all
// that happens to allocations. All sums stay right, and in the end the accounts are those of a
// ledger that was given all allocations and then the rules.
func TestWhateverHappensWhileRulesComeIntoForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newRefiled(t)
		t.Repeat(map[string]func(*rapid.T){
			"ask": w.ask, "release": w.release, "confirm": w.confirm, "resize": w.resize, "put": w.put, "remove": w.remove,
			"step": func(*rapid.T) { w.ledger.Advance(w.now) },
			"time": func(*rapid.T) { w.now = w.now.Add(time.Second); w.ledger.Advance(w.now) },
			"":     func(t *rapid.T) { sound(t, w.ledger) },
		})
		for range 1000 {
			if !w.ledger.Refiling() {
				break
			}
			w.ledger.Advance(w.now)
		}
		sound(t, w.ledger)
		if w.ledger.Refiling() {
			t.Fatal("rules do not come into force")
		}
		w.compareWithRestored(t)
	})
}

// refiled is a ledger whose rules come into force an allocation or two at a time.
type refiled struct {
	ledger *ledger.Ledger
	now    ledger.Instant
	ids    []ledger.ID
}

func newRefiled(t *rapid.T) *refiled {
	w := &refiled{ledger: ledger.New(ledger.Config{}, newPlainPlacer()), now: start}
	w.ledger.SetRefileStep(rapid.IntRange(1, 2).Draw(t, "step size"))
	for _, host := range []string{"h1", "h2"} {
		_, err := w.ledger.Register(start, ledger.RegisterCommand{HostID: host, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(12)})
		noError(t, err)
		available := int64(12)
		_, err = w.ledger.Sync(start, ledger.SyncCommand{HostID: host, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
		noError(t, err)
	}
	name := ledger.ClusterName{Kind: "yarn", Cluster: "prod"}
	noError(t, w.ledger.PutProvider(start, ledger.ProviderRecord{ClusterName: name}))
	noError(t, w.ledger.ReportCluster(start, ledger.ClusterReport{ClusterName: name, Asked: start, GoodFor: 24 * time.Hour, Settle: time.Hour, Queues: []ledger.QueueReport{
		{Path: "root", Limit: resource.Vector{}.WithMemory(20)},
		{Path: "root.a", Parent: "root", Limit: resource.Vector{}.WithMemory(16)},
		{Path: "root.b", Parent: "root", Limit: resource.Vector{}.WithMemory(16)},
	}}))
	return w
}

func (w *refiled) ask(t *rapid.T) {
	c := ledger.AllocateCommand{
		Actor: identity.Local(), Async: true, Wait: time.Hour, ReservationTTL: time.Hour,
		Labels: label.Of(
			"user", rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "user"),
			"engine", rapid.SampledFrom([]string{"", "hive", "spark"}).Draw(t, "engine"),
			"tenant", rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tenant"),
		),
		Resource: resource.NewResource(resource.Vector{}.WithMemory(rapid.Int64Range(1, 4).Draw(t, "memory"))),
	}
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"root.a", "root.b"}), 0, 2, rapid.ID[string]).Draw(t, "queues") {
		at := resource.Address{Kind: "yarn", Cluster: "prod", Path: path}
		c.Resource = c.Resource.WithPart(at, resource.Vector{}.WithMemory(rapid.Int64Range(0, 3).Draw(t, path)))
	}
	if a, err := w.ledger.Allocate(w.now, c); err == nil {
		w.ids = append(w.ids, a.Allocation.ID)
	}
}

func (w *refiled) some(t *rapid.T) ledger.ID {
	if len(w.ids) == 0 {
		return 0
	}
	return rapid.SampledFrom(w.ids).Draw(t, "allocation")
}

func (w *refiled) release(t *rapid.T) {
	_, _ = w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: w.some(t)})
}

func (w *refiled) confirm(t *rapid.T) {
	_, _ = w.ledger.Confirm(w.now, ledger.ConfirmCommand{Actor: identity.Local(), ID: w.some(t), Process: ledger.Process{PID: 1}})
}

func (w *refiled) resize(t *rapid.T) {
	a, live := w.ledger.Get(w.some(t))
	if !live {
		return
	}
	to := a.Entitled
	to.Vector = to.WithMemory(rapid.Int64Range(1, 6).Draw(t, "memory"))
	for _, part := range a.Entitled.External {
		to = to.WithPart(part.Address, resource.Vector{}.WithMemory(rapid.Int64Range(0, 4).Draw(t, "of a part")))
	}
	_, _ = w.ledger.Resize(w.now, ledger.ResizeCommand{Actor: identity.Local(), ID: a.ID, Entitled: to})
}

var refiledSelectors = []string{"", "user=*", "user=alice", "engine=*", "engine=spark", "tenant=*", "tenant=*,user=*", "engine=*,tenant=x"}

func (w *refiled) put(t *rapid.T) {
	q := ledger.Quota{Limit: resource.Vector{}.WithMemory(rapid.Int64Range(0, 24).Draw(t, "limit")), Weight: rapid.Int32Range(0, 3).Draw(t, "weight")}
	q.Selector, _ = label.ParseSelector(rapid.SampledFrom(refiledSelectors).Draw(t, "selector"))
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"*", "root", "root.a"}), 0, 2, rapid.ID[string]).Draw(t, "limits of external parts") {
		limit := resource.External{Address: resource.Address{Kind: "yarn", Path: path}, Vector: resource.Vector{}.WithMemory(rapid.Int64Range(0, 8).Draw(t, "in "+path))}
		q.External = resource.NewLimits(append(q.External, limit)...)
	}
	_ = w.ledger.PutQuota(w.now, q)
}

func (w *refiled) remove(t *rapid.T) {
	s, _ := label.ParseSelector(rapid.SampledFrom(refiledSelectors).Draw(t, "selector"))
	_ = w.ledger.DeleteQuota(w.now, s)
}

// compareWithRestored compares the accounts with those of a ledger that has loaded the rows.
func (w *refiled) compareWithRestored(t *rapid.T) {
	s := ledger.Snapshot{Revision: w.ledger.Revision(), Quotas: w.ledger.Quotas()}
	s.Providers = []ledger.ProviderRecord{{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}}}
	w.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		s.Allocations = append(s.Allocations, *a)
		return true
	})
	for _, id := range []string{"h1", "h2"} {
		s.Hosts = append(s.Hosts, ledger.HostRecord{ID: id, Capacity: resource.Vector{}.WithMemory(12)})
	}
	again := ledger.New(ledger.Config{}, newPlainPlacer())
	noError(t, again.Restore(w.now, s))
	books := func(l *ledger.Ledger) map[string]string {
		accounts := make(map[string]string)
		for name, a := range accountsOf(l) {
			accounts[name] = fmt.Sprint(a.Used.Memory(), a.Reserved.Memory(), a.Allocations, a.OverLimit, a.Limit)
		}
		return accounts
	}
	if got, want := books(w.ledger), books(again); !cmp.Equal(got, want) {
		t.Fatalf("accounts: %s", cmp.Diff(want, got))
	}
}

package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// noPlacer is for requests that name their host.
type noPlacer struct{ Placer }

func (noPlacer) Put(Slot, HostView)                          {}
func (noPlacer) Book(Slot, resource.Vector, resource.Vector) {}

// audited is a ledger with right sums: two quotas, two hosts, and allocations on the first host.
type audited struct {
	*Ledger

	active, reserved, waiting, away *entry
	everybody, alice, bob           *account
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &audited{Ledger: New(Config{}, noPlacer{})}
	for _, text := range []string{"*", "user=*"} {
		selector, err := label.ParseSelector(text)
		check(err)
		check(w.PutQuota(1, Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(8)}))
	}
	available := int64(16)
	for _, host := range []string{"h1", "h2"} {
		_, err := w.Register(1, RegisterCommand{HostID: host, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		check(err)
		_, err = w.Sync(1, SyncCommand{HostID: host, Incarnation: 1, Sequence: 1, Full: true, Sample: &Sample{MemoryAvailable: &available}})
		check(err)
	}
	yarn := ClusterName{Kind: "yarn", Cluster: "prod"}
	check(w.PutProvider(1, ProviderRecord{ClusterName: yarn}))
	check(w.ReportCluster(1, ClusterReport{ClusterName: yarn, Asked: 1, GoodFor: time.Hour, Queues: []QueueReport{{Path: "root", Limit: resource.Vector{}.WithMemory(8)}}}))
	part := resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: resource.Vector{}.WithMemory(1)}
	ask := func(user string, memory int64, async bool, parts ...resource.External) *entry {
		t.Helper()
		result, err := w.Allocate(1, AllocateCommand{
			Actor: identity.Actor{Name: user + "@h1", Anyone: true}, Labels: label.Of("user", user), Wishes: &Wishes{Host: "h1"},
			Resource: resource.NewResource(resource.Vector{}.WithMemory(memory), parts...), Wait: time.Hour, Async: async,
		})
		check(err)
		return w.entry(result.Allocation.ID)
	}
	w.active, w.reserved, w.waiting, w.away = ask("alice", 3, true, part), ask("bob", 2, true), ask("carol", 4, true), ask("carol", 4, false)
	_, err := w.Confirm(1, ConfirmCommand{Actor: identity.Local(), ID: w.active.ID})
	check(err)
	w.Detach(1, w.away.ID)
	w.everybody, w.alice, w.bob = w.active.accounts[0], w.active.accounts[1], w.reserved.accounts[1]
	return w
}

// Tests and the simulator rely on the audit. Here the ledger is wrong in one way each, and the
// audit must report it.
func TestTheAuditFindsEachMistake(t *testing.T) {
	one := resource.Vector{}.WithMemory(1)
	for name, test := range map[string]struct {
		spoil     func(w *audited)
		invariant int // 0: nothing is wrong
		says      string
	}{
		"nothing": {func(*audited) {}, 0, ""},
		"a wrong id": {func(w *audited) {
			w.entries.Delete(w.active.ID)
			w.entries.Set(100, w.active)
		}, 3, "is filed under"},
		"one that has ended":            {func(w *audited) { w.waiting.State = Canceled }, 3, "still in the books"},
		"an active one without a host":  {func(w *audited) { w.active.host = nil }, 3, "which does not have it"},
		"a reserved one elsewhere":      {func(w *audited) { w.reserved.HostID = "h2" }, 3, "which does not have it"},
		"on a host that is not there":   {func(w *audited) { delete(w.hosts, "h1") }, 3, "which does not have it"},
		"a waiting one with a host":     {func(w *audited) { w.waiting.host = w.hosts["h1"] }, 3, "waits and holds"},
		"a waiting one without a class": {func(w *audited) { w.waiting.class = nil }, 7, "waits behind nothing"},
		"a class that waits nowhere":    {func(w *audited) { w.waiting.class.group = nil }, 7, "waits behind nothing"},
		"a quota too few": {func(w *audited) {
			f := *w.active.accountSet
			f.accounts = f.accounts[:1]
			w.active.accountSet = &f
		}, 3, "touches 1 quota accounts, its labels 2"},
		"the quota of another": {func(w *audited) {
			f := *w.active.accountSet
			f.accounts = []*account{w.everybody, w.bob}
			w.active.accountSet = &f
		}, 3, "touches quota user=bob, its labels quota user=alice"},
		"a host in no table":                          {func(w *audited) { w.hostOrder = w.hostOrder[1:] }, 3, "host h1, which is in no table"},
		"too much in use":                             {func(w *audited) { w.alice.add(Active, one) }, 2, "quota user=alice: used memory=4B"},
		"too little reserved":                         {func(w *audited) { w.bob.subtract(Reserved, one) }, 2, "quota user=bob: used"},
		"too much reserved, on a host":                {func(w *audited) { w.hosts["h1"].account.add(Reserved, one) }, 2, "host h1: used"},
		"one too many":                                {func(w *audited) { w.everybody.held++ }, 2, "quota (all): used"},
		"over the limit":                              {func(w *audited) { w.alice.setLimit(one, one); w.alice.exceeded = false }, 1, "quota user=alice: over its limit"},
		"over the limit, as is known":                 {func(w *audited) { w.alice.setLimit(one, one) }, 0, ""},
		"a part in a queue that it does not count in": {func(w *audited) { w.active.external = nil }, 3, "touches 0 cluster queues, its parts 1"},
		"a queue that it counts in without a part":    {func(w *audited) { w.active.Entitled.External = nil }, 3, "touches 1 cluster queues, its parts 0"},
		"a queue that has too much in use":            {func(w *audited) { w.active.external.charges[0].queue.account.add(Active, one) }, 2, "queue yarn:prod:root: used"},
		"a cluster that nobody has configured":        {func(w *audited) { w.providers = nil }, 3, "cluster yarn:prod: configured true"},
		"a promise":                                   {func(w *audited) { w.hosts["h1"].promised++ }, 9, "host h1: promised 6, its allocations 5"},
		"bytes of a caller":                           {func(w *audited) { w.callers["alice@h1"].bytes++ }, 2, "the bytes of each caller"},
		"bytes of a host's callers":                   {func(w *audited) { w.relays["h1"].bytes++ }, 2, "the bytes of each callers of host"},
		"a caller who has nothing":                    {func(w *audited) { w.callers["zoe"] = &usage{name: "zoe"} }, 2, "the bytes of each caller"},
		"a caller who is nearly full":                 {func(w *audited) { c := w.callers["alice@h1"]; c.most = c.bytes }, 2, "callers with nearly as much as they may have: 1, and these or others are said to be: 0"},
		"callers of a host who are nearly full":       {func(w *audited) { c := w.relays["h1"]; c.most = c.bytes }, 2, "callers with nearly as much as they may have: 1, and these or others are said to be: 0"},
		"a caller who is not nearly full":             {func(w *audited) { w.full[&usage{}] = struct{}{} }, 2, "callers with nearly as much as they may have: 0, and these or others are said to be: 1"},
		"bytes of a host":                             {func(w *audited) { w.hosts["h1"].bytes-- }, 2, "host h1: "},
		"a host said to be full":                      {func(w *audited) { w.hosts["h2"].full = "full" }, 2, "host h2: 0 bytes, full"},
		"a host not said to be full":                  {func(w *audited) { w.cfg.HostLiveBytes = w.hosts["h1"].bytes }, 2, "host h1: "},
	} {
		w := newAudited(t)
		test.spoil(w)
		found := w.Audit()
		if test.invariant == 0 {
			if len(found) > 0 {
				t.Errorf("%s: %v", name, found)
			}
			continue
		}
		says := false
		for _, v := range found {
			says = says || v.Invariant == test.invariant && strings.Contains(v.Message, test.says)
		}
		if !says {
			t.Errorf("%s: found %v; want invariant %d: %s", name, found, test.invariant, test.says)
		}
	}
}

// What ends leaves nothing in the tables, except its remembered request id.
func TestNothingIsLeftInTheTablesOfWhatHasEnded(t *testing.T) {
	w := newAudited(t)
	for _, e := range []*entry{w.waiting, w.away, w.active, w.reserved} {
		if _, err := w.Release(1, ReleaseCommand{Actor: identity.Local(), ID: e.ID}); err != nil {
			t.Fatal(err)
		}
	}
	for name, left := range map[string]int{
		"allocations": w.entries.Len(), "account sets": len(w.accountSets), "shares": len(w.shares), "classes": len(w.classes), "callers": len(w.callers),
		// that of everybody stays
		"callers of hosts": len(w.relays), "callers that are full": len(w.full), "requests": w.requests.live, "quota accounts": w.Counts().QuotaAccounts - 1,
	} {
		if left != 0 {
			t.Errorf("%d %s are left", left, name)
		}
	}
}

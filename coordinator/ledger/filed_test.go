package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A ledger that was filed ahead shows what one shows that was loaded: also in an account whose last
// allocation has ended, and on a host that came after another one had gone.
func TestWhatWasFiledShowsWhatALoadShows(t *testing.T) {
	selector, err := label.ParseSelector("user=alice")
	if err != nil {
		t.Fatal(err)
	}
	host := func(id string) ledger.HostRecord {
		return ledger.HostRecord{ID: id, Capacity: resource.Vector{}.WithMemory(100).With("gpu", 4)}
	}
	held := func(id ledger.ID, user string, amount resource.Vector) ledger.Allocation {
		return ledger.Allocation{
			ID: id, State: ledger.Active, HostID: "b", Labels: label.Set{{Key: "user", Value: user}},
			Requested: resource.Resource{Vector: amount}, Entitled: resource.Resource{Vector: amount},
		}
	}
	inQueues := func(a ledger.Allocation, custom string) ledger.Allocation {
		at := resource.Address{Kind: "yarn", Cluster: "c", Path: "root.a"}
		a.Requested.External = []resource.External{{Address: at, Vector: resource.Vector{}.With(custom, 1)}}
		a.Entitled = a.Requested
		return a
	}
	anywhere := resource.External{
		Address: resource.Address{Kind: "yarn", Cluster: "*", Path: "*"}, Vector: resource.Vector{}.WithMemory(9).With("b", 5),
	}
	stays := held(2, "bob", resource.Vector{}.WithMemory(10))
	again := inQueues(held(4, "alice", resource.Vector{}), "b")
	rows := ledger.Snapshot{
		Revision: 9, LastID: 9, Quotas: []ledger.Quota{{Selector: selector, Limit: resource.Vector{}.WithMemory(50), External: []resource.External{anywhere}}},
		Hosts: []ledger.HostRecord{host("b"), host("a")}, Allocations: []ledger.Allocation{
			held(1, "alice", resource.Vector{}.With("gpu", 1)), stays, inQueues(held(3, "alice", resource.Vector{}), "a"), again,
		},
	}
	filed, err := ledger.File(ledger.Config{}, &rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := filed.Update(&ledger.Snapshot{Hosts: []ledger.HostRecord{host("c")}}, []ledger.ID{1, 3}, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	rows.Hosts, rows.Allocations = []ledger.HostRecord{host("b"), host("c")}, []ledger.Allocation{stays, again}
	restoredBoth(t, ledger.Config{}, rows, filed)
}

// Rows that are filed some at a time show what a load of all shows, in whichever order they come.
func TestRowsAreFiledSomeAtATime(t *testing.T) {
	selector, err := label.ParseSelector("user=*")
	if err != nil {
		t.Fatal(err)
	}
	rows := ledger.Snapshot{
		Revision: 9, LastID: 9, Quotas: []ledger.Quota{{Selector: selector, Limit: resource.Vector{}.WithMemory(50)}},
		Hosts: []ledger.HostRecord{{ID: "a", Capacity: resource.Vector{}.WithMemory(100)}, {ID: "b", Capacity: resource.Vector{}.WithMemory(100)}},
	}
	for id := range ledger.ID(6) {
		amount := resource.NewResource(resource.Vector{}.WithMemory(int64(id)+1), resource.External{
			Address: resource.Address{Kind: "yarn", Cluster: "c", Path: "root.a"}, Vector: resource.Vector{}.WithMemory(1),
		})
		rows.Allocations = append(rows.Allocations, ledger.Allocation{
			ID: id + 1, State: ledger.Active, HostID: string(rune('a' + id%2)), Labels: label.Set{{Key: "user", Value: "alice"}},
			Requested: amount, Entitled: amount,
		})
	}
	for name, order := range map[string][]int{"of the ids": {0, 1, 2, 3, 4, 5}, "another": {4, 5, 0, 1, 2, 3}, "one twice": {0, 1, 2, 3, 4, 5, 2}} {
		some := rows
		some.Allocations = nil
		filed, err := ledger.File(ledger.Config{}, &some)
		for i := 0; i < len(order) && err == nil; i++ {
			err = filed.Add(rows.Allocations[order[i] : order[i]+1])
		}
		if err != nil {
			t.Fatal(name, err)
		}
		for _, l := range restoredBoth(t, ledger.Config{}, rows, filed) {
			if found := l.Audit(); len(found) > 0 {
				t.Error(name, found)
			}
		}
	}
}

// What was filed before a part followed its application to another queue counts there afterwards,
// and in no other place, as after a load: in the queues, in what the user has of them, and in the
// limits of external parts.
func TestWhatWasFiledMovesToAnotherQueue(t *testing.T) {
	cfg := ledger.Config{Terms: func(ledger.ProviderRecord) ledger.Terms { return ledger.Terms{UserLabel: "user"} }}
	anybody, err := label.ParseSelector("user=*")
	if err != nil {
		t.Fatal(err)
	}
	limits := ledger.Quota{Selector: anybody}
	for _, path := range []string{"root.a", "root.b", "*"} {
		at := resource.Address{Kind: yarnProd.Kind, Cluster: "*", Path: path}
		limits.External = append(limits.External, resource.External{Address: at, Vector: resource.Vector{}.WithMemory(50)})
	}
	part := func(path, dimension string) resource.External {
		return resource.External{
			Address: resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: path},
			Vector:  resource.Vector{}.WithMemory(10).With(dimension, 1),
		}
	}
	row := func(id ledger.ID, parts ...resource.External) ledger.Allocation {
		r := resource.NewResource(resource.Vector{}, parts...)
		return ledger.Allocation{ID: id, State: ledger.Active, HostID: "h", Labels: label.Set{{Key: "user", Value: "alice"}}, Requested: r, Entitled: r}
	}
	rows := ledger.Snapshot{
		Revision: 9, LastID: 9, Quotas: []ledger.Quota{limits}, Hosts: []ledger.HostRecord{{ID: "h", Capacity: resource.Vector{}.WithMemory(100)}},
		Providers:   []ledger.ProviderRecord{{ClusterName: yarnProd}},
		Allocations: []ledger.Allocation{row(1, part("root.a.x", "gpu")), row(2, part("root.a.y", "fpga"), part("root.c", "disk")), row(3, part("root.c", "gpu"))},
	}
	filed, err := ledger.File(cfg, &rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, moved := range [][]ledger.Allocation{
		{row(1, part("root.b.x", "gpu")), row(2, part("root.b.new.y", "fpga"), part("root.c", "disk"))},
		{row(1, part("root.a.z", "gpu")), row(3, part("root.d", "gpu"))},
	} {
		if err := filed.Update(&ledger.Snapshot{Allocations: moved}, nil, nil); err != nil {
			t.Fatal(err)
		}
		for _, a := range moved {
			rows.Allocations[a.ID-1] = a
		}
	}
	for _, l := range restoredBoth(t, cfg, rows, filed) {
		if wrong := l.Audit(); len(wrong) > 0 {
			t.Errorf("audit: %v", wrong)
		}
	}
}

// restoredBoth loads a ledger from its rows, and another one from what was filed of them, which
// shows the same.
func restoredBoth(t *testing.T, cfg ledger.Config, rows ledger.Snapshot, filed *ledger.Filed) [2]*ledger.Ledger {
	t.Helper()
	loaded, ahead := ledger.New(cfg, newPlainPlacer()), filed.Ledger(newPlainPlacer())
	now := ledger.At(time.Unix(1000, 0))
	if err := loaded.Restore(now, rows); err != nil {
		t.Fatal(err)
	}
	rows.Filed = filed
	if err := ahead.Restore(now, rows); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown(loaded), shown(ahead)); diff != "" {
		t.Errorf("(-loaded +filed):\n%s", diff)
	}
	return [2]*ledger.Ledger{loaded, ahead}
}

// shown is the accounts of hosts, quotas and queues that a ledger shows, with every dimension, and
// those that its allocations count in.
func shown(l *ledger.Ledger) (list []string) {
	account := func(a ledger.AccountInfo) {
		for _, v := range []resource.Vector{a.Used, a.Reserved, a.Available} {
			list = append(list, a.Name.String()+": "+v.String())
		}
	}
	l.Hosts("", func(h ledger.HostInfo) bool {
		account(h.Account)
		return true
	})
	l.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		account(a)
		return true
	})
	l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		account(q.Account)
		return true
	})
	l.Allocations(0, func(a *ledger.Allocation) bool {
		x, err := l.ExplainID(ledger.At(time.Unix(1000, 0)), a.ID, identity.Actor{})
		if err != nil {
			panic(err)
		}
		for _, counted := range x.Accounts {
			account(counted)
		}
		return true
	})
	return list
}

// Rows that a load would refuse are refused when they are filed.
func TestWhatALoadRefusesIsNotFiled(t *testing.T) {
	host := ledger.HostRecord{ID: "a", Capacity: resource.Vector{}.WithMemory(100)}
	row := ledger.Allocation{ID: 1, State: ledger.Active, HostID: "a"}
	ended, elsewhere := row, row
	ended.State, elsewhere.HostID = ledger.Released, "b"
	for name, rows := range map[string][]ledger.Allocation{"ended": {ended}, "of no host": {elsewhere}} {
		if _, err := ledger.File(ledger.Config{}, &ledger.Snapshot{Hosts: []ledger.HostRecord{host}, Allocations: rows}); err == nil {
			t.Errorf("%s: filed", name)
		}
	}
	filed, err := ledger.File(ledger.Config{}, &ledger.Snapshot{Hosts: []ledger.HostRecord{host}, Allocations: []ledger.Allocation{row}})
	if err != nil {
		t.Fatal(err)
	}
	if err := filed.Update(&ledger.Snapshot{}, nil, []string{"a"}); err == nil {
		t.Error("a host is removed that has an allocation")
	}
}

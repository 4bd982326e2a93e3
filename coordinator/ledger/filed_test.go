package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
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
	loaded, ahead := ledger.New(ledger.Config{}, newPlainPlacer()), filed.Ledger(newPlainPlacer())
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
}

// shown is the accounts of hosts and quotas that a ledger shows, with every dimension.
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

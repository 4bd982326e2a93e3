package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// Lists are read page by page: from behind the last one of a page to the end, each once, in order.
func TestListsResumeWhereAPageEnded(t *testing.T) {
	l := ready(t)
	must(t, l.PutQuota(start, ledger.Quota{Selector: selector(t, "user=*"), Limit: resource.Vector{}.WithMemory(8)}))
	var ids []ledger.ID
	for i := range 25 {
		ids = append(ids, reserve(t, l, fmt.Sprint(i)).ID)
		if i > 0 { // the first is there
			_, err := l.Register(start, ledger.RegisterCommand{HostID: fmt.Sprint("h", i+1), Incarnation: 1})
			must(t, err)
		}
	}

	var allocations []ledger.ID
	for last, more := ledger.ID(0), true; more; {
		more = false
		l.Allocations(last, func(a *ledger.Allocation) bool {
			allocations = append(allocations, a.ID)
			last, more = a.ID, true
			return len(allocations)%4 != 0
		})
	}
	if !slices.Equal(allocations, ids) {
		t.Errorf("allocations %v; want %v", allocations, ids)
	}

	var hosts []string
	for last, more := "", true; more; {
		more = false
		l.Hosts(last, func(h ledger.HostInfo) bool {
			hosts = append(hosts, h.ID)
			last, more = h.ID, true
			return len(hosts)%4 != 0
		})
	}
	if len(hosts) != 25 || !slices.IsSorted(hosts) || len(slices.Compact(slices.Clone(hosts))) != 25 {
		t.Errorf("hosts %v; want 25 in order", hosts)
	}

	var accounts []string
	for last, more := "", true; more; {
		more = false
		l.QuotaAccounts(last, func(key string, a ledger.AccountInfo) bool {
			if key <= last {
				t.Fatalf("account %s comes after %q, before its key %q", a.Name, last, key)
			}
			accounts = append(accounts, a.Name.String())
			last, more = key, true
			return len(accounts)%4 != 0
		})
	}
	slices.Sort(accounts)
	if len(slices.Compact(accounts)) != 25 {
		t.Errorf("accounts %v; want 25", accounts)
	}
}

func TestWhatCannotHaveBeenStoredIsNotRestored(t *testing.T) {
	host := ledger.HostRecord{ID: "h1", Capacity: resource.Vector{}.WithMemory(8)}
	for name, s := range map[string]ledger.Snapshot{
		"an allocation that has ended":    {Allocations: []ledger.Allocation{{ID: 1, State: ledger.Released}}},
		"one that never was":              {Allocations: []ledger.Allocation{{ID: 1}}},
		"two with one id":                 {Hosts: []ledger.HostRecord{host}, Allocations: []ledger.Allocation{{ID: 1, State: ledger.Waiting}, {ID: 1, State: ledger.Waiting}}},
		"one on a host that is not there": {Allocations: []ledger.Allocation{{ID: 1, State: ledger.Active, HostID: "h2"}}},
		"one that holds and has no host":  {Hosts: []ledger.HostRecord{host}, Allocations: []ledger.Allocation{{ID: 1, State: ledger.Reserved}}},
		"rules that contradict each other": {Quotas: []ledger.Quota{
			{Selector: selector(t, "user=a"), Source: "api"}, {Selector: selector(t, "user=a"), Source: "api"},
		}},
	} {
		if err := ledger.New(ledger.Config{}, newPlainPlacer()).Restore(start, s); err == nil {
			t.Errorf("%s is restored", name)
		}
	}
	used := ready(t)
	if err := used.Restore(start, ledger.Snapshot{}); err == nil {
		t.Error("a ledger in use is restored over")
	}
}

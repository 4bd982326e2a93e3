package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
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
		enough := false
		l.QuotaAccounts(last, func(key string, a ledger.AccountInfo) bool {
			if enough || key <= last {
				t.Fatalf("account %s comes after %q, before its key %q", a.Name, last, key)
			}
			accounts = append(accounts, a.Name.String())
			last, more, enough = key, true, len(accounts)%4 == 0
			return !enough
		})
	}
	slices.Sort(accounts)
	if len(slices.Compact(accounts)) != 25 {
		t.Errorf("accounts %v; want 25", accounts)
	}
}

// A host has no more memory available than both its account and its measurement allow.
func TestAHostShowsWhatItCanGive(t *testing.T) {
	const books, unlimited = int64(8), int64(-1)
	for name, test := range map[string]struct {
		limit, headroom int64
		want            resource.Vector
	}{
		"the account has less":          {books, 9, resource.Vector{}.WithMemory(8)},
		"less is measured":              {books, 5, resource.Vector{}.WithMemory(5)},
		"nothing is left":               {books, 0, resource.Vector{}.WithMemory(0)},
		"more is gone than there is":    {books, -3, resource.Vector{}.WithMemory(0)},
		"the account does not limit it": {unlimited, 5, resource.Vector{}},
	} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		c := ledger.RegisterCommand{HostID: "h1", Incarnation: 1}
		if test.limit != unlimited {
			c.Capacity = c.Capacity.WithMemory(test.limit)
		}
		_, err := l.Register(start, c)
		must(t, err)
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &test.headroom}})
		must(t, err)
		h, known := l.Host("h1")
		if !known || *h.Headroom != test.headroom || !h.Account.Available.Equal(test.want) {
			t.Errorf("%s: %s is available, with a headroom of %d; want %s", name, h.Account.Available, *h.Headroom, test.want)
		}
		if _, known := l.Host("h2"); known {
			t.Error("a host is known that is not there")
		}
	}
}

// A request whose grant was taken back says so, and what it waits for now.
func TestARequestWhoseGrantWasTakenBackShowsBothReasons(t *testing.T) {
	l := ready(t)
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), Async: true, Wait: time.Minute, Resource: resource.NewResource(resource.Vector{}.WithMemory(2)),
	})
	must(t, err)
	a := result.Allocation
	_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Vetoes: []ledger.Veto{{ID: a.ID, Headroom: 1, Revision: a.Revision}}})
	must(t, err)
	a, _ = l.Get(a.ID)
	if want := "vetoed: host h1 found 1 bytes of memory left; waits for a host: h1, the closest, lacks 1B of memory by what it measures"; a.State != ledger.Waiting || a.Reason != want {
		t.Errorf("it is %s: %s; want it to wait: %s", a.State, a.Reason, want)
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

package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// want is a request that waits.
func want(l *ledger.Ledger, t *testing.T, request resource.Vector, wishes *ledger.Wishes) ledger.Allocation {
	t.Helper()
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(request), Wishes: wishes, Wait: time.Hour, Async: true,
	})
	must(t, err)
	return result.Allocation
}

// A request that waits names the account that it waits for, the scarce dimensions, and how much of
// them is missing there: of several hosts at the closest one, whatever it wants of a host.
func TestAWaitingRequestSaysWhatItLacks(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	const gib = 1 << 30
	sizes := map[string]int64{"h1": 4 * gib, "h2": 8 * gib, "h3": 6 * gib}
	for i, id := range []string{"h1", "h2", "h3"} {
		join(t, l, id, label.Of("zone", []string{"a", "b", "c"}[i], "cores", fmt.Sprint(8*(i+1))), sizes[id])
	}
	for id, size := range sizes { // 2 GiB and 1 core are left of each
		granted := want(l, t, resource.Vector{}.WithMemory(size-2*gib).WithCPU(7000), &ledger.Wishes{Host: id})
		if granted.State != ledger.Reserved {
			t.Fatalf("%s is %s: %s", id, granted.State, granted.Reason)
		}
	}
	memory := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(n * gib) }
	for _, test := range []struct {
		request resource.Vector
		wishes  *ledger.Wishes
		want    string
	}{
		{memory(7), nil, "waits for a host: h2 lacks 5GiB of memory"},
		{memory(1).WithCPU(2000), &ledger.Wishes{Required: label.Of("zone", "c")}, "waits for a host: h3, the closest, lacks 1 core"},
		{memory(3).WithCPU(2500), &ledger.Wishes{Rules: &ledger.Rules{Required: conditions(t, "zone in (a,b), cores<16")}}, "waits for a host: h1, the closest, lacks 1GiB of memory and 1.5 cores"},
		{memory(3), &ledger.Wishes{Avoid: []string{"h1", "h3"}}, "waits for a host: h2, the closest, lacks 1GiB of memory"},
		{memory(3), &ledger.Wishes{Host: "h1"}, "waits for host h1, which lacks 1GiB of memory"},
		{resource.Vector{}.WithMemory(2*gib + 123456789), &ledger.Wishes{Host: "h1"}, "waits for host h1, which lacks 117.7MiB of memory"},
	} {
		a := want(l, t, test.request, test.wishes)
		got, _ := l.Get(a.ID)
		x, err := l.ExplainID(start, a.ID, identity.Local())
		must(t, err)
		listed := got
		l.Allocations(0, func(row *ledger.Allocation) bool {
			if row.ID == a.ID {
				l.Describe(row)
				listed = *row
			}
			return true
		})
		for what, reason := range map[string]string{"the answer": a.Reason, "Get": got.Reason, "Explain": x.Allocation.Reason, "a list": listed.Reason} {
			if reason != test.want {
				t.Errorf("%s of %v: %q; want %q", what, test.request, reason, test.want)
			}
		}
	}
	// What it lacks changes with the host, and a host that is closed says why.
	a := want(l, t, memory(5), &ledger.Wishes{Required: label.Of("zone", "b")})
	_, err := l.Cordon(start, "h2", "new\nkernel")
	must(t, err)
	if got, _ := l.Get(a.ID); got.Reason != "waits for a host: h2, the closest, is cordoned: new kernel" {
		t.Errorf("it %q", got.Reason)
	}
}

// A reader of many requests that wait, and differ, knows what that has cost; requests of one kind
// are worked out once.
func TestWhatRequestsLackIsWorkedOutOncePerKind(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	join(t, l, "h1", nil, 1<<30)
	want(l, t, resource.Vector{}.WithMemory(1<<30), nil)
	for i := range 300 {
		want(l, t, resource.Vector{}.WithMemory(int64(1+i%100)<<20), nil)
	}
	describe := func() (n uint64) {
		before := l.Described()
		l.Allocations(0, func(a *ledger.Allocation) bool {
			if l.Describe(a); a.State == ledger.Waiting && !strings.Contains(a.Reason, "lacks") {
				t.Fatal(a.Reason)
			}
			return true
		})
		return l.Described() - before
	}
	if n := describe(); n > 100 {
		t.Errorf("%d reasons of 100 kinds were worked out", n)
	}
	if n := describe(); n != 0 {
		t.Errorf("%d reasons were worked out again, and nothing has changed", n)
	}
	must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(1 << 40)}))
	if n := describe(); n != 100 {
		t.Errorf("after a change %d reasons were worked out, want 100", n)
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// join adds a host that has reported, with room for so many bytes.
func join(t *testing.T, l *ledger.Ledger, id string, labels label.Set, memory int64) {
	t.Helper()
	capacity := resource.Vector{}.WithMemory(memory).WithCPU(8000)
	_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: capacity, Labels: labels})
	must(t, err)
	_, err = l.Sync(start, ledger.SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &memory}})
	must(t, err)
}

func conditions(t *testing.T, texts string) (list []label.Rule) {
	t.Helper()
	list, err := label.ParseRules(texts)
	must(t, err)
	return list
}

// A request that no host may take says which of its conditions no host meets: refused, explained or
// waiting, next to other shortfalls, and in a fleet of which a survey looks at some only.
func TestARequestSaysWhichConditionNoHostMeets(t *testing.T) {
	for _, hosts := range []int{3, 1500, 5000} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		quota, err := label.ParseSelector("user=bob")
		must(t, err)
		must(t, l.PutQuota(start, ledger.Quota{Selector: quota, Limit: resource.Vector{}.WithMemory(1)}))
		for i := range hosts {
			join(t, l, fmt.Sprintf("h%d", i), label.Of("zone", []string{"b", "c"}[i%2], "disk", "ssd"), 1<<30)
		}
		_, err = l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "bob"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
		})
		must(t, err) // nothing of bob's quota is left
		for _, test := range []struct {
			wishes ledger.Wishes
			want   string
		}{
			{ledger.Wishes{Required: label.Of("disk", "ssd", "zone", "a")}, "no host meets zone=a (hosts have zone b, c)"},
			{ledger.Wishes{Rules: &ledger.Rules{Required: conditions(t, "disk, zone in (a,d)")}}, "no host meets zone in (a,d) (hosts have zone b, c)"},
			{ledger.Wishes{Rules: &ledger.Rules{Avoided: conditions(t, "disk")}}, "every host has disk, which is to be avoided (hosts have disk ssd)"},
			{ledger.Wishes{Required: label.Of("zone", "b"), Rules: &ledger.Rules{Avoided: conditions(t, "zone notin (c)")}}, "no host meets all conditions together: "},
		} {
			for _, user := range []string{"alice", "bob"} {
				c := ledger.AllocateCommand{
					Actor: identity.Local(), Labels: label.Of("user", user), Wishes: &test.wishes,
					Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
				}
				_, err := l.Allocate(start, c)
				refusal, ok := errors.AsType[*ledger.InsufficientError](err)
				if !ok || refusal.Filters == nil || !strings.Contains(refusal.Filters.Unmet, test.want) {
					t.Fatalf("%d hosts, user %s: %v; want %q", hosts, user, err, test.want)
				}
				x, err := l.Explain(start, c)
				must(t, err)
				if x.Filters == nil || !strings.Contains(x.Filters.Unmet, test.want) {
					t.Fatalf("%d hosts, user %s: it is explained by %v; want %q", hosts, user, x.Filters, test.want)
				}
				c.Wait, c.Async = time.Hour, true
				waits, err := l.Allocate(start, c)
				must(t, err)
				if got, _ := l.Get(waits.Allocation.ID); user == "alice" && !strings.Contains(got.Reason, test.want) {
					t.Fatalf("%d hosts, user %s: it %q; want %q", hosts, user, got.Reason, test.want)
				}
				_, err = l.Cancel(start, ledger.CancelCommand{Actor: identity.Local(), ID: waits.Allocation.ID})
				must(t, err)
			}
		}
		// The request avoids the only hosts that meet its conditions.
		join(t, l, "only", label.Of("zone", "a"), 1<<30)
		_, err = l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "alice"), Wishes: &ledger.Wishes{Required: label.Of("zone", "a"), Avoid: []string{"only"}},
			Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
		})
		if err == nil || !strings.Contains(err.Error(), "the request avoids each host that meets its conditions") {
			t.Fatal(err)
		}
		// Hosts that meet them, but are full or too small, are no matter of conditions.
		_, err = l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "alice"), Wishes: &ledger.Wishes{Required: label.Of("zone", "a")},
			Resource: resource.NewResource(resource.Vector{}.WithMemory(1 << 40)),
		})
		if refusal, ok := errors.AsType[*ledger.InsufficientError](err); !ok || refusal.Filters != nil && refusal.Filters.Unmet != "" {
			t.Fatal(err)
		}
	}
}

// A host that a request names, and that lacks labels, says which.
func TestANamedHostSaysWhichConditionItDoesNotMeet(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	join(t, l, "h1", label.Of("zone", "b"), 1<<30)
	c := ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
		Wishes: &ledger.Wishes{Host: "h1", Required: label.Of("zone", "a"), Rules: &ledger.Rules{Required: conditions(t, "cores>8")}},
	}
	_, err := l.Allocate(start, c)
	const want = "zone=a (it has zone=b), cores>8 (it has no label cores)"
	if wrong, ok := errors.AsType[*ledger.FieldError](err); !ok || wrong.Want != "a host that meets "+want {
		t.Errorf("%v; want %q", err, want)
	}
	c.Wishes = &ledger.Wishes{Host: "h2", Required: c.Wishes.Required, Rules: c.Wishes.Rules}
	c.Wait, c.Async = time.Hour, true
	waits, err := l.Allocate(start, c)
	must(t, err)
	join(t, l, "h2", label.Of("zone", "b"), 1<<30)
	if got, _ := l.Get(waits.Allocation.ID); got.Reason != "waits for host h2 to have "+want {
		t.Errorf("it %q", got.Reason)
	}
	x, err := l.ExplainID(start, waits.Allocation.ID, identity.Local())
	must(t, err)
	if len(x.Shortfalls) != 1 || x.Shortfalls[0].Detail != "it does not meet "+want {
		t.Errorf("it is explained by %v", x.Shortfalls)
	}
}

package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A batch holds what several commands changed. What it says of a host, a rule or a provider must
// not depend on whether the store writes rows or removes them first.
func TestABatchDoesNotSayThatSomethingIsThereAndGone(t *testing.T) {
	register := func(l *ledger.Ledger) error {
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		return err
	}
	deregister := func(l *ledger.Ledger) error { return l.Deregister(start, "h1", false) }
	rule := selector(t, "user=alice")
	put := func(l *ledger.Ledger) error {
		return l.PutQuota(start, ledger.Quota{Selector: rule, Limit: resource.Vector{}.WithMemory(8)})
	}
	remove := func(l *ledger.Ledger) error { return l.DeleteQuota(start, rule) }
	configure := func(l *ledger.Ledger) error {
		return l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd})
	}
	unconfigure := func(l *ledger.Ledger) error { return l.DeleteProvider(start, yarnProd) }

	for _, test := range []struct {
		name          string
		before, batch []func(*ledger.Ledger) error
		there         bool
	}{
		{"a host comes and goes", nil, []func(*ledger.Ledger) error{register, deregister}, false},
		{"a host goes and comes", []func(*ledger.Ledger) error{register}, []func(*ledger.Ledger) error{deregister, register}, true},
		{"a host goes, comes and goes", []func(*ledger.Ledger) error{register}, []func(*ledger.Ledger) error{deregister, register, deregister}, false},
		{"a rule comes and goes", nil, []func(*ledger.Ledger) error{put, remove}, false},
		{"a rule goes and comes", []func(*ledger.Ledger) error{put}, []func(*ledger.Ledger) error{remove, put}, true},
		{"a rule goes, comes and goes", []func(*ledger.Ledger) error{put}, []func(*ledger.Ledger) error{remove, put, remove}, false},
		{"a provider comes and goes", nil, []func(*ledger.Ledger) error{configure, unconfigure}, false},
		{"a provider goes and comes", []func(*ledger.Ledger) error{configure}, []func(*ledger.Ledger) error{unconfigure, configure}, true},
		{"a provider goes, comes and goes", []func(*ledger.Ledger) error{configure}, []func(*ledger.Ledger) error{unconfigure, configure, unconfigure}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := ledger.New(ledger.Config{}, newPlainPlacer())
			for _, do := range test.before {
				must(t, do(l))
			}
			l.Changes()
			for _, do := range test.batch {
				must(t, do(l))
			}
			c := l.Changes()
			var rows []string
			for _, h := range c.Hosts {
				rows = append(rows, h.ID)
			}
			for _, q := range c.Quotas {
				rows = append(rows, q.Selector.String())
			}
			for _, p := range c.Providers {
				rows = append(rows, p.String())
			}
			removed := append(slices.Clone(c.HostsRemoved), c.QuotasRemoved...)
			for _, name := range c.ProvidersRemoved {
				removed = append(removed, name.String())
			}
			if test.there && (len(rows) == 0 || len(removed) > 0) || !test.there && (len(rows) > 0 || len(removed) == 0) {
				t.Errorf("rows %v, removed %v; in the end it is there: %t", rows, removed, test.there)
			}
		})
	}
}

// However many wait: what becomes free is given to all requests that it is enough for. That takes
// some steps, which are due at once, and some batches. No request that comes meanwhile and may wait
// is before them.
func TestAllWhoCanBeServedAreServedBeforeLaterOnes(t *testing.T) {
	const waiting = 3000
	l := ready(t)
	everything := ledger.Quota{Limit: resource.Vector{}.WithMemory(1)}
	must(t, l.PutQuota(start, everything))
	for i := range waiting + 1 {
		_, err := l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", fmt.Sprint(i%7)), Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
			Wait: time.Hour, Async: true,
		})
		must(t, err)
	}
	if c := l.Counts(); c.Waiting != waiting {
		t.Fatalf("%d wait; want %d", c.Waiting, waiting)
	}
	everything.Limit = resource.Vector{}.WithMemory(waiting)
	must(t, l.PutQuota(start, everything))
	if c := l.Counts(); c.Reserved > 513 {
		t.Errorf("one step granted %d; want at most 512", c.Reserved-1)
	}
	later, err := ask(l, start, "later", 1, func(c *ledger.AllocateCommand) { c.Wait, c.Async = time.Hour, true })
	must(t, err)
	goOn(l, start)
	if c := l.Counts(); c.Reserved > waiting/2 { // a commit that takes long must not end with all of them in one batch
		t.Errorf("%d are granted before Changes is called", c.Reserved)
	}
	for range waiting/512 + 1 {
		l.Changes()
		goOn(l, start)
	}
	if c := l.Counts(); c.Waiting != 2 || c.Reserved != waiting || later.State != ledger.Waiting {
		t.Errorf("%d wait, %d are granted, and who came meanwhile is %s; want 2, %d, waiting", c.Waiting, c.Reserved, later.State, waiting)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func selector(t testing.TB, text string) label.Selector {
	t.Helper()
	s, err := label.ParseSelector(text)
	must(t, err)
	return s
}

// Nothing of the batch before is left in an array that was given back, and nobody gets one that
// another still reads.
func TestTransitionsAreWrittenIntoAnArrayThatWasGivenBack(t *testing.T) {
	l, _ := limited(t, 0)
	batch := func(n int) ledger.Changes {
		for range n {
			_, err := l.Allocate(start, ledger.AllocateCommand{
				Actor: identity.Local(), Labels: label.Of("user", "u"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1)), Wishes: &ledger.Wishes{Host: "h1"},
			})
			must(t, err)
		}
		return l.Changes()
	}
	first := batch(3)
	array := &first.Transitions[0]
	second := batch(2)
	if &second.Transitions[0] == array {
		t.Fatal("a batch is written over one that is still read")
	}
	l.Reuse(&first)
	if first.Transitions != nil {
		t.Error("the batch still has the array that it has given back")
	}
	batch(0) // takes the array with it, for the next one
	third := batch(3)
	if &third.Transitions[0] != array {
		t.Error("an array that was given back is not used again")
	}
	l.Reuse(&third)
	batch(0)
	if short := batch(1).Transitions; &short[0] != array || short[:3][2].ID != 0 {
		t.Errorf("of an earlier batch is left: %s", short[:3][2].ID)
	}
}

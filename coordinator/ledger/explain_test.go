package ledger_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// turns is a placer that records the turns of the searches.
type turns struct {
	*plainPlacer

	list []uint64
}

func (p *turns) Choose(q ledger.Query) ledger.Slot {
	p.list = append(p.list, q.Turn)
	return p.plainPlacer.Choose(q)
}

// To explain has no side effects: what is placed later goes where it would have gone, and the
// first of it where the explanation said.
func TestExplainingDoesNotChangeWhereThingsGo(t *testing.T) {
	const requests = 4
	run := func(explain bool) (placed []uint64, explained []uint64) {
		p := &turns{plainPlacer: newPlainPlacer()}
		l := ledger.New(ledger.Config{}, p)
		available := int64(100)
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(available)})
		must(t, err)
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
		must(t, err)
		small := ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(1))}
		large := ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(100)), Wait: time.Hour}
		for range requests {
			if explain {
				p.list = nil
				_, err := l.Explain(start, large)
				must(t, err)
				_, err = l.Explain(start, small)
				must(t, err)
				explained = append(explained, p.list[len(p.list)-1])
			}
			p.list = nil
			_, err := l.Allocate(start, small)
			must(t, err)
			placed = append(placed, p.list...)
		}
		waits, err := l.Allocate(start, large)
		must(t, err)
		if explain {
			before, revision := l.Changes(), l.Revision()
			x, err := l.ExplainID(start, waits.Allocation.ID, identity.Actor{})
			must(t, err)
			if x.Allocation == nil || x.Allocation.ID != waits.Allocation.ID || x.Allocation.Reason != "waits for a host: h1, the closest, lacks 4B of memory" {
				t.Errorf("the explanation is of %+v; want %s, which waits for a host", x.Allocation, waits.Allocation.ID)
			}
			if c := l.Changes(); len(before.Transitions) == 0 || len(c.Transitions) > 0 || l.Revision() != revision {
				t.Errorf("explaining changes %v", c.Transitions)
			}
		}
		return placed, explained
	}
	without, _ := run(false)
	with, explained := run(true)
	if len(without) != requests || !slices.Equal(with, without) {
		t.Errorf("placed by the turns %v; without explanations %v", with, without)
	}
	if !slices.Equal(explained, with) {
		t.Errorf("explained for the turns %v, placed by %v", explained, with)
	}
}

// What the steps of a search say of a host agrees with the verdict: in each dimension what is
// protected and what is in use count once.
func TestAnExplanationCountsWhatIsProtectedAndInUseOnce(t *testing.T) {
	for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances, "gpu"} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		_, err := l.Register(start, ledger.RegisterCommand{
			HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.With(dimension, 5), Protected: resource.Vector{}.With(dimension, 1),
		})
		must(t, err)
		available := int64(10)
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
		must(t, err)
		c := ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.With(dimension, 2))}
		for _, want := range []struct {
			verdict ledger.Verdict
			filters ledger.HostFilters
		}{
			{ledger.Fits, ledger.HostFilters{Total: 1, Fit: 1}},
			{ledger.Fits, ledger.HostFilters{Total: 1, Fit: 1}},
			{ledger.Waits, ledger.HostFilters{Total: 1, Books: 1}},
		} {
			x, err := l.Explain(start, c)
			must(t, err)
			if x.Verdict != want.verdict || x.Filters == nil || !reflect.DeepEqual(*x.Filters, want.filters) {
				t.Errorf("%s: verdict %d and %v; want %d and %v", dimension, x.Verdict, x.Filters, want.verdict, want.filters)
			}
			_, _ = l.Allocate(start, c)
		}
	}
}

// If a machine has promised more memory than it has now, a request that asks for no memory does
// not lack it.
func TestOnlyWhoAsksForMemoryLacksWhatIsMeasured(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8).WithCPU(1)})
	must(t, err)
	available := int64(8)
	_, err = l.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available, MemorySafety: 9},
	})
	must(t, err)
	request := func(memory, cpu int64) ledger.AllocateCommand {
		return ledger.AllocateCommand{
			Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(memory).WithCPU(cpu)), Wishes: &ledger.Wishes{Host: "h1"},
		}
	}
	lacks := func(memory, cpu int64) (dimensions []string) {
		t.Helper()
		x, err := l.Explain(start, request(memory, cpu))
		must(t, err)
		for _, s := range x.Shortfalls {
			dimensions = append(dimensions, s.Dimension)
		}
		return dimensions
	}
	if got := lacks(0, 1); len(got) > 0 {
		t.Errorf("a request without memory lacks %v", got)
	}
	if got := lacks(1, 1); !slices.Equal(got, []string{resource.Memory}) {
		t.Errorf("a request with a byte of memory lacks %v", got)
	}
	_, err = l.Allocate(start, request(0, 1))
	must(t, err)
	if got := lacks(0, 1); !slices.Equal(got, []string{resource.CPU}) {
		t.Errorf("when the cpu is in use, a request without memory lacks %v", got)
	}
}

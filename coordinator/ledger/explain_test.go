package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/identity"
	"github.com/bursar/bursar/resource"
)

// turns is a placer that notes the turns of the searches that a request is placed by.
type turns struct {
	*plainPlacer

	list []uint64
}

func (p *turns) Choose(q ledger.Query) ledger.Slot {
	p.list = append(p.list, q.Turn)
	return p.plainPlacer.Choose(q)
}

// To explain has no side effects: what is placed later goes where it would have gone, and the first of it where the
// explanation said.
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
			_, err := l.ExplainID(start, waits.Allocation.ID)
			must(t, err)
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

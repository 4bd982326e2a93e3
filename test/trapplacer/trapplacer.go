// Package trapplacer has placers that panic, for tests of what a panic of the ledger costs. A
// placer belongs to one goroutine, its trap to any.
package trapplacer

import (
	"sync/atomic"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/resource"
)

// trap is a placer that panics over requests for so much memory, in one of its methods.
type trap struct {
	ledger.Placer

	method string
	memory int64
	sprung *atomic.Int64
}

// Trap makes placers that panic on requests for so many bytes, in the method of that name: Choose,
// Closest, Survey or Book. sprung counts how often they did.
func Trap(method string, memory int64, sprung *atomic.Int64) func() ledger.Placer {
	return func() ledger.Placer { return &trap{placement.New(placement.Spread), method, memory, sprung} }
}

func (p *trap) look(method string, q ledger.Query) {
	if memory, _ := q.Request.Get(resource.Memory); method == p.method && memory == p.memory {
		p.sprung.Add(1)
		panic("a trap in " + method)
	}
}

func (p *trap) Choose(q ledger.Query) ledger.Slot {
	p.look("Choose", q)
	return p.Placer.Choose(q)
}

func (p *trap) Closest(q ledger.Query) ledger.Slot {
	p.look("Closest", q)
	return p.Placer.Closest(q)
}

func (p *trap) Survey(q ledger.Query) ledger.HostFilters {
	p.look("Survey", q)
	return p.Placer.Survey(q)
}

func (p *trap) Book(slot ledger.Slot, available, booked resource.Vector) {
	p.look("Book", ledger.Query{Request: booked})
	p.Placer.Book(slot, available, booked)
}

// hostTrap is a placer that panics over any host.
type hostTrap struct {
	ledger.Placer

	set *atomic.Bool
}

// HostTrap returns what makes placers that panic over any host while that is set.
func HostTrap(set *atomic.Bool) func() ledger.Placer {
	return func() ledger.Placer { return &hostTrap{placement.New(placement.Spread), set} }
}

func (p *hostTrap) Put(slot ledger.Slot, view ledger.HostView) {
	if p.set.Load() {
		panic("a host too many")
	}
	p.Placer.Put(slot, view)
}

package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

const gib = 1 << 30

// books is what a benchmark needs of a ledger: hosts that differ in their use alone, and a ring of grants.
type books struct {
	index *placement.Index
	hosts []bookedHost
	grant resource.Vector // the size of every grant
	ring  []ledger.Slot
	next  int
	turn  uint64
}

type bookedHost struct {
	id     string
	labels label.Set
	limit  *resource.Vector
	used   int64 // grants
}

// kind is a kind of host in a benchmark's fleet.
type kind struct {
	labels label.Set
	limit  resource.Vector
}

// newBooks makes n hosts of the given kinds in turn.
func newBooks(n int, policy placement.Policy, grant resource.Vector, kinds ...kind) *books {
	b := &books{index: placement.New(policy), grant: grant, hosts: make([]bookedHost, n)}
	for i := range b.hosts {
		k := &kinds[i%len(kinds)]
		b.hosts[i] = bookedHost{id: fmt.Sprintf("host-%06d", i), labels: k.labels, limit: &k.limit}
		b.put(ledger.Slot(i))
	}
	return b
}

// fill grants so many requests and keeps them in the ring, in random order.
func (b *books) fill(tb testing.TB, grants int, q ledger.Query) *books {
	q.Request = b.grant
	for range grants {
		slot := b.choose(&q)
		if slot == ledger.NoSlot {
			tb.Fatalf("no room for grant %d", len(b.ring))
		}
		b.hosts[slot].used++
		b.put(slot)
		b.ring = append(b.ring, slot)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(b.ring), func(i, j int) { b.ring[i], b.ring[j] = b.ring[j], b.ring[i] })
	return b
}

func (b *books) choose(q *ledger.Query) ledger.Slot {
	b.turn++
	q.Turn = b.turn
	return b.index.Choose(*q)
}

func (b *books) put(slot ledger.Slot) {
	h := &b.hosts[slot]
	memory, cpu, instances := h.used*b.grant.Memory(), h.used*b.grant.CPU(), h.used*b.grant.Instances()
	v := ledger.HostView{ID: h.id, Labels: h.labels, Limit: *h.limit, Health: true, Measured: true}
	v.Available = h.limit.WithMemory(h.limit.Memory() - memory).WithCPU(h.limit.CPU() - cpu).WithInstances(h.limit.Instances() - instances)
	v.Booked = h.limit.WithMemory(memory).WithCPU(cpu).WithInstances(instances)
	b.index.Put(slot, v)
}

// pair is the placement's part of an allocation and a release elsewhere.
func (b *books) pair(q *ledger.Query) {
	slot := b.choose(q)
	b.hosts[slot].used++
	b.put(slot)
	if b.next++; b.next == len(b.ring) {
		b.next = 0
	}
	old := b.ring[b.next]
	b.ring[b.next] = slot
	b.hosts[old].used--
	b.put(old)
}

var (
	large = resource.Vector{}.WithMemory(256 * gib).WithCPU(64_000).WithInstances(1 << 60)
	grant = resource.Vector{}.WithMemory(4 * gib).WithCPU(1000).WithInstances(1)
)

func BenchmarkPair(b *testing.B) {
	for _, hosts := range []int{100, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			books := newBooks(hosts, placement.Spread, grant, kind{limit: large}).fill(b, 10*hosts, ledger.Query{})
			q := ledger.Query{Request: grant}
			b.ReportAllocs()
			for b.Loop() {
				books.pair(&q)
			}
		})
	}
}

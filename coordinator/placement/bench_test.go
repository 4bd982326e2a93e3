package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

const gib = 1 << 30

// books is what a benchmark needs of a ledger: hosts that differ only in their use, and a ring of
// grants.
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
	tb.Helper()
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

// scales are the fleets of the benchmarks.
var scales = []int{100, 1000, 10_000, 100_000}

// landscapes of the benchmarks: what a pair of Choose and two Puts costs at every scale.
var pairs = []struct {
	name  string
	kinds []kind
	query ledger.Query
}{
	{name: "plain", kinds: []kind{{limit: large}}},
	{
		name: "sizes", kinds: []kind{
			{limit: large},
			{limit: large.WithMemory(128 * gib)},
			{limit: large.WithCPU(96_000)},
			{limit: large.WithMemory(500 * gib)},
			{limit: large.WithMemory(126*gib + 77*mib).WithCPU(48_000)},
			{limit: large.WithMemory(1000 * gib).WithCPU(128_000)},
		},
	},
	{
		name:  "label", // of every tenth host
		kinds: append(slices.Repeat([]kind{{limit: large}}, 9), kind{limit: large, labels: label.Of("rack", "7")}),
		query: ledger.Query{Wishes: &ledger.Wishes{Required: label.Of("rack", "7")}},
	},
	{
		name:  "preferred", // on every tenth host
		kinds: append(slices.Repeat([]kind{{limit: large}}, 9), kind{limit: large, labels: label.Of("rack", "7")}),
		query: ledger.Query{Wishes: &ledger.Wishes{Preferred: label.Of("rack", "7", "disk", "ssd")}},
	},
	{
		name:  "condition", // of every tenth host
		kinds: append(slices.Repeat([]kind{{limit: large}}, 9), kind{limit: large, labels: label.Of("rack", "7")}),
		query: wishing(ledger.Query{}, ruled("rack in (6,7,8)", "old")),
	},
}

func BenchmarkPair(b *testing.B) {
	for _, pair := range pairs {
		for _, hosts := range scales {
			b.Run(fmt.Sprintf("%s/hosts=%d", pair.name, hosts), func(b *testing.B) {
				books := newBooks(hosts, placement.Spread, grant, pair.kinds...).fill(b, 2*hosts, pair.query)
				q := pair.query
				q.Request = grant
				b.ReportAllocs()
				for b.Loop() {
					books.pair(&q)
				}
			})
		}
	}
}

// BenchmarkScale takes turns between a small and a large fleet, so that whatever else the machine
// does falls on both.
func BenchmarkScale(b *testing.B) {
	const few, many, turns = 100, 100_000, 2000
	small, large := newBooks(few, placement.Spread, grant, kind{limit: large}).fill(b, 10*few, ledger.Query{}),
		newBooks(many, placement.Spread, grant, kind{limit: large}).fill(b, 10*many, ledger.Query{})
	q := ledger.Query{Request: grant}
	var spent [2]time.Duration
	for b.Loop() {
		for i, books := range []*books{small, large} {
			start := time.Now()
			for range turns {
				books.pair(&q)
			}
			spent[i] += time.Since(start)
		}
	}
	pairs := float64(b.N * turns)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(spent[0])/pairs, "ns/pair@100")
	b.ReportMetric(float64(spent[1])/pairs, "ns/pair@100k")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
}

// BenchmarkRefusal asks fleets in which nothing fits, and changes one host after each answer.
func BenchmarkRefusal(b *testing.B) {
	full := booked(host(256*gib, 64_000), 253*gib, 60_000)
	gpu := full
	gpu.Limit, gpu.Available = gpu.Limit.With("gpu", 8), empty.Available.With("gpu", 0)
	withGPU := grant.With("gpu", 1)
	for _, refusal := range []struct {
		name    string
		host    ledger.HostView
		request resource.Vector
	}{
		{"alike", full, grant},
		{"almost", full, grant.WithMemory(3*gib + 100*mib)},
		{"gpu", gpu, withGPU},
	} {
		for _, hosts := range scales {
			b.Run(fmt.Sprintf("%s/hosts=%d", refusal.name, hosts), func(b *testing.B) {
				x := placement.New(placement.Spread)
				v := refusal.host
				for i := range hosts {
					v.ID = id(ledger.Slot(i))
					x.Put(ledger.Slot(i), v)
				}
				v.ID = id(0)
				q := ledger.Query{Request: refusal.request}
				b.ReportAllocs()
				for b.Loop() {
					q.Turn++
					if slot := x.Choose(q); slot != ledger.NoSlot {
						b.Fatal(slot)
					}
					x.Put(0, v)
				}
			})
		}
	}
}

// BenchmarkClosest explains refusals, BenchmarkPossible checks whether a request can ever fit.
func BenchmarkClosest(b *testing.B) {
	benchmarkQuestion(b, func(x *placement.Index, q ledger.Query) { x.Closest(q) })
}

func BenchmarkPossible(b *testing.B) {
	benchmarkQuestion(b, func(x *placement.Index, q ledger.Query) { x.Possible(q) })
}

func benchmarkQuestion(b *testing.B, question func(*placement.Index, ledger.Query)) {
	b.Helper()
	for _, hosts := range scales {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x := placement.New(placement.Spread)
			for i := range hosts {
				v := mixed(r, i, hosts)
				v.ID = id(ledger.Slot(i))
				x.Put(ledger.Slot(i), v)
			}
			q := ledger.Query{Request: grant.WithMemory(1015 * gib).WithCPU(135_000)}
			b.ReportAllocs()
			for b.Loop() {
				q.Turn++
				question(x, q)
			}
		})
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			books := newBooks(1000, placement.Spread, grant, pair.kinds...).fill(t, 2000, pair.query)
			q := pair.query
			q.Request = grant
			for range 20_000 { // until views are made and memory is there
				books.pair(&q)
			}
			if n := testing.AllocsPerRun(1000, func() { books.pair(&q) }); n != 0 {
				t.Errorf("%g allocations for a Choose and two Puts", n)
			}
		})
	}
	x := place(placement.Spread, with(empty, func(v *ledger.HostView) { v.Limit = v.Limit.With("gpu", 8) }), empty)
	v := with(empty, func(v *ledger.HostView) {
		v.ID, v.Limit, v.Available = id(0), v.Limit.With("gpu", 8), v.Available.With("gpu", 4)
	})
	q := small
	q.Request = q.Request.With("gpu", 1)
	if n := testing.AllocsPerRun(1000, func() {
		x.Put(0, v)
		x.Choose(q)
		x.Closest(q)
		x.Possible(q)
		x.Largest(q)
		x.Survey(q)
	}); n != 0 {
		t.Errorf("%g allocations with a custom countable", n)
	}
}

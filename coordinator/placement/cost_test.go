package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// landscape is a fleet and what is asked of it.
type landscape struct {
	name  string
	host  func(r *rand.Rand, i, n int) ledger.HostView
	query func(r *rand.Rand, i int) ledger.Query
	fits  bool
	// most is how many bounds and hosts Choose may look at on average, however many hosts there
	// are; mostClosest the same for Closest.
	most, mostClosest int
	// change draws what a host is like for a moment after each search; nil: as it was.
	change func(r *rand.Rand, v ledger.HostView) ledger.HostView
}

func host(memory, cpu int64) ledger.HostView {
	v := ledger.HostView{Health: true, Measured: true}
	v.Limit = resource.Vector{}.WithMemory(memory).WithCPU(cpu).WithInstances(1 << 60)
	v.Available = v.Limit
	return v
}

func booked(v ledger.HostView, memory, cpu int64) ledger.HostView {
	v.Booked = resource.Vector{}.WithMemory(memory).WithCPU(cpu).WithInstances(1)
	v.Available = v.Available.WithMemory(v.Available.Memory() - memory).WithCPU(v.Available.CPU() - cpu)
	return v
}

func ask(memory, cpu int64) ledger.Query {
	return ledger.Query{Request: resource.Vector{}.WithMemory(memory).WithCPU(cpu).WithInstances(1)}
}

func always(q ledger.Query) func(*rand.Rand, int) ledger.Query {
	return func(*rand.Rand, int) ledger.Query { return q }
}

func wishing(q ledger.Query, w ledger.Wishes) ledger.Query {
	q.Wishes = &w
	return q
}

// ruled are the wishes of conditions that must hold, and of those of which none may hold.
func ruled(must, never string) ledger.Wishes {
	parse := func(text string) []label.Rule {
		if text == "" {
			return nil
		}
		rules, err := label.ParseRules(text)
		if err != nil {
			panic(err)
		}
		return rules
	}
	return ledger.Wishes{Rules: &ledger.Rules{Required: parse(must), Avoided: parse(never)}}
}

// hundredRacks makes 100 hundredRacks; those that end with 8 are full.
func hundredRacks(_ *rand.Rand, i, _ int) ledger.HostView {
	v := host(256*gib, 64_000)
	if i%100%10 == 8 {
		v = booked(v, 253*gib, 60_000)
	}
	v.Labels = label.Of("rack", fmt.Sprint(i%100), "cores", "64")
	return v
}

// mixed draws a host of any size and use.
func mixed(r *rand.Rand, _, _ int) ledger.HostView {
	v := host((16+r.Int64N(1000))*gib, (8+r.Int64N(128))*1000)
	v.LoadMillis = r.Int64N(3000)
	return booked(v, r.Int64N(v.Limit.Memory()), r.Int64N(v.Limit.CPU()/1000)*1000)
}

func landscapes() []landscape {
	gpus := func(r *rand.Rand, i, n int) ledger.HostView {
		v := host(256*gib, 64_000)
		v.Labels = label.Of("zone", string(rune('a'+i%2)))
		if i%100 < 2 {
			v.Limit, v.Available = v.Limit.With("gpu", 8), v.Available.With("gpu", 0)
			if i < n/10 && i%2 == 1 { // some in zone b are free
				v.Available = v.Available.With("gpu", 2)
			}
		}
		return v
	}
	gpu := ask(4*gib, 1000)
	gpu.Request = gpu.Request.With("gpu", 1)
	return []landscape{
		{
			name:  "all empty and alike",
			host:  func(*rand.Rand, int, int) ledger.HostView { return host(256*gib, 64_000) },
			query: always(ask(4*gib, 1000)), fits: true, most: 16, mostClosest: 16,
		},
		{
			name:  "all full and alike",
			host:  func(*rand.Rand, int, int) ledger.HostView { return booked(host(256*gib, 64_000), 253*gib, 60_000) },
			query: always(ask(3*gib+gib/3, 1000)), most: 16, mostClosest: 128,
		},
		{
			name:  "all a little too full, and now and then one that is not",
			host:  func(*rand.Rand, int, int) ledger.HostView { return booked(host(256*gib, 64_000), 253*gib, 60_000) },
			query: always(ask(3*gib+gib/3, 1000)), most: 128, mostClosest: 200,
			change: func(_ *rand.Rand, v ledger.HostView) ledger.HostView {
				v.Available = v.Available.WithMemory(3*gib + gib/2 - 1)
				return v
			},
		},
		{
			name:  "all different",
			host:  mixed,
			query: always(ask(4*gib, 1000)), fits: true, most: 32, mostClosest: 200,
		},
		{
			name:  "all different, larger than any",
			host:  mixed,
			query: always(ask(1015*gib, 135_000)), most: 300, mostClosest: 300,
		},
		{
			name: "memory here, cpu there",
			host: func(r *rand.Rand, i, _ int) ledger.HostView {
				v := host(256*gib, 64_000)
				if i%2 == 0 {
					return booked(v, r.Int64N(256)*gib, 64_000-r.Int64N(1000))
				}
				return booked(v, 256*gib-r.Int64N(gib), r.Int64N(64)*1000)
			},
			query: always(ask(3*gib+gib/3, 1300)), most: 50, mostClosest: 800,
		},
		{
			name: "no instance left but on three hosts",
			host: func(_ *rand.Rand, i, n int) ledger.HostView {
				v := host(256*gib, 64_000)
				if i%(n/3) != 0 {
					v.Available = v.Available.WithInstances(0)
				}
				return v
			},
			query: always(ask(4*gib, 1000)), fits: true, most: 16, mostClosest: 16,
		},
		{name: "gpu", host: gpus, query: always(gpu), fits: true, most: 16, mostClosest: 16},
		{
			name: "gpu free in the other zone", host: gpus,
			query: always(wishing(gpu, ledger.Wishes{Required: label.Of("zone", "a")})), most: 16, mostClosest: 16,
		},
		{
			name: "gpu, preferably where there is none", host: gpus,
			query: always(wishing(gpu, ledger.Wishes{Preferred: label.Of("zone", "a")})), fits: true, most: 16, mostClosest: 16,
		},
		{
			name: "one rack of many, in turns",
			host: func(_ *rand.Rand, i, _ int) ledger.HostView {
				v := host(256*gib, 64_000)
				v.Labels = label.Of("rack", fmt.Sprint(i%200))
				return v
			},
			query: func(r *rand.Rand, _ int) ledger.Query {
				return wishing(ask(4*gib, 1000), ledger.Wishes{Required: label.Of("rack", fmt.Sprint(r.IntN(10)))})
			},
			fits: true, most: 50, mostClosest: 16,
		},
		{
			name: "a condition that one host in 100 meets", host: hundredRacks,
			query: always(wishing(ask(4*gib, 1000), ruled("rack in (7, 1007), cores>8", ""))), fits: true, most: 16, mostClosest: 16,
		},
		{
			name: "a condition of full hosts", host: hundredRacks,
			query: always(wishing(ask(4*gib, 1000), ruled("rack in (8, 1008)", ""))), most: 64, mostClosest: 300,
		},
		{
			name: "conditions that no host meets, another one each time", host: hundredRacks,
			query: func(r *rand.Rand, _ int) ledger.Query {
				return wishing(ask(4*gib, 1000), ruled(fmt.Sprintf("cores, rack in (%d, 7x)", 1000+r.IntN(1e6)), ""))
			},
		},
		{
			name: "conditions that every host meets, and is avoided for", host: hundredRacks,
			query: always(wishing(ask(4*gib, 1000), ruled("rack=7", "cores>8"))),
		},
		{
			name: "some conditions, in turns, some preferred", host: hundredRacks,
			query: func(r *rand.Rand, _ int) ledger.Query {
				w := ruled(fmt.Sprintf("rack in (1%d, 2%d)", r.IntN(5), r.IntN(2)), "cores<8")
				w.Rules.Preferred = ruled("rack>20", "").Rules.Required
				return wishing(ask(4*gib, 1000), w)
			},
			fits: true, most: 50, mostClosest: 50,
		},
		{
			name: "256 to avoid and 100 rejected",
			host: func(*rand.Rand, int, int) ledger.HostView { return host(256*gib, 64_000) },
			query: func(r *rand.Rand, _ int) ledger.Query {
				var w ledger.Wishes
				for i := range 256 {
					w.Avoid = append(w.Avoid, id(ledger.Slot(i)))
				}
				q := wishing(ask(4*gib, 1000), w)
				q.Rejected = func(slot ledger.Slot) bool { return slot < 356 }
				return q
			},
			fits: true, most: 400, mostClosest: 400,
		},
	}
}

// steps puts a fleet of n hosts up, asks until the index has made its views, and returns how much
// it then looks at per search.
func (l *landscape) steps(t *testing.T, n int) (choose, closest int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := placement.New(placement.Spread)
	hosts := make([]ledger.HostView, n)
	for i := range hosts {
		hosts[i] = l.host(r, i, n)
		hosts[i].ID = id(ledger.Slot(i))
		x.Put(ledger.Slot(i), hosts[i])
	}
	const searches = 3000
	for i := range 2 * searches {
		q := l.query(r, i)
		q.Turn = uint64(i)
		slot := x.Choose(q)
		if fits := slot != ledger.NoSlot; fits != l.fits {
			t.Fatalf("%d hosts: Choose = %d", n, slot)
		}
		if i >= searches {
			choose += x.Steps()
		}
		at := ledger.Slot(r.IntN(n)) // somebody changes in between
		if l.change != nil {
			x.Put(at, l.change(r, hosts[at]))
		}
		x.Put(at, hosts[at])
		if i%2 == 0 { // the next Choose finds what a Closest has left behind, or what a Put has
			x.Closest(q)
			if i >= searches {
				closest += 2 * x.Steps()
			}
		}
	}
	return choose / searches, closest / searches
}

func TestCostDoesNotGrowWithHosts(t *testing.T) {
	for _, l := range landscapes() {
		t.Run(l.name, func(t *testing.T) {
			choose, closest := l.steps(t, 32_000)
			fewChoose, fewClosest := l.steps(t, 1000)
			t.Logf("steps with 1,000 and 32,000 hosts: Choose %d and %d, Closest %d and %d", fewChoose, choose, fewClosest, closest)
			if choose > l.most {
				t.Errorf("Choose: %d steps with 32,000 hosts: want at most %d", choose, l.most)
			}
			if closest > l.mostClosest {
				t.Errorf("Closest: %d steps with 32,000 hosts: want at most %d", closest, l.mostClosest)
			}
		})
	}
}

// What a search has learned of a cell is not looked up again, be it by Choose or by Closest.
func TestNothingIsLearnedTwice(t *testing.T) {
	hosts := slices.Repeat([]ledger.HostView{booked(empty, 253*gib, 60_000)}, 100)
	hosts = append(hosts, booked(empty, 246*gib, 60_200)) // the closest
	x := place(placement.Spread, hosts...)
	for _, question := range []func(ledger.Query){
		func(q ledger.Query) { x.Choose(q) },
		func(q ledger.Query) { x.Closest(q) },
	} {
		v := with(hosts[7], func(v *ledger.HostView) { v.ID, v.Available = id(7), v.Available.WithMemory(3*gib+gib/2-1) })
		x.Put(7, v)
		v.Available = v.Available.WithMemory(3 * gib)
		x.Put(7, v)
		q := ask(3*gib+gib/3, 4000)
		question(q)
		first := x.Steps()
		question(q)
		if first < 32 || x.Steps() > 8 {
			t.Errorf("%d steps, then %d", first, x.Steps())
		}
	}
}

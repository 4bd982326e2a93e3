package ledger

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/resource"
)

// What a request does not ask for cannot block it. What a limit does not list is not limited,
// except a custom countable of a host or a queue, which then has none of it.
func TestWhatIsAskedForMustFit(t *testing.T) {
	request := resource.Vector{}.WithMemory(4<<30).WithCPU(0).With("gpu", 1).With("tpu", 0)
	for _, test := range []struct {
		name            string
		limit           resource.Vector
		onHost, inQuota bool
	}{
		{"exactly enough", resource.Vector{}.WithMemory(4<<30).With("gpu", 1), true, true},
		{"a zero asks for nothing of what there is none of", resource.Vector{}.WithMemory(4<<30).WithCPU(0).With("gpu", 1).With("tpu", 0), true, true},
		{"too little of a fixed dimension", resource.Vector{}.WithMemory(4<<30-1).With("gpu", 1), false, false},
		{"too little of a custom one", resource.Vector{}.WithMemory(4<<30).With("gpu", 0), false, false},
		{"a fixed dimension is not listed", resource.Vector{}.With("gpu", 1), true, true},
		{"a custom one is not listed", resource.Vector{}.WithMemory(4<<30).With("fpga", 3).With("zpu", 3), false, true},
		{"nothing is listed", resource.Vector{}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			host, quota := &account{complete: true}, &account{}
			for _, a := range []*account{host, quota} {
				a.setLimit(test.limit, resource.Vector{})
			}
			if got := host.fits(request); got != test.onHost {
				t.Errorf("on a host: %t", got)
			}
			if got := quota.fits(request); got != test.inQuota {
				t.Errorf("within a quota: %t", got)
			}
		})
	}
	for _, dimension := range allDimensions() {
		a := &account{complete: true}
		a.setLimit(resource.Vector{}.With(dimension, 0), resource.Vector{})
		if one := (resource.Vector{}).With(dimension, 1); a.fits(one) {
			t.Errorf("%v fits where there is none", one)
		}
	}
}

func TestZerosFitWhereTooMuchIsUsed(t *testing.T) {
	a := full(t)
	zeros, limit := resource.Vector{}, resource.Vector{}
	for _, dimension := range allDimensions() {
		zeros, limit = zeros.With(dimension, 0), limit.With(dimension, 1)
	}
	a.setLimit(limit, resource.Vector{})
	for _, request := range []resource.Vector{{}, zeros} {
		if !a.overLimit() || !a.fits(request) {
			t.Errorf("%v does not fit", request)
		}
	}
}

func TestWhatFitsLacksNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vector := func(name string, most int64) resource.Vector {
			var v resource.Vector
			for _, dimension := range append(allDimensions(), "fpga") {
				if rapid.Bool().Draw(t, name+" lists "+dimension) {
					v = v.With(dimension, rapid.Int64Range(0, most).Draw(t, name+" of "+dimension))
				}
			}
			return v
		}
		a := &account{complete: rapid.Bool().Draw(t, "complete"), others: vector("others", 2)}
		a.add(Active, vector("used", 2))
		a.add(Reserved, vector("reserved", 2))
		a.setLimit(vector("limit", 12), vector("protected", 2))
		request := vector("request", 5)
		want := true
		for dimension, asked := range request.All() {
			want = want && (asked == 0 || asked <= a.available(dimension))
		}
		if got := a.fits(request); got != want {
			t.Fatalf("%v within %+v: %t, want %t", request, a.info(), got, want)
		}
		if lacks := a.shortfalls(nil, request); (len(lacks) == 0) != want {
			t.Fatalf("%v within %+v lacks %v", request, a.info(), lacks)
		}
		if want && !a.couldEverFit(request) {
			t.Fatalf("%v fits within %+v, and never could", request, a.info())
		}
	})
}

func TestLookingWhetherItFitsDoesNotAllocate(t *testing.T) {
	limit := resource.Vector{}.WithMemory(1<<40).WithCPU(64000).WithInstances(100).With("fpga", 9).With("gpu", 8).With("licence", 7)
	a := &account{complete: true}
	a.setLimit(limit, resource.Vector{})
	for name, request := range map[string]resource.Vector{
		"fixed":  resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1),
		"custom": resource.Vector{}.WithMemory(4<<30).With("fpga", 1).With("gpu", 2).With("licence", 3),
	} {
		fits := true
		if allocations := testing.AllocsPerRun(100, func() { fits = fits && a.fits(request) }); allocations != 0 || !fits {
			t.Errorf("%s: %v allocations, fits: %t", name, allocations, fits)
		}
	}
}

// BenchmarkAccount measures what the ledger does with one account for one request and its release:
// fits, add, subtract. The vectors are those of a host with three fixed dimensions, and of one
// that lists custom ones next to them.
func BenchmarkAccount(b *testing.B) {
	for _, custom := range []int{0, 1, 4, resource.MaxCustom} {
		request := resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)
		limit := resource.Vector{}.WithMemory(1 << 40).WithCPU(64_000).WithInstances(1000)
		for i := range custom {
			request, limit = request.With("gpu"+strconv.Itoa(i), 1), limit.With("gpu"+strconv.Itoa(i), 8)
		}
		b.Run("custom="+strconv.Itoa(custom), func(b *testing.B) {
			a := &account{complete: true}
			a.setLimit(limit, resource.Vector{})
			b.ReportAllocs()
			for b.Loop() {
				if !a.fits(request) {
					b.Fatal("it no longer fits")
				}
				a.add(Active, request)
				a.subtract(Active, request)
			}
		})
	}
}

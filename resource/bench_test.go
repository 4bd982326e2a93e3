package resource

import (
	"strconv"
	"testing"
)

// BenchmarkAccount measures what the ledger does with one account for one request and its release: look, add, take. The vectors
// are those of a host with three fixed dimensions, and of one that lists as many custom ones beside them.
func BenchmarkAccount(b *testing.B) {
	for _, custom := range []int{0, 1, 4, MaxCustom} {
		request := Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)
		limit := Vector{}.WithMemory(1 << 40).WithCPU(64_000).WithInstances(1000)
		for i := range custom {
			request, limit = request.With("gpu"+strconv.Itoa(i), 1), limit.With("gpu"+strconv.Itoa(i), 8)
		}
		b.Run("custom="+strconv.Itoa(custom), func(b *testing.B) {
			var used Sum
			if err := used.Add(limit); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if !request.FitsWithin(limit, Absent) || used.Minus(request) != nil || used.Add(request) != nil {
					b.Fatal("it no longer fits")
				}
			}
		})
	}
}

func BenchmarkFitsWithin(b *testing.B) {
	request, available := Vector{}.WithMemory(4<<30).WithCPU(2000), Vector{}.WithMemory(1<<40).WithCPU(64_000)
	b.ReportAllocs()
	for b.Loop() {
		if !request.FitsWithin(available, Absent) {
			b.Fatal("it no longer fits")
		}
	}
}

func BenchmarkParseMemory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseMemory("1.5GiB"); err != nil {
			b.Fatal(err)
		}
	}
}

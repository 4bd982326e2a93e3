package main

import (
	"context"
	"testing"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// allocs counts the memory allocations of the operations of a decision. It needs no workload.
func allocs(_ context.Context, r *run) error {
	const runs = 10000
	v := resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)
	w := resource.Vector{}.WithMemory(64 << 30).WithCPU(16000).WithInstances(100)
	sum := resource.Sum{}
	kept := 0
	keep := func(b bool) {
		if b {
			kept++
		}
	}
	r.line("allocs/resource", testing.AllocsPerRun(runs, func() {
		keep(v.NotMoreThan(w))
		keep(v.EqualTo(w))
		keep(v.IsZero())
		if total, err := v.Add(w); err == nil {
			keep(total.Memory() > 0)
		}
		keep(sum.Add(v) == nil)
		keep(sum.Minus(v) == nil)
		for _, quantity := range v.All() {
			keep(quantity > 0)
		}
	}), "allocations", 0)
	set := label.Of("user", "alice", "creator", "IDE", "engineType", "spark-3.3", "tenant", "bdp")
	scope := label.NewScope("user", "creator", "engineType")
	filter := label.Of("user", "alice", "creator", label.Any)
	buffer := make([]byte, 0, 256)
	r.line("allocs/label", testing.AllocsPerRun(runs, func() {
		buffer = scope.AppendKey(buffer[:0], set)
		keep(set.MatchesFilter(filter))
		keep(set.Value("engineType") == "")
		keep(set.Equal(filter))
	}), "allocations", 0)
	return nil
}

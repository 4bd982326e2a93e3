package yarn_test

import (
	"testing"

	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

// The limits of queues after a cluster of 64 GiB and 64 cores has grown to 256 GiB and 128 cores.
func TestWhatLimitsBecomeIfTheClusterGrows(t *testing.T) {
	const gib = 1 << 30
	to := yarn.Assumptions{GrowsTo: resource.Vector{}.WithMemory(256 * gib).WithCPU(128_000)}
	size := func(memory, cpu int64) resource.Vector {
		return resource.Vector{}.WithMemory(memory * gib).WithCPU(cpu * 1000)
	}
	for name, want := range map[string]map[string]resource.Vector{
		"3.4.3-capacity-percent": {"root": size(256, 128), "root.a": size(192, 96), "root.a.a1": size(96, 48), "root.b.b1": size(256, 128)},
		"2.7.7-capacity-percent": {"root": size(256, 128), "root.a": size(192, 96), "root.a.a1": size(96, 48)},
		"3.4.3-capacity-weight":  {"root": size(256, 128), "root.b": size(128, 64), "root.a.a1": size(256, 128)},
		// A configured maximum stays, and so do the limits below it; a queue without one grows to
		// the cluster's size.
		"3.4.3-capacity-absolute": {"root": size(256, 128), "root.b": size(256, 128), "root.a": {}, "root.a.a1": {}, "root.a.a2": {}},
		// The FairScheduler does not distinguish a maximum from the size of the cluster: a limit
		// that equals it grows.
		"3.4.3-fair": {"root": size(256, 128)},
		// A labelled partition stays as it is.
		"3.4.3-capacity-partition": {"root": size(256, 128)},
	} {
		left := len(want)
		for _, q := range capturedQueues(t, name, to) {
			if q.Partition != "" {
				if !q.MayGrow.IsUnset() || !q.UsersMayGrow.IsUnset() {
					t.Errorf("%s: %s@%s may grow to %s", name, q.Path, q.Partition, q.MayGrow)
				}
				continue
			}
			if grown, known := want[q.Path]; known {
				left--
				if !q.MayGrow.EqualTo(grown) || q.MayGrow.IsUnset() != grown.IsUnset() {
					t.Errorf("%s: %s of %s may grow to %s; want %s", name, q.Path, q.Limit, q.MayGrow, grown)
				}
			}
		}
		if left > 0 {
			t.Errorf("%s: %d queues are not there", name, left)
		}
		less := yarn.Assumptions{GrowsTo: size(8, 8)} // smaller than today
		for _, q := range append(capturedQueues(t, name, yarn.Assumptions{}), capturedQueues(t, name, less)...) {
			if !q.MayGrow.IsUnset() || !q.UsersMayGrow.IsUnset() {
				t.Errorf("%s: %s may grow to %s, %s", name, q.Path, q.MayGrow, q.UsersMayGrow)
			}
		}
	}
}

// A user's limit follows from the queue's guarantee: here a hundred times an eighth of the cluster.
func TestWhatUsersMayHaveIfTheClusterGrows(t *testing.T) {
	const tib = 1 << 40
	memory := yarn.Assumptions{GrowsTo: resource.Vector{}.WithMemory(tib)}
	for _, q := range capturedQueues(t, "3.4.3-capacity-percent", memory) {
		if q.Path == "root.a.a1" && !q.UsersMayGrow.Equal(resource.Vector{}.WithMemory(100*tib/8)) {
			t.Errorf("a user's %s may grow to %s", q.UserLimit, q.UsersMayGrow)
		}
	}
}

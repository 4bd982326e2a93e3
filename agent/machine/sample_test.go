package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/providers/host"
)

// tenant is an engine, and what of its memory is in RAM and in swap.
type tenant struct {
	entitled, resident, swapped int64
}

// headroom is what a sample of these leaves for grants, by the formula of docs/concepts.md, on a
// machine that has so much next to them.
func headroom(memory int64, tenants []tenant) int64 {
	available, promised := memory, int64(0)
	usages := make([]host.Usage, len(tenants))
	for i, e := range tenants {
		available -= e.resident
		unreclaimable := e.resident + e.swapped
		usages[i] = host.Usage{UnreclaimableBytes: unreclaimable, SwappedBytes: e.swapped}
		promised += max(0, e.entitled-unreclaimable)
	}
	sample := SampleMessage(host.Sample{MemoryAvailableBytes: &available}, usages, nil)
	return sample.GetMemoryAvailableBytes() - promised
}

// Whatever the kernel moves to swap and back: it makes nobody's room larger or smaller. Even where
// engines use more than they are entitled to.
func TestSwappingDoesNotChangeTheHeadroom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(0, 1<<20)
		tenants := make([]tenant, rapid.IntRange(1, 5).Draw(t, "engines"))
		for i := range tenants {
			tenants[i] = tenant{bytes.Draw(t, "entitled"), bytes.Draw(t, "resident"), bytes.Draw(t, "swapped")}
		}
		memory := int64(20 << 20) // enough that what is available does not end at zero
		before := headroom(memory, tenants)
		for i := range tenants {
			out := rapid.Int64Range(-tenants[i].swapped, tenants[i].resident).Draw(t, "moved")
			tenants[i].resident -= out
			tenants[i].swapped += out
		}
		if after := headroom(memory, tenants); after != before {
			t.Fatalf("headroom %d, was %d", after, before)
		}
	})
}

// An engine that is over its entitlement takes room from others, in RAM or in swap.
func TestOveruseInSwapIsFelt(t *testing.T) {
	const mib = 1 << 20
	for _, over := range []tenant{{100 * mib, 150 * mib, 0}, {100 * mib, 100 * mib, 50 * mib}, {100 * mib, 0, 150 * mib}} {
		if got := headroom(1000*mib, []tenant{over}); got != 850*mib {
			t.Errorf("%+v: %d, want 850 MiB", over, got)
		}
	}
}

func TestAvailableIsNeverNegative(t *testing.T) {
	available := int64(100)
	usages := []host.Usage{{SwappedBytes: 80}, {SwappedBytes: 80}}
	if got := SampleMessage(host.Sample{MemoryAvailableBytes: &available}, usages, nil); got.MemoryAvailableBytes == nil || got.GetMemoryAvailableBytes() != 0 {
		t.Errorf("%v", got)
	}
	if available != 100 {
		t.Error("the measurement was changed")
	}
	if got := SampleMessage(host.Sample{}, usages, nil); got.MemoryAvailableBytes != nil {
		t.Errorf("unknown became %v", got)
	}
}

func TestSampleTellsWhatWasMeasured(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	got := SampleMessage(host.Sample{
		SwapTotalBytes: n(1), SwapUsedBytes: n(2), HugePagesTotalBytes: n(3), HugePagesFreeBytes: n(4), OutOfMemoryKills: n(5),
		Degraded: map[string]string{host.SourceLoad: "broken"},
	}, nil, map[string]string{"gpu": "no driver"})
	figures := []int64{got.GetSwapTotalBytes(), got.GetSwapUsedBytes(), got.GetHugePagesTotalBytes(), got.GetHugePagesFreeBytes(), got.GetOutOfMemoryKills()}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5}, figures); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"load": "broken", "countables.gpu": "no driver"}, got.GetDegraded()); diff != "" {
		t.Error(diff)
	}
	if got := SampleMessage(host.Sample{}, nil, map[string]string{}); got.Degraded != nil || got.OutOfMemoryKills != nil || got.SwapTotalBytes != nil {
		t.Errorf("%v", got)
	}
}

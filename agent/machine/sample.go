package machine

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// SampleMessage returns a sample of the machine as a message of the contract. uncounted says why
// countables are not known.
//
// Memory of engines that is in swap counts as touched, as it does when over-use is judged, and it
// is subtracted from the available memory. The kernel calls the memory available from which it was
// moved away, but it comes back as soon as the engine looks at it. So an engine that goes to swap
// and comes back changes nothing in
//
//	headroom = available - safety - sum of max(0, entitled - unreclaimable)
//
// as long as it is within its entitlement, and memory beyond that is missing there, in swap or not.
// (Counted as touched alone, each byte that is moved to swap would be given away a second time: ADR
// 28.)
func SampleMessage(s host.Sample, usages []host.Usage, uncounted map[string]string) *bursarv1.HostSample {
	available := s.MemoryAvailableBytes
	if available != nil {
		left := *available
		for i := range usages {
			left = max(0, left-usages[i].SwappedBytes)
		}
		available = &left
	}
	degraded := s.Degraded
	for name, problem := range uncounted {
		if degraded == nil {
			degraded = make(map[string]string, len(uncounted))
		}
		degraded["countables."+name] = problem
	}
	boundDegraded(degraded)
	return &bursarv1.HostSample{
		SampleTime:       timestamppb.New(s.Time),
		MemoryTotalBytes: s.MemoryTotalBytes, MemoryAvailableBytes: available, MemorySafetyBytes: &s.MemorySafetyBytes,
		HugePagesTotalBytes: s.HugePagesTotalBytes, HugePagesFreeBytes: s.HugePagesFreeBytes,
		CpuTotalMillis: s.CPUTotalMillis, CpuUsedMillis: s.CPUUsedMillis, Load1Millis: s.Load1Millis,
		MemorySomeAvg10: s.MemorySomeAvg10, MemoryFullAvg10: s.MemoryFullAvg10, CpuSomeAvg10: s.CPUSomeAvg10,
		Pressure: s.Pressure, SwapTotalBytes: s.SwapTotalBytes, SwapUsedBytes: s.SwapUsedBytes,
		OutOfMemoryKills: s.OutOfMemoryKills,
		Processes:        int32(min(s.Processes, 1<<31-1)), //nolint:gosec // bounded
		Degraded:         degraded,
	}
}

// mostDegraded is how many sources a heartbeat may name: with more of them it is refused.
const mostDegraded = 32

// boundDegraded leaves out sources that a heartbeat has no room for, and says so.
func boundDegraded(degraded map[string]string) {
	if len(degraded) <= mostDegraded {
		return
	}
	sources := slices.Sorted(maps.Keys(degraded))
	for _, source := range sources[mostDegraded-1:] {
		delete(degraded, source)
	}
	degraded["others"] = fmt.Sprintf("%d more sources", len(sources)-len(degraded))
}

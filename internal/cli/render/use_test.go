package render

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// What an engine uses has no page cache, and its peak says how it is known.
func TestWhatAnEngineUses(t *testing.T) {
	measured := &bursarv1.Resource{MemoryBytes: new(int64(686 << 20)), CpuMillis: new(int64(500))}
	for want, got := range map[string]string{
		"12MiB of memory, 0.5 cores":  UsesText(measured, 12<<20),
		"686MiB of memory, 0.5 cores": UsesText(measured, 0), // of an older version
		"":                            UsesText(nil, 0),
		"400MiB of memory (seen at the agent's ticks alone)": peakText(&bursarv1.Allocation{
			MeasuredPeak: &bursarv1.Resource{MemoryBytes: new(int64(400 << 20))}, MeasuredPeakSource: bursarv1.PeakSource_PEAK_SOURCE_TICKS,
		}),
		"64MiB of memory (killed at this limit)": peakText(&bursarv1.Allocation{
			MeasuredPeak: &bursarv1.Resource{MemoryBytes: new(int64(64 << 20))}, MeasuredPeakSource: bursarv1.PeakSource_PEAK_SOURCE_LIMIT,
		}),
		"65MiB of memory": peakText(&bursarv1.Allocation{
			MeasuredPeak: &bursarv1.Resource{MemoryBytes: new(int64(65 << 20))}, MeasuredPeakSource: bursarv1.PeakSource_PEAK_SOURCE_KERNEL,
		}),
		"1m30.5s": cpuTimeText(durationpb.New(90*time.Second + 500*time.Millisecond)),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := peakText(&bursarv1.Allocation{}) + cpuTimeText(nil); got != "" {
		t.Errorf("nothing is known: %q", got)
	}
}

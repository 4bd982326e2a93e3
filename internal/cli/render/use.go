package render

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// MemoryInUse is the memory of measured engines that the kernel cannot take back; nil: not known.
// Records of older versions only have all memory that the engines held.
func MemoryInUse(measured *bursarv1.Resource, unreclaimable int64) *int64 {
	if measured == nil || measured.MemoryBytes == nil || unreclaimable <= 0 {
		return OrEmpty(measured).MemoryBytes
	}
	unreclaimable = min(unreclaimable, measured.GetMemoryBytes())
	return &unreclaimable
}

// UsesText writes the resources that an engine uses, without page cache that the kernel can take
// back.
func UsesText(measured *bursarv1.Resource, unreclaimable int64) string {
	if measured == nil {
		return ""
	}
	return usedText(&bursarv1.Resource{MemoryBytes: MemoryInUse(measured, unreclaimable), CpuMillis: measured.CpuMillis})
}

// peakText writes the most that an engine used, and how that is known if it is not certain.
func peakText(a *bursarv1.Allocation) string {
	text := usedText(a.GetMeasuredPeak())
	if text == "" {
		return ""
	}
	switch a.GetMeasuredPeakSource() {
	case bursarv1.PeakSource_PEAK_SOURCE_TICKS:
		text += " (seen at the agent's ticks alone)"
	case bursarv1.PeakSource_PEAK_SOURCE_LIMIT:
		text += " (killed at this limit)"
	case bursarv1.PeakSource_PEAK_SOURCE_UNSPECIFIED, bursarv1.PeakSource_PEAK_SOURCE_KERNEL:
	}
	return text
}

// cpuTimeText writes processor time; empty: it is not known.
func cpuTimeText(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return d.AsDuration().Round(10 * time.Millisecond).String()
}

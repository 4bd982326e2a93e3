package tracker

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/peak"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// peakUse is the highest use of an engine.
type peakUse struct {
	// seen is the peak in the samples of this incarnation, and before the memory peak of earlier
	// ones, in bytes.
	seen      peak.Seen
	before    int64
	cpuMillis int64
}

// cpuTime is the processor time of an engine.
type cpuTime struct {
	// total never goes back. offset is the difference to the meter's own count, which begins again
	// with each incarnation of the agent.
	total, offset time.Duration
}

// Use is the total use of an engine, as messages of the contract. A nil field is not known.
type Use struct {
	Peak    *bursarv1.Resource
	Source  bursarv1.PeakSource
	CPUTime *durationpb.Duration
}

// noteCPUTime takes the meter's count. 0 means that there is none.
func (e *entry) noteCPUTime(counted time.Duration) {
	t := &e.cpuTime
	if counted <= 0 {
		return
	}
	t.offset = max(t.offset, t.total-counted)
	t.total = t.offset + counted
}

// use returns the use of a running engine. The peak is nil before the first sample.
func (e *entry) use() Use {
	var u Use
	if e.usage != nil || e.peak.before > 0 {
		u.Peak = e.measuredPeak(max(e.peak.seen.Bytes, e.peak.before))
		u.Source = bursarv1.PeakSource_PEAK_SOURCE_TICKS
	}
	if total := e.cpuTime.total; total > 0 {
		u.CPUTime = durationpb.New(total)
	}
	return u
}

// lastUse returns the use of an ended engine, with the kernel's marks.
func (e *entry) lastUse(marks peak.Marks) Use {
	u := e.use()
	bytes, source := peak.Of(e.peak.seen, marks)
	switch {
	case source == peak.Unknown:
	case bytes >= e.peak.before:
		u.Peak, u.Source = e.measuredPeak(bytes), bursarv1.PeakSource(source)
	}
	if total := max(e.cpuTime.total, marks.CPUTime); total > 0 {
		u.CPUTime = durationpb.New(total)
	}
	return u
}

func (e *entry) measuredPeak(bytes int64) *bursarv1.Resource {
	r := &bursarv1.Resource{MemoryBytes: &bytes}
	if e.usage != nil || e.peak.cpuMillis > 0 {
		cpu := e.peak.cpuMillis
		r.CpuMillis = &cpu
	}
	return r
}

// showIn copies the use into an allocation.
func (u Use) showIn(a *bursarv1.Allocation) {
	a.MeasuredPeak, a.MeasuredPeakSource, a.CpuTime = u.Peak, u.Source, u.CPUTime
}

// restoreUse takes the use that an earlier incarnation has saved.
func (e *entry) restoreUse() {
	e.peak.before, e.peak.cpuMillis = e.grant.GetMeasuredPeak().GetMemoryBytes(), e.grant.GetMeasuredPeak().GetCpuMillis()
	if saved := e.grant.GetCpuTime(); saved.IsValid() {
		e.cpuTime.total = max(0, saved.AsDuration())
	}
	if e.grant.GetMeasuredPeak() != nil || e.grant.GetCpuTime() != nil {
		e.grant = proto.CloneOf(e.grant)
		Use{}.showIn(e.grant)
	}
}

// LastUse returns the use of an ended engine whose caller reports the end before a measurement
// finds it.
func (t *Tracker) LastUse(id string, marks peak.Marks) Use {
	e := t.entries[id]
	if e == nil || !e.tracked() {
		e = &entry{}
	}
	return e.lastUse(marks)
}

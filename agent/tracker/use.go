package tracker

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/peak"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// peakUse is the most that an engine used.
type peakUse struct {
	// seen is what the samples of this incarnation have shown, and before the memory that an
	// earlier one knew of, in bytes.
	seen      peak.Seen
	before    int64
	cpuMillis int64
}

// cpuTime is the processor time of an engine.
type cpuTime struct {
	// total never goes back. It is offset more than the meter's own count, which begins again with
	// each incarnation of the agent.
	total, offset time.Duration
}

// Use is what an engine has used, as messages of the contract. A nil field is not known.
type Use struct {
	Peak    *bursarv1.Resource
	Source  bursarv1.PeakSource
	CPUTime *durationpb.Duration
}

// noteCPUTime takes a count of the meter. A count of 0 says that there was none.
func (e *entry) noteCPUTime(counted time.Duration) {
	t := &e.cpuTime
	if counted <= 0 {
		return
	}
	t.offset = max(t.offset, t.total-counted)
	t.total = t.offset + counted
}

// use is what is known of an engine while it runs. The peak is nil before the first sample.
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

// lastUse is what is known at the end of an engine, with the kernel's marks.
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

// showIn puts it into an allocation.
func (u Use) showIn(a *bursarv1.Allocation) {
	a.MeasuredPeak, a.MeasuredPeakSource, a.CpuTime = u.Peak, u.Source, u.CPUTime
}

// restoreUse takes what an earlier incarnation has saved.
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

// LastUse is what is known of the use of an engine that has ended, if its caller says so before a
// measurement does.
func (t *Tracker) LastUse(id string, marks peak.Marks) Use {
	e := t.entries[id]
	if e == nil || !e.tracked() {
		e = &entry{}
	}
	return e.lastUse(marks)
}

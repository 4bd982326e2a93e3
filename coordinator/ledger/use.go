package ledger

import (
	"time"

	"github.com/bursar/bursar/resource"
)

// PeakSource is how the most memory that an engine used is known; the numbers are those of the
// contract.
type PeakSource uint8

// The sources of a peak.
const (
	PeakUnknown PeakSource = iota // no peak, or one of an older agent
	PeakTicks                     // its agent's measurements alone
	PeakKernel                    // the kernel's marks
	PeakLimit                     // the limit at which it was killed
)

// PeakSourceOf returns the source of a number, PeakUnknown for one of a later version.
func PeakSourceOf(number int32) PeakSource {
	if number < 0 || number > int32(PeakLimit) {
		return PeakUnknown
	}
	return PeakSource(number)
}

// Peak is the most of memory and of cpu that an engine used, each for itself. It is smaller than a
// vector: there is one for each allocation.
type Peak struct {
	Memory, CPU       int64
	HasMemory, HasCPU bool
	Source            PeakSource // of the memory
}

// NewPeak is the peak that a vector says.
func NewPeak(v resource.Vector, source PeakSource) (p Peak) {
	p.Source = source
	p.Memory, p.HasMemory = v.Get(resource.Memory)
	p.CPU, p.HasCPU = v.Get(resource.CPU)
	return p
}

// Vector returns the known peaks.
func (p Peak) Vector() (v resource.Vector) {
	if p.HasMemory {
		v = v.With(resource.Memory, p.Memory)
	}
	if p.HasCPU {
		v = v.With(resource.CPU, p.CPU)
	}
	return v
}

// raised is the most of this peak and of a measurement. One that is out of range does not count.
func (p Peak) raised(v resource.Vector) Peak {
	if v.Validate() != nil {
		return p
	}
	if memory, measured := v.Get(resource.Memory); measured && (memory > p.Memory || !p.HasMemory) {
		p.Memory, p.HasMemory = memory, true
	}
	if cpu, measured := v.Get(resource.CPU); measured && (cpu > p.CPU || !p.HasCPU) {
		p.CPU, p.HasCPU = cpu, true
	}
	return p
}

// notePeak stores the greatest use that an agent has seen. An agent of an older version reports
// only its measurements. The source is that of the highest peak, and of the last report with that
// peak.
func (a *Allocation) notePeak(measured, reported resource.Vector, source PeakSource) {
	if !reported.Has(resource.Memory) {
		reported = Peak{}.raised(reported).raised(measured).Vector()
	}
	if reported.IsZero() && source == PeakUnknown {
		return
	}
	before := a.Peak
	a.Peak = before.raised(reported)
	if source != PeakUnknown && (before.Source == PeakUnknown || get(reported, resource.Memory) >= before.Memory) {
		a.Peak.Source = source
	}
}

// noteCPUTime stores an agent's processor time so far, which never goes back.
func (a *Allocation) noteCPUTime(used time.Duration) { a.CPUTime = max(a.CPUTime, used) }

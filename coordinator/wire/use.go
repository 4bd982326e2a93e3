package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// mostCPUTime is more than the processor time of any engine: 100 processors for a year.
const mostCPUTime = 100 * 365 * 24 * time.Hour

// PeakFrom converts the highest use of an engine that the caller of a Release reports: memory and
// cpu, like other peaks.
func PeakFrom(m *bursarv1.Resource) (resource.Vector, error) {
	return vectorFrom("measured_peak", m)
}

// PeakSourceFrom converts the source of a peak. A source of a later version is unknown.
func PeakSourceFrom(s bursarv1.PeakSource) ledger.PeakSource {
	return ledger.PeakSourceOf(int32(s))
}

// CPUTimeFrom converts an agent's report of an engine's processor time; 0 if it is unknown or
// impossible.
func CPUTimeFrom(m *durationpb.Duration) time.Duration {
	if m == nil || !m.IsValid() {
		return 0
	}
	if d := m.AsDuration(); d > 0 && d <= mostCPUTime {
		return d
	}
	return 0
}

// cpuTimeMessage converts a processor time; nil for 0, which is unknown.
func cpuTimeMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return DurationMessage(d)
}

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

// PeakFrom reads the most that an engine used, as the caller of a Release says it: memory and cpu,
// as other peaks.
func PeakFrom(m *bursarv1.Resource) (resource.Vector, error) {
	return vectorFrom("measured_peak", m)
}

// PeakSourceFrom reads how a peak is known. A source of a later version is not known.
func PeakSourceFrom(s bursarv1.PeakSource) ledger.PeakSource {
	return ledger.PeakSourceOf(int32(s))
}

// CPUTimeFrom reads what an agent says of the processor time of an engine; 0: it is not known, or
// cannot be.
func CPUTimeFrom(m *durationpb.Duration) time.Duration {
	if m == nil || !m.IsValid() {
		return 0
	}
	if d := m.AsDuration(); d > 0 && d <= mostCPUTime {
		return d
	}
	return 0
}

// cpuTimeMessage is nil for 0: it is not known.
func cpuTimeMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return DurationMessage(d)
}

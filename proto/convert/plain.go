package convert

import (
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The limits of the API that IsPlain checks.
const (
	longestBootID  = 64
	longestText    = 1024
	longestPath    = 4096
	mostEngines    = 100_000
	mostDegraded   = 32
	mostNotes      = 8
	mostDisks      = 64
	mostIncidents  = 16
	longestName    = 64
	largestInteger = 1<<53 - 1
)

// IsPlain reports whether a request is a usual heartbeat that satisfies every rule of the API, so
// that the rules need not run. They use reflection, which takes longer than the rest of the work
// for a heartbeat of 20 engines. False means nothing: the rules then decide, and report the fault.
func IsPlain(request any) bool {
	m, ok := request.(*bursarv1.SyncRequest)
	if !ok || !identity.IsHostID(m.GetHostId()) || len(m.GetBootId()) > longestBootID || len(m.GetEngines()) > mostEngines ||
		len(m.GetEnded()) > 0 || len(m.GetVetoes()) > 0 || len(m.GetOtherClusters()) > 0 || !isPlainResource(m.GetCapacity()) || !isPlainSample(m.GetSample()) {
		return false
	}
	for _, e := range m.GetEngines() {
		if e.GetUnreclaimableBytes() < 0 || e.GetMemoryLimitBytes() < 0 || len(e.GetOverUse()) > 0 || !arePlainIncidents(e.GetIncidents()) || !areBoundedTexts(e) ||
			!isPlainResource(e.GetMeasured()) || !isPlainResource(e.GetMeasuredPeak()) {
			return false
		}
	}
	return true
}

// areBoundedTexts reports whether the texts of a report are short enough.
func areBoundedTexts(e *bursarv1.EngineReport) bool {
	return len(e.GetStopError()) <= longestText && len(e.GetPhaseReason()) <= longestText && len(e.GetLogDirectory()) <= longestPath
}

// arePlainIncidents is for engines with past incidents: each of their reports has them.
func arePlainIncidents(list []*bursarv1.Incident) bool {
	for _, i := range list {
		if len(i.GetDimension()) > longestName || i.GetCount() < 0 || i.GetMostUsed() < 0 || i.GetBound() < 0 {
			return false
		}
	}
	return len(list) <= mostIncidents
}

func isPlainResource(m *bursarv1.Resource) bool {
	return m == nil || inRange(m.MemoryBytes) && inRange(m.CpuMillis) && inRange(m.Instances) && len(m.GetCustom()) == 0 && len(m.GetExternal()) == 0
}

func inRange(quantity *int64) bool {
	return quantity == nil || *quantity >= 0 && *quantity <= largestInteger
}

func isPlainSample(m *bursarv1.HostSample) bool {
	if m == nil {
		return true
	}
	for _, quantity := range [...]int64{
		m.GetMemoryTotalBytes(), m.GetMemoryAvailableBytes(), m.GetMemorySafetyBytes(), m.GetCpuTotalMillis(), m.GetCpuUsedMillis(), m.GetLoad1Millis(),
		int64(m.GetMemorySomeAvg10()), int64(m.GetMemoryFullAvg10()), int64(m.GetCpuSomeAvg10()), m.GetSwapUsedBytes(), int64(m.GetProcesses()),
		m.GetHugePagesTotalBytes(), m.GetHugePagesFreeBytes(), m.GetSwapTotalBytes(), m.GetOutOfMemoryKills(),
	} {
		if quantity < 0 {
			return false
		}
	}
	for _, d := range m.GetDisks() {
		if len(d.GetPath()) > longestPath || d.GetTotalBytes() < 0 || d.GetFreeBytes() < 0 || d.GetTotalInodes() < 0 || d.GetFreeInodes() < 0 {
			return false
		}
	}
	for _, note := range m.GetNotes() {
		if len(note) > longestText {
			return false
		}
	}
	return len(m.GetDegraded()) <= mostDegraded && len(m.GetNotes()) <= mostNotes && len(m.GetDisks()) <= mostDisks && len(m.GetRefusal()) <= longestText
}

package render

import (
	"fmt"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// EndCause says why a command ended, unless it ended by itself; empty: it has, or the cause is not
// known.
func EndCause(a *bursarv1.Allocation) string {
	reason := a.GetReason()
	kills := memoryKills(a).GetCount()
	switch {
	case !HasEnded(a):
		return ""
	case strings.HasPrefix(reason, OutOfMemory), strings.HasPrefix(reason, "killed by ") && strings.Contains(reason, "for lack of memory"):
		return "the command was " + reason
	case strings.HasPrefix(reason, "exit ") && strings.Contains(reason, "for lack of memory"):
		return "the command ended with " + reason
	case strings.HasPrefix(reason, "stopped"):
		return "the command was " + reason + killsBefore(kills)
	case kills > 0:
		return "the command has ended" + killsBefore(kills)
	case a.GetExitStatus().GetOutOfMemory(): // as an older agent says it
		return "the command was " + OutOfMemory
	case a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED:
		return "its allocation had ended before it did: " + AllocationState(a.GetState()) + withReason(reason)
	case a.GetExitStatus() == nil && reason != "" && !strings.HasPrefix(reason, "process ended"):
		// Run gives back with an exit status: somebody else was first.
		return "its allocation had ended before it did: " + reason
	}
	return ""
}

func killsBefore(kills int64) string {
	if kills <= 0 {
		return ""
	}
	return fmt.Sprintf(", after the kernel had killed %s of it for lack of memory", Counted(int(kills), "process", "processes"))
}

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// incident finds one of an allocation; nil: there is none.
func incident(a *bursarv1.Allocation, kind bursarv1.IncidentKind) *bursarv1.Incident {
	for _, i := range a.GetIncidents() {
		if i.GetKind() == kind && i.GetDimension() == resource.Memory {
			return i
		}
	}
	return nil
}

func memoryKills(a *bursarv1.Allocation) *bursarv1.Incident {
	return incident(a, bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL)
}

// memoryPeak is the most memory that an engine is known to have used, in bytes; 0: not known.
func memoryPeak(a *bursarv1.Allocation) int64 {
	most := max(a.GetMeasured().GetMemoryBytes(), a.GetMeasuredPeak().GetMemoryBytes())
	for _, i := range a.GetIncidents() {
		if i.GetDimension() == resource.Memory {
			most = max(most, i.GetMostUsed())
		}
	}
	return most
}

// MemoryFacts has the memory that an engine was entitled to, the most that it used, and the amount
// to ask for next time, if more memory would have helped.
func MemoryFacts(a *bursarv1.Allocation) string {
	entitled, peak := a.GetEntitled().GetMemoryBytes(), memoryPeak(a)
	if entitled == 0 || peak == 0 {
		return ""
	}
	text := fmt.Sprintf("it was entitled to %s of memory and used %s at most", MemoryText(entitled), MemoryText(peak))
	switch next := nextMemory(a); {
	case next > 0:
		text += fmt.Sprintf("; ask for --memory %s next time (%s)", resource.FormatMemory(next), nextMemoryFormula)
	case memoryKills(a) != nil:
		text += ": the memory of others or of the machine ran out, and a larger request alone does not help"
	}
	return text
}

const (
	// nextMemoryStep is the step to which nextMemory rounds up, in bytes.
	nextMemoryStep    = 64 << 20
	nextMemoryFormula = "the most it used and a quarter of that, rounded up to 64MiB"
)

// nextMemory is the amount to ask for in place of an engine that ended because of its memory: the
// most that it used, or its limit if it was killed there, and a quarter of that, rounded up to
// nextMemoryStep. It is 0 if the engine ended otherwise, or kept to its entitlement.
func nextMemory(a *bursarv1.Allocation) int64 {
	kills := memoryKills(a)
	stopped := strings.HasPrefix(a.GetReason(), "stopped") && strings.HasSuffix(a.GetReason(), "(policy kill)")
	if kills == nil && !stopped && !a.GetExitStatus().GetOutOfMemory() {
		return 0
	}
	base := max(memoryPeak(a), kills.GetBound())
	if base < a.GetEntitled().GetMemoryBytes() && kills.GetBound() == 0 {
		return 0
	}
	base += base / 4
	return (base + nextMemoryStep - 1) / nextMemoryStep * nextMemoryStep
}

// incidentFacts lists the incidents in the life of an engine, a line for each.
func incidentFacts(a *bursarv1.Allocation) (facts []string) {
	for _, i := range a.GetIncidents() {
		if text := incidentText(a, i); text != "" {
			facts = append(facts, "incident", text)
		}
	}
	if next := nextMemory(a); next > 0 && HasEnded(a) {
		facts = append(facts, "next time", fmt.Sprintf("--memory %s: %s", resource.FormatMemory(next), nextMemoryFormula))
	}
	return facts
}

// incidentText names an incident, its number and its time.
func incidentText(a *bursarv1.Allocation, i *bursarv1.Incident) string {
	most := QuantityText(i.GetDimension(), i.GetMostUsed())
	bound := QuantityText(i.GetDimension(), i.GetBound())
	var text string
	switch i.GetKind() {
	case bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL:
		text = "the kernel killed " + Counted(int(i.GetCount()), "process", "processes") + " for lack of memory"
		if i.GetBound() > 0 {
			text += " at the limit of " + bound
		}
	case bursarv1.IncidentKind_INCIDENT_KIND_OVER_USE:
		text = fmt.Sprintf("over-use of %s %s: at most %s of %s", i.GetDimension(), Counted(int(i.GetCount()), "time", "times"), most, bound)
	case bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD:
		text = fmt.Sprintf("its limit of %s did not hold %s", bound, Counted(int(i.GetCount()), "time", "times"))
		if i.GetMostUsed() > 0 {
			text += ": it used " + most
		}
	case bursarv1.IncidentKind_INCIDENT_KIND_UNSPECIFIED:
		return ""
	default:
		return "" // of a later version
	}
	when := TimeText(i.GetFirstTime())
	if last := TimeText(i.GetLastTime()); last != when {
		when += " to " + last
	}
	switch {
	case i.GetOngoing() && HasEnded(a):
		when += ", until its end"
	case i.GetOngoing():
		when += ", and goes on"
	}
	return text + "; " + when
}

package render

import (
	"fmt"
	"strings"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// PrintAllocationLine prints an allocation in one line, or all of it as JSON.
func PrintAllocationLine(out *Printer, a *bursarv1.Allocation) error {
	return out.Print(a, func() { out.Printf("%s %s\n", a.GetId(), AllocationLine(a)) })
}

// HasEnded reports whether an allocation is over.
func HasEnded(a *bursarv1.Allocation) bool { return a.GetEndTime() != nil }

// PrintAllocations prints those that a filter has left.
func PrintAllocations(out *Printer, allocations []*bursarv1.Allocation, filter string) {
	switch {
	case len(allocations) == 0 && filter != "":
		out.Sayf("no allocation matches %s", filter)
		return
	case len(allocations) == 0:
		out.Sayf("no allocations: `bursar run` or `bursar allocate` makes one")
		return
	}
	header, rows := allocationTable(out.Wide(), time.Now(), allocations)
	out.Table(header, rows)
}

// allocationTable is the table of some allocations. Columns that are empty in all rows are not
// shown.
func allocationTable(wide bool, now time.Time, allocations []*bursarv1.Allocation) (header []string, rows [][]string) {
	header = []string{"ID", "NAME", "STATE", "PHASE", "HOST", "MEMORY", "MEMORY USED", "CORES", "CORES USED", "OVER-USE", "OTHER", "AGE", "PID", "LABELS"}
	if wide {
		header = append(header, "CALLER", "PRIORITY", "ENDS", "ADDRESS", "REQUEST ID")
	}
	header = append(header, "NOTE")
	for _, a := range allocations {
		entitled, measured := OrEmpty(EntitledOrRequested(a)), OrEmpty(a.GetMeasured())
		row := []string{
			a.GetId(), a.GetName(), AllocationState(a.GetState()), Phase(a.GetPhase()), a.GetHostId(),
			Optional(resource.Memory, entitled.MemoryBytes), Optional(resource.Memory, MemoryInUse(measured, a.GetUnreclaimableBytes())),
			Optional(resource.CPU, entitled.CpuMillis), Optional(resource.CPU, measured.CpuMillis),
			OverUseText(a, now), otherText(entitled), Since(a.GetCreateTime(), now), pid(a), LabelsText(a.GetLabels()),
		}
		if wide {
			row = append(row, a.GetCaller(), Count(int64(a.GetPriority())), ends(a, now), a.GetAddress(), a.GetRequestId())
		}
		rows = append(rows, append(row, allocationNote(a)))
	}
	return header, rows
}

// PrintAllocation prints all facts of an allocation.
func PrintAllocation(out *Printer, a *bursarv1.Allocation) {
	now := time.Now()
	facts := []string{
		"id", a.GetId(),
		"name", a.GetName(),
		"state", AllocationState(a.GetState()),
		"reason", a.GetReason(),
		"ready", readyText(a, now),
		"note", strings.Join(allocationNotes(a), ", "),
		"labels", LabelsText(a.GetLabels()),
		"requested", ResourceText(a.GetRequested()),
		"entitled", ResourceText(a.GetEntitled()),
		"uses", UsesText(a.GetMeasured(), a.GetUnreclaimableBytes()),
		"at most", peakText(a),
		"cpu time", cpuTimeText(a.GetCpuTime()),
		"limit of memory", kernelLimit(a),
	}
	facts = append(facts, overUseFacts(a, now)...)
	facts = append(facts, incidentFacts(a)...)
	facts = append(facts,
		"program", programText(a.GetLaunch()),
		"output", outputText(a),
		"host", hostAndAddress(a),
		"process", processText(a.GetProcess()),
		"main process", LeaderEndText(a, now),
		"engine at", a.GetAddress(),
		"applications", NamesText(a.GetApplicationIds()),
		"caller", a.GetCaller(),
		"acts as", a.GetActingUser(),
		"its agent claims", claimText(a.GetClaimed()),
		"priority", Count(int64(a.GetPriority())),
		"request id", a.GetRequestId(),
		"created", Ago(a.GetCreateTime(), now),
		"reserved", Ago(a.GetReserveTime(), now),
		"confirmed", Ago(a.GetConfirmTime(), now),
		"ends", ends(a, now),
		"ended", Ago(a.GetEndTime(), now),
		"exit", ExitText(a.GetExitStatus()),
		"stop failed", a.GetStopError(),
		"revision", fmt.Sprint(a.GetRevision()),
	)
	facts = append(facts, tryFacts(a.GetLaunch())...)
	name := "error output"
	for line := range strings.SplitSeq(a.GetErrorOutput(), "\n") {
		facts = append(facts, name, line)
		name = ""
	}
	out.Facts(facts...)
}

// claimText has the words of an agent about an engine that no seal vouches for.
func claimText(c *bursarv1.Claim) string {
	if c == nil {
		return ""
	}
	parts := []string{LabelsText(c.GetLabels()), ResourceText(c.GetEntitled())}
	if c.GetCaller() != "" {
		parts = append(parts, "caller "+c.GetCaller())
	}
	if c.GetActingUser() != "" {
		parts = append(parts, "acting as "+c.GetActingUser())
	}
	return Printable(strings.Join(parts, ", ")) + " (bursar host accept)"
}

// AllocationLine is an allocation in a few words.
func AllocationLine(a *bursarv1.Allocation) string {
	text := AllocationState(a.GetState())
	switch {
	case HasEnded(a):
	case a.GetStopping():
		text = "stopping" // its engine runs, or may run
	case a.GetReleasing():
		text = "releasing" // its engine runs
	}
	if size := ResourceText(EntitledOrRequested(a)); size != "" {
		text += " " + size
	}
	if a.GetHostId() != "" {
		text += " on host " + a.GetHostId()
	}
	if a.GetReason() != "" {
		text += " (" + a.GetReason() + ")"
	}
	if left := leaderEndNote(a); left != "" {
		text += ", " + left
	}
	return Printable(text)
}

// EntitledOrRequested returns the resource that an allocation counts with, or would count with.
func EntitledOrRequested(a *bursarv1.Allocation) *bursarv1.Resource {
	if a.GetEntitled() != nil {
		return a.GetEntitled()
	}
	return a.GetRequested()
}

// otherText writes the quantities that are neither memory nor cpu; one instance is left out.
func otherText(r *bursarv1.Resource) string {
	rest := &bursarv1.Resource{Custom: r.GetCustom(), External: r.GetExternal()}
	if r.GetInstances() > 1 {
		rest.Instances = r.Instances
	}
	return ResourceText(rest)
}

// usedText writes a measurement for people.
func usedText(r *bursarv1.Resource) string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.MemoryBytes != nil {
		parts = append(parts, AmountText(resource.Memory, r.GetMemoryBytes()))
	}
	if r.CpuMillis != nil {
		parts = append(parts, AmountText(resource.CPU, r.GetCpuMillis()))
	}
	return strings.Join(parts, ", ")
}

func pid(a *bursarv1.Allocation) string { return Count(int64(a.GetProcess().GetPid())) }

func processText(p *bursarv1.Process) string {
	if p.GetPid() == 0 {
		return ""
	}
	text := fmt.Sprintf("%d", p.GetPid())
	if p.GetCgroup() != "" {
		text += " in " + p.GetCgroup()
	}
	return text
}

func hostAndAddress(a *bursarv1.Allocation) string {
	if a.GetHostAddress() == "" {
		return a.GetHostId()
	}
	return a.GetHostId() + " at " + a.GetHostAddress()
}

// ends says when an allocation returns by itself; empty if it does not.
func ends(a *bursarv1.Allocation, now time.Time) string {
	if a.GetEndTime() != nil || a.GetExpireTime() == nil {
		return ""
	}
	return "in " + Until(a.GetExpireTime(), now)
}

// allocationNotes lists the peculiarities of an allocation.
func allocationNotes(a *bursarv1.Allocation) (notes []string) {
	if a.GetOverLimit() {
		notes = append(notes, "over a limit")
	}
	if c := a.GetClaimed(); c != nil {
		notes = append(notes, "on its agent's word alone")
		if user := c.GetLabels()["user"]; user != "" {
			notes[len(notes)-1] += " of user " + user
		}
	}
	if a.GetEndTime() == nil {
		if a.GetStopping() {
			notes = append(notes, "stopping")
		}
		if a.GetReleasing() {
			notes = append(notes, "released by its caller while it ran")
		}
	}
	if left := leaderEndNote(a); left != "" {
		notes = append(notes, left)
	}
	return notes
}

// allocationNote adds why it is in its state, and how it ended.
func allocationNote(a *bursarv1.Allocation) string {
	notes := allocationNotes(a)
	if a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE && a.GetReason() != "" {
		notes = append(notes, a.GetReason())
	}
	if status := ExitNote(a); status != "" {
		notes = append(notes, status)
	}
	return strings.Join(notes, ", ")
}

package render

import (
	"slices"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// PrintExplanation prints the verdict on a request and the quantities that are missing.
func PrintExplanation(out *Printer, res *bursarv1.ExplainResponse) {
	out.Warn(res.GetWarnings())
	out.Printf("%s\n", verdictText(res))
	for _, text := range shortfallTexts(res.GetShortfalls()) {
		out.Printf("  %s\n", text)
	}
	for _, text := range runnersTexts(res.GetRunners()) {
		out.Printf("  %s\n", text)
	}
	if f := res.GetFilters(); f != nil {
		out.Printf("\n%s\n", FiltersText(f, res.GetShortfalls()))
	}
	if len(res.GetAccounts()) > 0 {
		out.Printf("\n")
		out.Table(AccountHeader(), AccountRows(res.GetAccounts()))
	}
}

func verdictText(res *bursarv1.ExplainResponse) string {
	switch res.GetVerdict() {
	case bursarv1.ExplainResponse_VERDICT_FITS:
		if res.GetHostId() == "" {
			return "fits now"
		}
		return "fits now, on host " + res.GetHostId()
	case bursarv1.ExplainResponse_VERDICT_WAITS:
		if !waits(res) {
			return "does not fit now" + PlaceText(res) + absenceText(res)
		}
		text := "waits" + PlaceText(res) + absenceText(res)
		if ends := res.GetAllocation().GetExpireTime(); ends != nil {
			text += "; until " + TimeText(ends) + ", " + Until(ends, time.Now()) + " left"
		}
		return text
	case bursarv1.ExplainResponse_VERDICT_NEVER:
		return "can never fit"
	case bursarv1.ExplainResponse_VERDICT_DECIDED:
		return "decided: " + AllocationLine(res.GetAllocation())
	case bursarv1.ExplainResponse_VERDICT_UNSPECIFIED:
	}
	return "no verdict"
}

// absenceText says that no host there is could take the request; empty if one could.
func absenceText(res *bursarv1.ExplainResponse) string {
	f := res.GetFilters()
	switch {
	case slices.ContainsFunc(res.GetShortfalls(), convert.HostIsAbsent):
		return ": no such host is there yet"
	case slices.ContainsFunc(res.GetShortfalls(), func(s *bursarv1.Shortfall) bool { return NoteOf(s) == NoteTooSmall }):
		return ": no host is that large yet"
	case noneAsAsked(f):
		return ": no such host is there yet"
	}
	return ""
}

// waits reports whether a request was made and waits.
func waits(res *bursarv1.ExplainResponse) bool {
	return res.GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_WAITING
}

// PlaceText says at which place in the queue a request is: ": next in line for host vm-1", ": 3
// requests before it in line for quota user=alice". One that waits for any host is in line for no
// account.
func PlaceText(res *bursarv1.ExplainResponse) string {
	line := " in line"
	switch {
	case res.GetBlockedBy() != nil:
		line += " for " + AccountText(res.GetBlockedBy())
	case !waits(res):
		return ""
	}
	if n := res.GetPlace(); n > 0 {
		return ": " + Counted(int(n), "request", "requests") + " before it" + line
	}
	return ": next" + line
}

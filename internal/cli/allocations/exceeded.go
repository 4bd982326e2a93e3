package allocations

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// sayExceeded prints the consequence for an engine that was seen to use more memory than it is
// entitled to now.
func sayExceeded(out *render.Printer, a *bursarv1.Allocation, now time.Time) {
	if text := exceededText(a, now); text != "" {
		out.Sayf("bursar: %s", text)
	}
}

func exceededText(a *bursarv1.Allocation, now time.Time) string {
	entitled := a.GetEntitled().GetMemoryBytes()
	for _, u := range a.GetOverUse() {
		if u.GetDimension() == resource.Memory && u.GetUsed() > entitled {
			return fmt.Sprintf("it uses %s of memory, and is entitled to %s now: %s",
				render.MemoryText(max(u.GetUsed(), a.GetUnreclaimableBytes())), render.MemoryText(entitled), consequence(u, now))
		}
	}
	if used := a.GetUnreclaimableBytes(); entitled > 0 && used > entitled {
		return fmt.Sprintf("it uses %s of memory, and is entitled to %s now: its host may tolerate, show, limit or stop that; see bursar allocations %s",
			render.MemoryText(used), render.MemoryText(entitled), a.GetId())
	}
	return ""
}

// consequence says how a host treats an engine that goes on to use that much.
func consequence(u *bursarv1.OverUse, now time.Time) string {
	switch u.GetPolicy() {
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE:
		return "it goes on, and this is shown (policy observe)"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN:
		return "it goes on, and this is shown and logged (policy warn)"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT:
		return "the kernel takes back what it can; the lower limit holds as soon as the engine uses less than that, and kills what needs more from then on (policy limit)"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL:
		if u.GetStopTime() != nil {
			return fmt.Sprintf("it is stopped in %s if this goes on (policy kill)", render.Until(u.GetStopTime(), now))
		}
		return "it is stopped if this goes on (policy kill)"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_UNSPECIFIED:
	}
	return "its host decides what becomes of it"
}

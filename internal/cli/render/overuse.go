package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/endreason"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// overUsePolicy is "kill" for OVER_USE_POLICY_KILL.
func overUsePolicy(p bursarv1.OverUsePolicy) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "OVER_USE_POLICY_"))
}

// OverUseText says in a few words how much an engine uses beyond its entitlement: "memory 5GiB of
// 4GiB (kill in 12s)".
func OverUseText(a *bursarv1.Allocation, now time.Time) string {
	var parts []string
	for _, u := range a.GetOverUse() {
		what := overUsePolicy(u.GetPolicy())
		if u.GetStopTime() != nil && a.GetEndTime() == nil && !a.GetStopping() {
			what += " in " + Until(u.GetStopTime(), now)
		}
		parts = append(parts, fmt.Sprintf("%s %s of %s (%s)", u.GetDimension(),
			QuantityText(u.GetDimension(), u.GetUsed()), QuantityText(u.GetDimension(), u.GetEntitled()), strings.Replace(what, " in now", " now", 1)))
	}
	return strings.Join(parts, ", ")
}

// overUseFacts say the same in full, a line for each dimension.
func overUseFacts(a *bursarv1.Allocation, now time.Time) (facts []string) {
	for _, u := range a.GetOverUse() {
		text := fmt.Sprintf("used %s of %s when it was noticed, was entitled to %s; since %s",
			QuantityText(u.GetDimension(), u.GetUsed()), u.GetDimension(), QuantityText(u.GetDimension(), u.GetEntitled()), Ago(u.GetSince(), now))
		facts = append(facts, "over-use", text+"; "+policyText(a, u, now))
	}
	return facts
}

// policyText says how its host treats an engine in over-use.
func policyText(a *bursarv1.Allocation, u *bursarv1.OverUse, now time.Time) string {
	text := "policy " + overUsePolicy(u.GetPolicy())
	if a.GetEndTime() != nil {
		return text
	}
	switch u.GetPolicy() {
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE:
		return text + ": it goes on"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN:
		return text + ": it goes on, and its agent's log says so"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT:
		return text + ": " + heldText(a, u)
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL:
		switch {
		case a.GetStopping():
			return text + ": it is being stopped"
		case u.GetStopTime() != nil && u.GetStopTime().AsTime().After(now):
			return fmt.Sprintf("%s: it is stopped at %s (in %s) if this goes on", text, TimeText(u.GetStopTime()), Until(u.GetStopTime(), now))
		case u.GetStopTime() != nil:
			return text + ": it is due to be stopped"
		}
		return text + ": it is never stopped for this"
	case bursarv1.OverUsePolicy_OVER_USE_POLICY_UNSPECIFIED:
	}
	return text
}

// heldText says whether the kernel holds an engine in over-use. Its agent has read that back.
func heldText(a *bursarv1.Allocation, u *bursarv1.OverUse) string {
	limit := a.GetMemoryLimitBytes()
	switch {
	case u.GetDimension() != resource.Memory:
		return "its host limits it"
	case limit == 0:
		return "no limit is known to hold it; its host tries again"
	case u.GetUsed() > limit:
		return fmt.Sprintf("the kernel's limit of %s does not cover what it had touched before it was confirmed", QuantityText(resource.Memory, limit))
	}
	return "the kernel holds it at " + QuantityText(resource.Memory, limit)
}

// kernelLimit is the limit that the kernel has for an engine; empty: none is known.
func kernelLimit(a *bursarv1.Allocation) string {
	if a.GetMemoryLimitBytes() == 0 {
		return ""
	}
	return QuantityText(resource.Memory, a.GetMemoryLimitBytes()) + ", kept by the kernel"
}

// OverUsers remembers which engines were seen in over-use, to notice when one no longer is.
type OverUsers map[string]bool

// Update says how a change of an allocation changes its over-use, and when that happened if it is
// known; empty for nothing.
func (known OverUsers) Update(a *bursarv1.Allocation, now time.Time) (when time.Time, what string) {
	id := a.GetId()
	switch {
	case a.GetEndTime() != nil:
		delete(known, id)
		return when, ""
	case len(a.GetOverUse()) == 0 && known[id]:
		delete(known, id)
		return now, "keeps to what it is entitled to again"
	case len(a.GetOverUse()) == 0:
		return when, ""
	}
	if !known[id] {
		since := slices.MaxFunc(a.GetOverUse(), func(x, y *bursarv1.OverUse) int { return x.GetSince().AsTime().Compare(y.GetSince().AsTime()) })
		when = since.GetSince().AsTime()
	}
	known[id] = true
	return when, "over-use: " + OverUseText(a, now)
}

// OutOfMemory is the name of an end for lack of memory.
const OutOfMemory = "killed for lack of memory"

// ExitText says how a process ended.
func ExitText(status *bursarv1.ExitStatus) string {
	text := ""
	switch {
	case status == nil:
		return ""
	case status.GetSignal() != 0:
		text = fmt.Sprintf("signal %d", status.GetSignal())
	case status.Code != nil || !status.GetOutOfMemory():
		text = fmt.Sprintf("code %d", status.GetCode())
	}
	switch {
	case !status.GetOutOfMemory():
		return text
	case text == "":
		return OutOfMemory
	case status.GetSignal() == 0:
		return text + ", a process of it was " + OutOfMemory
	}
	return text + ", " + OutOfMemory
}

// ExitNote is the same next to a reason, which may say it already.
func ExitNote(a *bursarv1.Allocation) string {
	status := a.GetExitStatus()
	if status.GetOutOfMemory() && strings.Contains(a.GetReason(), OutOfMemory) {
		status = &bursarv1.ExitStatus{Code: status.Code, Signal: status.GetSignal()}
	}
	text := ExitText(status)
	killed := "killed by " + endreason.Signal(status.GetSignal())
	if begins(a.GetReason(), "exit "+text) || status.GetSignal() != 0 && begins(a.GetReason(), killed) {
		return ""
	}
	return text
}

// begins reports whether a text begins with these words.
func begins(text, words string) bool {
	rest, found := strings.CutPrefix(text, words)
	return found && (rest == "" || strings.ContainsAny(rest[:1], " ,;:"))
}

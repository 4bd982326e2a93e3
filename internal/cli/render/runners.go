package render

import (
	"fmt"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// runnersTexts names the engines that stand in the way of a starved request, a line for each
// account.
func runnersTexts(list []*bursarv1.Runners) (lines []string) {
	for _, r := range list {
		if len(r.GetLargest()) == 0 {
			continue
		}
		runners := make([]string, 0, len(r.GetLargest()))
		for _, runner := range r.GetLargest() {
			text := runner.GetId() + " of " + runner.GetUser()
			if size := ResourceText(runner.GetResource()); size != "" {
				text += " (" + size + ")"
			}
			runners = append(runners, text)
		}
		text := fmt.Sprintf("in the way in %s, by %s: %s", AccountText(r.GetAccount()), r.GetDimension(), strings.Join(runners, ", "))
		if r.GetLookedAt() < r.GetAllocations() {
			text += fmt.Sprintf("; the largest of %s, of %d", lookedAtText(r), r.GetAllocations())
		}
		lines = append(lines, text)
	}
	return lines
}

// lookedAtText says which allocations of an account were looked at, if not all were: those that run
// longest in a quota, any in a host or queue.
func lookedAtText(r *bursarv1.Runners) string {
	if r.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_QUOTA {
		return fmt.Sprintf("the oldest %d", r.GetLookedAt())
	}
	return fmt.Sprintf("%d that were looked at", r.GetLookedAt())
}

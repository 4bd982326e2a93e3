package main

import (
	"fmt"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// runnersTexts say who stands in the way of a starved request, a line for each account.
func runnersTexts(list []*bursarv1.Runners) (lines []string) {
	for _, r := range list {
		if len(r.GetLargest()) == 0 {
			continue
		}
		runners := make([]string, 0, len(r.GetLargest()))
		for _, runner := range r.GetLargest() {
			text := runner.GetId() + " of " + runner.GetUser()
			if size := resourceText(runner.GetResource()); size != "" {
				text += " (" + size + ")"
			}
			runners = append(runners, text)
		}
		text := fmt.Sprintf("in the way in %s, by %s: %s", accountText(r.GetAccount()), r.GetDimension(), strings.Join(runners, ", "))
		if r.GetLookedAt() < r.GetAllocations() {
			text += fmt.Sprintf("; the largest of the oldest %d of %d", r.GetLookedAt(), r.GetAllocations())
		}
		lines = append(lines, text)
	}
	return lines
}

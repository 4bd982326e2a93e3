package commit

import (
	"fmt"
	"slices"
)

// mostHidden bounds how many of the rules that are not in force stand among the warnings.
const mostHidden = 20

// publishHiddenRules publishes which rules are not in force, if that may have changed.
func (loop *Loop) publishHiddenRules() {
	version, hidden := loop.core.HiddenRules()
	if version == loop.rulesSeen {
		return
	}
	loop.rulesSeen = version
	var before, list []string
	if known := loop.rulesHidden.Load(); known != nil {
		before = *known
	}
	for _, h := range hidden {
		text := h.String()
		list = append(list, text)
		if _, logged := slices.BinarySearch(before, text); !logged {
			loop.Log.Warn(text)
		}
	}
	slices.Sort(list)
	loop.rulesHidden.Store(&list)
	loop.Metrics.hiddenRules.Set(float64(len(list)))
}

// AtMost shortens a list of warnings, and says where the rest is.
func AtMost(list []string, most int, where string) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clip(list[:most]), fmt.Sprintf("and %d more: %s", len(list)-most, where))
}

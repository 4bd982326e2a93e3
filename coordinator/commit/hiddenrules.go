package commit

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// mostHidden bounds how many of the rules that are not in force stand among the warnings.
const mostHidden = 20

// publishHiddenRules publishes which rules are not in force, and which are for a dimension that
// nothing declares, if that may have changed.
func (loop *Loop) publishHiddenRules() {
	if version, hidden := loop.core.HiddenRules(); version != loop.rulesSeen {
		loop.rulesSeen = version
		var list []string
		for i := range hidden {
			list = append(list, hidden[i].String())
		}
		loop.publishWarnings(&loop.rulesHidden, list)
		loop.Metrics.hiddenRules.Set(float64(len(list)))
	}
	if version, undeclared := loop.core.UndeclaredDimensions(loop.dimensionsSeen); version != loop.dimensionsSeen {
		loop.dimensionsSeen = version
		var list []string
		for i := range undeclared {
			list = append(list, undeclared[i].String())
		}
		loop.publishWarnings(&loop.undeclared, list)
	}
}

// publishWarnings publishes a list, and logs what was not in it before.
func (loop *Loop) publishWarnings(published *atomic.Pointer[[]string], list []string) {
	before := stored(published)
	for _, text := range list {
		if _, logged := slices.BinarySearch(before, text); !logged {
			loop.Log.Warn(text)
		}
	}
	slices.Sort(list)
	published.Store(&list)
}

// AtMost shortens a list of warnings, and says where the rest is.
func AtMost(list []string, most int, where string) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clip(list[:most]), fmt.Sprintf("and %d more: %s", len(list)-most, where))
}

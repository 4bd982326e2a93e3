package commit

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// mostHidden bounds the rules among the warnings that are not in force.
const mostHidden = 20

// publishHiddenRules publishes the rules that are not in force, and those for an undeclared
// dimension, if they may have changed.
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

// publishWarnings publishes a list, and logs its new texts.
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

// AtMost shortens a list of warnings, and names the place of the full list.
func AtMost(list []string, most int, where string) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clip(list[:most]), fmt.Sprintf("and %d more: %s", len(list)-most, where))
}

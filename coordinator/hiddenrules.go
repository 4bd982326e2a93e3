package coordinator

import (
	"fmt"
	"slices"
)

// mostHidden bounds how many of the rules that are not in force stand among the warnings.
const mostHidden = 20

// showHidden tells which rules are not in force, where that may have changed.
func (w *writer) showHidden() {
	turn, hidden := w.core.HiddenRules()
	if turn == w.rulesSeen {
		return
	}
	w.rulesSeen = turn
	var before, list []string
	if known := w.rulesHidden.Load(); known != nil {
		before = *known
	}
	for _, h := range hidden {
		text := h.String()
		list = append(list, text)
		if _, told := slices.BinarySearch(before, text); !told {
			w.log.Warn(text)
		}
	}
	slices.Sort(list)
	w.rulesHidden.Store(&list)
	w.meter.hiddenRules.Set(float64(len(list)))
}

// atMost shortens a list of warnings, and says where the rest is.
func atMost(list []string, most int, where string) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clip(list[:most]), fmt.Sprintf("and %d more: %s", len(list)-most, where))
}

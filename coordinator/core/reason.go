package core

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/proto/convert"
)

// shownReason is why an allocation is in its state, without text from an engine.
func shownReason(a *ledger.Allocation) string {
	if a.Exit == nil {
		return a.Reason
	}
	how, _ := convert.SeparateReason(a.Reason)
	return how
}

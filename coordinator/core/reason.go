package core

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/proto/convert"
)

// shownReason returns the reason of an allocation's state, without text from an engine.
func shownReason(a *ledger.Allocation) string {
	if a.Exit == nil {
		return a.Reason
	}
	how, _ := convert.SeparateReason(a.Reason)
	return how
}

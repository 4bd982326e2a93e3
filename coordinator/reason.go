package coordinator

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/proto/convert"
)

// reasonOf is why an allocation is in its state, without an engine's words.
func reasonOf(a *ledger.Allocation) string {
	if a.Exit == nil {
		return a.Reason
	}
	how, _ := convert.SeparateReason(a.Reason)
	return how
}

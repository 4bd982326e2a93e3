package coordinator

import (
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

// Entries of the history's index count since version 6 of the schema. By default nobody keeps fewer
// allocations than before, if they take 600 bytes without these.
func TestTheDefaultBoundOfTheHistoryHoldsAsManyAsBeforeItsIndex(t *testing.T) {
	const row, overheadBefore, boundBefore = 600, 100, 2 << 30
	bound := int64(Config{}.WithDefaults().History.CallerBytes)
	if now, before := bound/(row+store.RowOverhead-overheadBefore), int64(boundBefore/row); now < before {
		t.Errorf("%d allocations; want the %d of before", now, before)
	}
}

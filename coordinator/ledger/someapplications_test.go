package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// Who asks the cluster for the first applications of a list asks for some of each allocation,
// however many one of them names.
func TestApplicationsOfAllAllocationsTakeTurns(t *testing.T) {
	l, _ := busyCluster(t, 3)
	var found []ledger.ID
	l.Allocations(0, func(a *ledger.Allocation) bool {
		found = append(found, a.ID)
		return true
	})
	for i, id := range found {
		more := []string{}
		for n := range []int{40, 0, 2}[i] {
			more = append(more, fmt.Sprintf("more%d-%d", i, n))
		}
		_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, ApplicationIDs: more})
		must(t, err)
	}
	ids, left := l.SomeApplications(yarnProd, 1000)
	first := slices.Sorted(slices.Values(ids[:3]))
	second := slices.Sorted(slices.Values(ids[3:5]))
	if got := fmt.Sprint(len(ids), left, first, second); got != "45 0 [app0 app1 app2] [more0-0 more2-0]" {
		t.Errorf("%s", got)
	}
}

package ledger_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// An allocation that names one more application after its others have ended goes on.
func TestAnAllocationThatNamesAnotherApplicationInTimeGoesOn(t *testing.T) {
	l, r := busyCluster(t, 3)
	var ids []ledger.ID
	l.Allocations(0, func(a *ledger.Allocation) bool {
		ids = append(ids, a.ID)
		return true
	})
	slices.Sort(ids)
	r = used(r, start, 0, 0)
	for i := range r.Applications {
		r.Applications[i].Ended = true
	}
	l.SetReadingStep(1)
	must(t, l.ReportCluster(start, r))
	for l.Clusters()[0].Allocations == 3 { // until the first has ended
		l.Advance(start)
	}
	_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: ids[2], ApplicationIDs: []string{"another"}})
	must(t, err)
	for l.TakingIn() {
		l.Advance(start)
	}
	for i, lives := range []bool{false, false, true} {
		if _, live := l.Get(ids[i]); live != lives {
			t.Errorf("allocation %d of 3 lives: %t", i+1, live)
		}
	}
	sound(t, l)
}

// A report that was checked before is not checked again.
func TestAReportIsCheckedBeforeItIsHandedIn(t *testing.T) {
	r := ledger.ClusterReport{ClusterName: yarnProd, Queues: []ledger.QueueReport{{Path: "root.a"}, {Path: "root"}, {Path: "root.a"}}}
	if wrong, refused := errors.AsType[*ledger.FieldError](r.Prepare()); !refused || wrong.Field != "queues[2].path" {
		t.Errorf("%v: want a refusal of queues[2].path", wrong)
	}
}

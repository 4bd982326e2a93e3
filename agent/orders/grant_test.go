package orders

import (
	"testing"
	"time"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A caller waits for the engine: the Sync that brings its grant does not wait for the time between
// two Syncs. If that Sync has not brought it, the next ones do, or a coordinator that lies would
// have this host send one after the other.
func TestTheFirstSyncForAGrantIsSentAtOnce(t *testing.T) {
	r := newRig(t, standard())
	due := r.taker.SyncDue
	within := func(what string, want bool) {
		t.Helper()
		for range 200 {
			if got := time.Until(due.When()) < time.Minute; got == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s: the Sync is due at %v", what, due.When())
	}
	later := time.Now().Add(time.Hour)
	due.Set(later, later)
	r.orders <- orderOf(t, "coming", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
	within("an order has come", true)
	due.Set(later, later)
	answered := func(bring func(*tracker.Tracker)) {
		r.taker.State.Locked(func(known *tracker.Tracker) {
			bring(known)
			r.taker.State.Answered.Happened()
		})
	}
	answered(func(*tracker.Tracker) {})
	time.Sleep(50 * time.Millisecond)
	within("the first Sync has not brought the grant", false)
	answered(func(known *tracker.Tracker) {
		known.Observe(time.Now(), &bursarv1.Allocation{Id: "coming", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 4}, 5)
	})
	if reason := r.next(t).GetFailed().GetReason(); reason == "" {
		t.Error("the order of an engine that runs already was carried out")
	}
}

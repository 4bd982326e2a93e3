package coordinator

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The row of a lease that was lost with its host is what a coordinator remembers of it: a renewal
// makes it active again in the next leadership, too, and a release ends it for good.
func TestARenewalBringsALostLeaseBack(t *testing.T) {
	place := storetest.NewMemory("test")
	f := start(t, Config{}, place.Open())
	f.host("h1", 100)
	lost := func() string {
		t.Helper()
		a := f.allocate(&bursarv1.AllocateRequest{Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: new(int64(10))}})
		_, err := f.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Address: "10.0.0.1:9000", Lease: durationpb.New(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return a.GetId()
	}
	renewed, released := lost(), lost()
	if _, err := f.hosts.Deregister(t.Context(), &bursarv1.DeregisterRequest{HostId: "h1", Force: true}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{renewed, released} {
		if a := f.get(id); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_LOST || a.GetExpireTime() == nil {
			t.Fatalf("%s expires %s: want it lost, with the end of its lease", a.GetState(), a.GetExpireTime().AsTime())
		}
	}
	if _, err := f.allocations.Renew(t.Context(), &bursarv1.RenewRequest{Id: renewed}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("without its host, a renewal is answered %v", err)
	}
	f.stop()

	f = start(t, Config{}, place.Open())
	f.host("h1", 100)
	answer, err := f.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: released})
	if err != nil || answer.GetAllocation().GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
		t.Errorf("a release of a lost lease is answered %s, %v", answer.GetAllocation().GetState(), err)
	}
	if _, err := f.allocations.Renew(t.Context(), &bursarv1.RenewRequest{Id: released}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("after its release, a renewal is answered %v", err)
	}
	back, err := f.allocations.Renew(t.Context(), &bursarv1.RenewRequest{Id: renewed})
	if err != nil || back.GetAllocation().GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || back.GetAllocation().GetId() != renewed {
		t.Fatalf("a renewal of a lost lease is answered %v, %v", back, err)
	}
	if a := f.get(renewed); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || a.GetHostId() != "h1" {
		t.Errorf("it is %s on %s", a.GetState(), a.GetHostId())
	}
	f.audited()
}

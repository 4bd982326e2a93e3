package coordinator

import (
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAReplicaLeavesOutWhatHasEnded(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	leader.release(leader.allocate(request("ended", 1)).GetId())
	leader.allocate(request("live", 1))
	list, err := standbys[0].allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{AllowStale: true})
	if err != nil || len(list.GetAllocations()) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

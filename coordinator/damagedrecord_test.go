package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// One record that no request can have made costs that engine what does not fit, and the host
// nothing: its other engines are taken over as they are, and the damaged one with its true
// resources.
func TestADamagedRecordDoesNotCostTheHostItsReport(t *testing.T) {
	queues := func(path string) (parts []*bursarv1.ExternalResource) {
		for i := range 8 {
			parts = append(parts, &bursarv1.ExternalResource{Kind: "yarn", Cluster: fmt.Sprint("c", i), Path: path, MemoryBytes: quantity(1)})
		}
		return parts
	}
	long := "root." + strings.Repeat("€", 500)
	for name, test := range map[string]struct {
		damage  func(record *bursarv1.Allocation)
		without string
		memory  int64 // that it is taken over with
		labels  int   // at least
	}{
		"many queues": {func(r *bursarv1.Allocation) {
			r.Entitled.External, r.Requested.External = queues(long), queues(long)
		}, "requested", gib, 3},
		"long labels": {func(r *bursarv1.Allocation) {
			for i := range 100 {
				r.Labels[fmt.Sprint("key-", i)] = strings.Repeat("v", 250)
			}
		}, "requested, labels", gib, 60},
		"queues and labels": {func(r *bursarv1.Allocation) {
			r.Entitled.External, r.Requested.External = queues(long), queues(long)
			for i := range 30 {
				r.Labels[fmt.Sprint("key-", i)] = strings.Repeat("v", 250)
			}
		}, "requested, labels", gib, 15},
		"a label that is none": {func(r *bursarv1.Allocation) { r.Labels["x\x00"] = "y" }, "labels", gib, 3},
		"a queue that is none": {func(r *bursarv1.Allocation) { r.Entitled.External = queues("?..") }, "entitled.external", gib, 3},
		"asked for below zero": {func(r *bursarv1.Allocation) { r.Requested.MemoryBytes = quantity(-1) }, "requested", gib, 3},
		"resources below zero": {func(r *bursarv1.Allocation) { r.Entitled.MemoryBytes = quantity(-1) }, "entitled", 5 * mib, 3},
		"an id that is none":   {func(r *bursarv1.Allocation) { r.Id = "?" }, "", gib, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, Config{}, nil)
			a := f.agent("h1")
			bad := f.get(a.engine())
			good := proto.CloneOf(bad)
			good.Id, good.RequestId, good.Process.Pid = unknownID, "r2", 101
			if _, err := f.hosts.Deregister(t.Context(), &bursarv1.DeregisterRequest{HostId: "h1", Force: true}); err != nil {
				t.Fatal(err)
			}
			a = f.agent("h1")
			record := proto.CloneOf(bad)
			test.damage(record)
			a.beat(func(req *bursarv1.SyncRequest) {
				req.Full, req.Engines = true, []*bursarv1.EngineReport{
					{AllocationId: bad.GetId(), Grant: record, Measured: memory(5 * mib)}, {AllocationId: good.GetId(), Grant: good},
				}
			})
			const adopted = "adopted on its agent's word: no seal vouches for what the agent claims"
			if got := f.get(good.GetId()); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || got.GetReason() != adopted {
				t.Errorf("the other engine is %s, %q", got.GetState(), got.GetReason())
			}
			want := adopted
			if test.without != "" {
				want += ", without what was damaged or too large there: " + test.without
			}
			got := f.get(bad.GetId())
			claimed := got.GetClaimed()
			if got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || got.GetReason() != want ||
				got.GetEntitled().GetMemoryBytes() != test.memory || len(claimed.GetLabels()) < test.labels || claimed.GetLabels()["user"] != "alice" {
				t.Errorf("it is %s, %q, entitled to %d bytes, %d labels; want %q", got.GetState(), got.GetReason(), got.GetEntitled().GetMemoryBytes(), len(claimed.GetLabels()), want)
			}
			if n := convert.GrantSize(&bursarv1.Allocation{Labels: claimed.GetLabels(), Requested: claimed.GetRequested(), Entitled: claimed.GetEntitled()}); n > convert.MaxGrantSize {
				t.Errorf("%d bytes are kept", n)
			}
			f.audited()
		})
	}
}

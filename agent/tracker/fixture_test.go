package tracker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
	active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	waiting  = bursarv1.AllocationState_ALLOCATION_STATE_WAITING
	released = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED

	resync   = bursarv1.SyncAction_SYNC_ACTION_RESYNC
	drain    = bursarv1.SyncAction_SYNC_ACTION_DRAIN
	shutdown = bursarv1.SyncAction_SYNC_ACTION_SHUTDOWN

	mib = int64(1 << 20)
)

// start is when every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func host(incarnation uint64) tracker.Host {
	return tracker.Host{
		ID: "h1", BootID: "boot-1", Incarnation: incarnation,
		Capacity: &bursarv1.Resource{MemoryBytes: new(1000 * mib)},
	}
}

// grant returns an allocation of host h1 that is entitled to so many MiB.
func grant(id string, state bursarv1.AllocationState, revision uint64, memory int64) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: id, HostId: "h1", State: state, Revision: revision,
		Entitled: &bursarv1.Resource{MemoryBytes: new(memory * mib)},
	}
}

// engine is an active allocation with a process.
func engine(id string, revision uint64, memory int64, pid int32) *bursarv1.Allocation {
	a := grant(id, active, revision, memory)
	a.Process = &bursarv1.Process{Pid: pid, StartTime: 7, BootId: "boot-1"}
	return a
}

// free returns a sample of a machine with so many MiB available, of which 100 are kept back.
func free(memory int64) *bursarv1.HostSample {
	return &bursarv1.HostSample{MemoryAvailableBytes: new(memory * mib), MemorySafetyBytes: new(100 * mib)}
}

func uses(id string, pid int32, held, unreclaimable int64) tracker.Usage {
	return tracker.Usage{ID: id, PID: pid, StartTime: 7, MemoryBytes: held * mib, UnreclaimableBytes: unreclaimable * mib}
}

// registered returns a tracker in epoch 5 after the answer to its first Sync, with a sample of
// 1,000 MiB available.
func registered(t *testing.T, grants ...*bursarv1.Allocation) *tracker.Tracker {
	t.Helper()
	k := tracker.New(start, host(1), tracker.Snapshot{})
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	register(t, k, 5)
	for _, a := range grants {
		if a.GetProcess() != nil {
			k.Show(a.GetId(), a.GetProcess())
		}
	}
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10, Complete: true, Grants: grants})
	return k
}

func register(t *testing.T, k *tracker.Tracker, epoch uint64) {
	t.Helper()
	response := &bursarv1.RegisterResponse{Epoch: epoch, StoreId: "store-1", Interval: durationpb.New(3 * time.Second)}
	if err := k.Registered(response); err != nil {
		t.Fatal(err)
	}
}

func answer(t *testing.T, k *tracker.Tracker, q *bursarv1.SyncRequest, r *bursarv1.SyncResponse) tracker.Outcome {
	t.Helper()
	outcome, err := k.Answer(start, q, r)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// held returns the ids of the tracker's allocations.
func held(k *tracker.Tracker) []string {
	ids := []string{}
	for _, a := range k.All() {
		ids = append(ids, a.GetId())
	}
	return ids
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

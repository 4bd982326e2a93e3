package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A launcher releases what it saw end. The agent may have found out before, and more, while the
// coordinator has not heard of it yet.
func TestReleaseOfAnEngineThatWasFoundToHaveEndedSaysHow(t *testing.T) {
	killed := &bursarv1.ExitStatus{Signal: 9, OutOfMemory: true}
	const why = "killed for lack of memory: its cgroup's limit of 64MiB"
	s := looked(t, Options{}, tracker.Snapshot{BootID: "boot-1", Ended: []*bursarv1.EngineEnd{
		{AllocationId: "killed", Reason: why, ExitStatus: killed},
		{AllocationId: "ended", Reason: tracker.ProcessEnded},
	}})
	signal := &bursarv1.ExitStatus{Signal: 9}
	for _, c := range []struct{ seen, want *bursarv1.ReleaseRequest }{
		{&bursarv1.ReleaseRequest{Id: "killed", ExitStatus: signal}, &bursarv1.ReleaseRequest{Id: "killed", ExitStatus: killed, Reason: why}},
		{&bursarv1.ReleaseRequest{Id: "killed", Reason: "own"}, &bursarv1.ReleaseRequest{Id: "killed", ExitStatus: killed, Reason: "own"}},
		{&bursarv1.ReleaseRequest{Id: "ended", ExitStatus: signal}, &bursarv1.ReleaseRequest{Id: "ended", ExitStatus: signal}},
		{&bursarv1.ReleaseRequest{Id: "another", ExitStatus: signal}, &bursarv1.ReleaseRequest{Id: "another", ExitStatus: signal}},
	} {
		if diff := cmp.Diff(c.want, s.KnownBetter(t.Context(), c.seen), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
}

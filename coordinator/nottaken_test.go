package coordinator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// A host whose agent is not to be trusted names what others wait for, hold and run: nothing of it
// ends or changes, and operators hear of it once a minute.
func TestWhatAHostSaysOfOthersAllocationsChangesNothing(t *testing.T) {
	log := &proc.Output{}
	f := start(t, Config{}, nil, func(s *Server) { s.loop.Log = slog.New(slog.NewTextHandler(log, nil)) })
	h1, h2 := f.agent("h1"), f.agent("h2")
	running := h1.engine()
	held := request("r2", 7*gib)
	held.Host = &bursarv1.HostWishes{Id: "h1"}
	reserved := f.allocate(held).GetId()
	longer := request("r3", 8*gib)
	longer.Host, longer.Async, longer.Wait = &bursarv1.HostWishes{Id: "h1"}, true, wire.DurationMessage(time.Hour)
	waiting := f.allocate(longer).GetId()
	before := make(map[string]*bursarv1.Allocation)
	for _, id := range []string{running, reserved, waiting} {
		before[id] = f.get(id)
	}
	for range 3 {
		h2.beat(func(req *bursarv1.SyncRequest) {
			req.Full = true
			for id, a := range before {
				record := proto.CloneOf(a) // even with all that it could know
				record.Process = &bursarv1.Process{Pid: 1}
				req.Engines = append(req.Engines, &bursarv1.EngineReport{AllocationId: id, Grant: record, UnreclaimableBytes: 1 << 62, OverUse: []*bursarv1.OverUse{memoryOverUse(2*gib, toKill)}})
				req.Ended = append(req.Ended, &bursarv1.EngineEnd{AllocationId: id})
				req.Vetoes = append(req.Vetoes, &bursarv1.Veto{AllocationId: id, Revision: 1 << 60})
			}
		})
	}
	for id, want := range before {
		if got := f.get(id); !proto.Equal(got, want) {
			t.Errorf("it was\n%v\nand is\n%v", want, got)
		}
	}
	f.wantMetric("bursar_engines_elsewhere_total 9")
	if n := strings.Count(log.String(), "engines that the ledger has elsewhere"); n != 1 || strings.Count(log.String(), "host=h2") == 0 {
		t.Errorf("%d lines of the log tell of it: want 1, with the host", n)
	}
	f.audited()
}

// A host's agent brings back, as its own engine, what another caller's request had got and given
// back: that request is answered as before, and is granted no second time, also by a coordinator
// that has started since.
func TestWhatHasEndedIsNotBroughtBackAsAnothersRequest(t *testing.T) {
	disk := storetest.NewMemory("test")
	f := start(t, Config{}, disk.Open())
	f.agent("h1")
	h2 := f.agent("h2")
	asked := request("r1", gib)
	before := f.allocate(asked)
	f.release(before.GetId())
	h2.beat(func(req *bursarv1.SyncRequest) {
		req.Full = true
		record := &bursarv1.Allocation{Caller: "evil", Labels: map[string]string{"user": "mallory"}, Entitled: memory(7), Process: &bursarv1.Process{Pid: 5}}
		req.Engines = append(req.Engines, &bursarv1.EngineReport{AllocationId: before.GetId(), Grant: record})
	})
	for _, when := range []string{"at once", "after a restart"} {
		again := f.allocate(asked)
		if again.GetId() != before.GetId() || again.GetCaller() != before.GetCaller() || again.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
			t.Errorf("%s its repeat gets\n%v\nand had got\n%v", when, again, before)
		}
		f.audited()
		f.stop()
		f = start(t, Config{}, disk.Open())
	}
}

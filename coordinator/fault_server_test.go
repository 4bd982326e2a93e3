package coordinator

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/trapplacer"
)

// TestAPoisonedRowDoesNotKeepACoordinatorFromStarting: it does not end the process that starts
// with it either.
func TestAPoisonedRowDoesNotKeepACoordinatorFromStarting(t *testing.T) {
	disk := storetest.NewMemory("test")
	const poisoned = 6 << 30
	f := start(t, Config{}, disk.Open())
	f.host("h1", 8<<30)
	f.allocate(request("full", 4<<30))
	waiting := request("poisoned", poisoned)
	waiting.Wait, waiting.Async = seconds(3600), true
	id := f.allocate(waiting).GetId()
	f.stop()
	sprung := new(atomic.Int64)
	f = start(t, Config{}, disk.Open(), func(s *Server) { s.newPlacer = trapplacer.Trap("Choose", poisoned, sprung) })
	f.host("h1", 8<<30)
	eventually(t, "the poisoned request is canceled", func() bool {
		return f.get(id).GetState() == bursarv1.AllocationState_ALLOCATION_STATE_CANCELED
	})
	if n := sprung.Load(); n != 1 {
		t.Errorf("the ledger panicked %d times; want once", n)
	}
}

// TestTheProcessOutlivesItsPlacer: through the wire, other users are served, one leadership is
// lost, and status says over what.
func TestTheProcessOutlivesItsPlacer(t *testing.T) {
	for _, method := range []string{"Choose", "Closest", "Survey"} {
		t.Run(method, func(t *testing.T) {
			sprung := new(atomic.Int64)
			f := start(t, Config{}, nil, func(s *Server) {
				s.newPlacer = trapplacer.Trap(method, 6<<30, sprung)
			})
			f.host("h1", 8<<30)
			f.allocate(request("full", 4<<30))
			before := f.status().GetEpoch()
			bad := func(id string) error {
				req := request(id, 6<<30)
				req.Wait = seconds(1)
				_, err := f.allocations.Allocate(t.Context(), req)
				return err
			}
			if err := bad("bad"); connect.CodeOf(err) != connect.CodeInternal {
				t.Fatalf("%v; want INTERNAL", err)
			}
			eventually(t, "it leads again", func() bool {
				_, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
				return err == nil
			})
			for _, id := range []string{"bad", "worse", "worst"} {
				if err := bad(id); connect.CodeOf(err) != connect.CodeFailedPrecondition {
					t.Errorf("%s: %v; want FAILED_PRECONDITION", id, err)
				}
			}
			f.host("h2", 8<<30)
			f.allocate(request("another's", 1<<30))
			status := f.status()
			if status.GetEpoch() != before+1 || sprung.Load() != 1 {
				t.Errorf("epoch %d after %d, %d panics; want one leadership lost by one panic", status.GetEpoch(), before, sprung.Load())
			}
			if !strings.Contains(strings.Join(status.GetWarnings(), "\n"), "AllocationService/Allocate of ") {
				t.Errorf("status does not say what is refused: %q", status.GetWarnings())
			}
			f.audited()
		})
	}
}

// TestRepeatsOfRequestsThatHaveWaitedCostOneLeadershipAtMost: an explanation that panics is not
// tried for another request.
func TestRepeatsOfRequestsThatHaveWaitedCostOneLeadershipAtMost(t *testing.T) {
	sprung := new(atomic.Int64)
	f := start(t, Config{}, nil, func(s *Server) { s.newPlacer = trapplacer.Trap("Survey", 6<<30, sprung) })
	f.host("h1", 8<<30)
	f.allocate(request("full", 4<<30))
	before := f.status().GetEpoch()
	repeat := func(user string) error {
		req := request("of-"+user, 6<<30)
		req.Labels["user"], req.Wait, req.Async = user, durationpb.New(100*time.Millisecond), true
		a, err := f.allocations.Allocate(t.Context(), req)
		if err != nil {
			return err
		}
		eventually(t, "its wait is over", func() bool {
			return f.get(a.GetAllocation().GetId()).GetState() == bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED
		})
		_, err = f.allocations.Allocate(t.Context(), req)
		return err
	}
	for _, user := range []string{"alice", "bob", "carol"} {
		if err := repeat(user); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%s: %v; want RESOURCE_EXHAUSTED", user, err)
		}
		eventually(t, "it leads", func() bool {
			_, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
			return err == nil
		})
	}
	if epoch := f.status().GetEpoch(); epoch != before+1 || sprung.Load() != 1 {
		t.Errorf("epoch %d after %d, %d panics; want one leadership lost by one panic", epoch, before, sprung.Load())
	}
	f.audited()
}

// TestAPanicOverWhatIsDueByItselfIsShownAndTriedAgain: nobody is to blame for a host that falls
// silent.
func TestAPanicOverWhatIsDueByItselfIsShownAndTriedAgain(t *testing.T) {
	over := new(atomic.Bool)
	config := Config{}
	config.Times.Interval = 100 * time.Millisecond
	f := start(t, config, nil, func(s *Server) {
		s.newPlacer = trapplacer.HostTrap(over)
	})
	f.host("h1", 8<<30)
	before := f.status().GetEpoch()
	over.Store(true)
	status := func() *bursarv1.StatusResponse {
		res, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	eventually(t, "it is shown", func() bool {
		res := status()
		return !res.GetIsLeader() && strings.Contains(strings.Join(res.GetWarnings(), "\n"), "not known over what: a host too many")
	})
	over.Store(false)
	eventually(t, "it leads again", func() bool { return status().GetIsLeader() })
	if epoch := status().GetEpoch(); epoch <= before || epoch > before+20 {
		t.Errorf("epoch %d after %d; want a few attempts, further and further apart", epoch, before)
	}
}

package callers

import (
	"context"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// lateGrants is a coordinator whose grants come when their caller has just gone away.
type lateGrants struct {
	bursarv1connect.AllocationServiceClient

	leave    context.CancelFunc
	canceled chan string
}

func (l *lateGrants) Allocate(_ context.Context, request *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	l.leave()
	return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{
		Id: "late", RequestId: request.GetRequestId(), HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED,
	}}, nil
}

func (l *lateGrants) Cancel(_ context.Context, request *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	l.canceled <- request.GetRequestId()
	return &bursarv1.CancelResponse{}, nil
}

// Nobody knows the id that the agent has made up for a request: what is granted for it is given
// back if its caller has gone. A caller that has made up the id itself asks again with it.
func TestAGrantForACallerThatHasGoneIsGivenBackUnlessTheCallerCanAskAgain(t *testing.T) {
	for name, id := range map[string]string{"the agent's id": "", "the caller's id": "mine"} {
		t.Run(name, func(t *testing.T) {
			books := &lateGrants{canceled: make(chan string, 1)}
			beat(t, &heartbeats{}, Options{Allocations: books}, func(s *subject) {
				<-s.reports.Ready()
				var ctx context.Context
				ctx, books.leave = context.WithCancel(context.Background())
				_, _ = s.Allocations(context.Background()).Allocate(ctx, &bursarv1.AllocateRequest{RequestId: id})
				s.running.Wait()
				if got := len(books.canceled) == 1; got != (id == "") {
					t.Errorf("it was given back: %t", got)
				}
			})
		})
	}
}

package callers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// readPatience is how long a read waits for a coordinator that is slow before the agent answers
	// from its own state.
	readPatience = 2 * time.Second
	// localToken begins the page tokens of lists that the agent made itself; the last id of the
	// page follows.
	localToken = "agent:"
)

// Get reads one allocation of this host from a coordinator. If none answers, it reads a live one
// from the state of the agent.
func (s *service) Get(ctx context.Context, request *bursarv1.AllocationServiceGetRequest) (*bursarv1.AllocationServiceGetResponse, error) {
	a := s.API
	answer, err := relayRead(ctx, a.allocations.Get, request)
	switch {
	case err == nil:
		if on := answer.GetAllocation().GetHostId(); on != "" && on != a.settings().HostID {
			return nil, connect.NewError(connect.CodeNotFound, a.onHost(answer.GetAllocation().GetId(), on)) // as of one that is not there
		}
		return answer, nil
	case connect.CodeOf(err) != connect.CodeUnavailable:
		return nil, err
	}
	for _, allocation := range a.state.Allocations() {
		if request.GetId() != "" && allocation.GetId() == request.GetId() ||
			request.GetId() == "" && request.GetRequestId() != "" && allocation.GetRequestId() == request.GetRequestId() && allocation.GetCaller() == socket.CallerOf(ctx).Actor.Name {
			return &bursarv1.AllocationServiceGetResponse{Allocation: allocation}, nil
		}
	}
	return nil, err
}

// List reads this host's allocations from a coordinator, page by page. If none answers, it reads
// the live ones that the agent holds.
func (s *service) List(ctx context.Context, request *bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
	a := s.API
	if id := request.GetHostId(); id != "" && id != a.settings().HostID {
		return nil, refusal.Invalid("host_id", id, a.settings().HostID+", or nothing: this is its agent")
	}
	after, local := strings.CutPrefix(request.GetPageToken(), localToken)
	if local {
		return a.listHeld(ofCaller(ctx, request), after), nil
	}
	forwarded := proto.CloneOf(request)
	forwarded.HostId = a.settings().HostID
	answer, err := relayRead(ctx, a.allocations.List, forwarded)
	if err == nil {
		return answer, nil
	}
	// Only a coordinator knows ended allocations, and only a coordinator can continue a list that
	// one has begun.
	ended := request.GetEnded() || request.GetEndedSince() != nil || request.GetEndedBefore() != nil
	if connect.CodeOf(err) != connect.CodeUnavailable || ended || request.GetPageToken() != "" {
		return nil, err
	}
	return a.listHeld(ofCaller(ctx, request), ""), nil
}

// ofCaller makes a request for the caller's own allocations one for those with the caller's label,
// as a coordinator does.
func ofCaller(ctx context.Context, request *bursarv1.AllocationServiceListRequest) *bursarv1.AllocationServiceListRequest {
	c := socket.CallerOf(ctx)
	if !request.GetMine() || c == nil || len(c.Actor.Users) == 0 {
		return request
	}
	request = proto.CloneOf(request)
	if request.Labels == nil {
		request.Labels = make(map[string]string, 1)
	}
	request.Labels["user"] = c.Actor.Users[0]
	return request
}

// relayRead passes a read on. It tries only once more, if the connection has broken.
func relayRead[Q, R any](ctx context.Context, call func(context.Context, *Q) (*R, error), request *Q) (*R, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	response, err := call(inNameOf(ctx), request)
	if err != nil && IsTransient(err) && pause.For(relayRetryFirst, ctx.Done(), nil) {
		response, err = call(inNameOf(ctx), request)
	}
	if err != nil && IsTransient(err) {
		return nil, noAnswer(err)
	}
	return response, err
}

// listHeld is a page of the allocations that the agent holds, by id.
func (a *API) listHeld(request *bursarv1.AllocationServiceListRequest, after string) *bursarv1.AllocationServiceListResponse {
	size := int(cmp.Or(max(0, request.GetPageSize()), 100))
	page := &bursarv1.AllocationServiceListResponse{}
	if request.GetMine() {
		user, is := request.GetLabels()["user"]
		if !is {
			return page
		}
		page.Users = []string{user}
	}
	for _, allocation := range a.state.Allocations() {
		if allocation.GetId() <= after || !listed(request, allocation) {
			continue
		}
		if len(page.Allocations) == size {
			page.NextPageToken = localToken + page.Allocations[size-1].GetId()
			break
		}
		page.Allocations = append(page.Allocations, allocation)
	}
	return page
}

// listed reports whether an allocation is one that a list asks for.
func listed(request *bursarv1.AllocationServiceListRequest, allocation *bursarv1.Allocation) bool {
	if !strings.HasPrefix(allocation.GetId(), request.GetIdPrefix()) {
		return false
	}
	if len(request.GetStates()) > 0 && !slices.Contains(request.GetStates(), allocation.GetState()) {
		return false
	}
	if len(request.GetPhases()) > 0 && !slices.Contains(request.GetPhases(), allocation.GetPhase()) {
		return false
	}
	if request.GetName() != "" && allocation.GetName() != request.GetName() {
		return false
	}
	for key, want := range request.GetLabels() {
		if value, has := allocation.GetLabels()[key]; !has || want != "*" && value != want {
			return false
		}
	}
	return true
}

// Await and Leave are between an agent and a coordinator.
func (s *service) Await(context.Context, *bursarv1.AwaitRequest, *connect.ServerStream[bursarv1.AwaitResponse]) error {
	return errOfCoordinators
}

// Leave is refused as Await is.
func (s *service) Leave(context.Context, *bursarv1.LeaveRequest) (*bursarv1.LeaveResponse, error) {
	return nil, errOfCoordinators
}

var errOfCoordinators = connect.NewError(connect.CodeUnimplemented, errors.New("an agent does not serve this: a coordinator does, for agents"))

// Watch streams this host's transitions, as long as the coordinator that it was begun with
// answers. A caller resumes from the last revision.
func (s *service) Watch(
	ctx context.Context, request *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
) error {
	a := s.API
	if id := request.GetHostId(); id != "" && id != a.settings().HostID {
		return refusal.Invalid("host_id", id, a.settings().HostID+", or nothing: this is its agent")
	}
	ended, err := a.admit(socket.CallerOf(ctx).Counted())
	if err != nil {
		return err
	}
	defer ended()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end the call
	events, err := a.allocations.Watch(inNameOf(ctx), &bursarv1.AllocationServiceWatchRequest{
		AfterRevision: request.GetAfterRevision(), Labels: request.GetLabels(), HostId: a.settings().HostID, Id: request.GetId(),
	})
	if err != nil {
		return err
	}
	defer events.Close()
	for events.Receive() {
		if err := stream.Send(events.Msg()); err != nil {
			return err
		}
	}
	switch err := events.Err(); {
	case s.stopping.Err() != nil:
		return connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: watch again from the last revision"))
	case err != nil && IsTransient(err):
		return noAnswer(err)
	default:
		return err
	}
}

package callers

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// callerEnds is how long the agent looks whether the process ends whose call has ended without
	// an answer. The kernel closes its connections a moment before. A caller that goes on may ask
	// again, and its request waits for it as long (10 s).
	callerEnds = 10 * time.Second
	// unconfirmedTime is how long a reservation is looked after that does not say when it expires.
	unconfirmedTime = 10 * time.Minute
	// giveBackTimeout bounds the attempts to give back a reservation that a caller has left behind.
	// It outlasts a change of leader. A reservation that cannot be given back expires by itself.
	giveBackTimeout = 15 * time.Second
)

// callerProcess is the process that makes a call, if the agent can tell.
func callerProcess(ctx context.Context) (caller process.Ref, known bool) {
	found, err := socket.ProcessOf(ctx).Identity()
	return process.Ref{PID: found.PID, StartTime: found.StartTime}, err == nil
}

// awaitEnd reports whether a process ends before ctx does.
func (a *API) awaitEnd(ctx context.Context, p process.Ref) bool {
	handle, err := a.opener.Open(p)
	if err != nil {
		return errors.Is(err, process.ErrEnded)
	}
	defer handle.Close()
	return handle.Wait(ctx) == nil
}

// cancelIfEnded cancels a request that may wait or may have been granted, if its caller has ended.
func (s *service) cancelIfEnded(ctx context.Context, caller process.Ref, requestID string) {
	a := s.API
	ctx = context.WithoutCancel(ctx)
	a.background(func() {
		looking, cancel := context.WithTimeout(ctx, callerEnds)
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end it
		if a.awaitEnd(looking, caller) {
			s.giveBack(ctx, &bursarv1.CancelRequest{RequestId: requestID, Reason: "its caller has ended"})
		}
	})
}

// awaitConfirm gives a reservation back if its caller ends before it has confirmed a process.
func (s *service) awaitConfirm(ctx context.Context, caller process.Ref, allocation *bursarv1.Allocation) {
	a, id := s.API, allocation.GetId()
	expires := time.Now().Add(unconfirmedTime)
	if allocation.GetExpireTime() != nil {
		expires = allocation.GetExpireTime().AsTime()
	}
	ctx = context.WithoutCancel(ctx)
	looking, cancel := context.WithDeadline(ctx, expires)
	mine := &unconfirmed{cancel: cancel}
	a.state.Locked(func(*tracker.Tracker) {
		if earlier := a.unconfirmed[id]; earlier != nil {
			earlier.cancel() // the same request, asked for again
		}
		a.unconfirmed[id] = mine
	})
	a.background(func() {
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end it
		ended := a.awaitEnd(looking, caller)
		isReserved := false
		a.state.Locked(func(t *tracker.Tracker) {
			if a.unconfirmed[id] != mine {
				ended = false
				return
			}
			delete(a.unconfirmed, id)
			grant, held := t.Get(id)
			isReserved = held && reserved(grant)
		})
		if ended && isReserved {
			s.giveBack(ctx, &bursarv1.CancelRequest{RequestId: allocation.GetRequestId(), Reason: "its caller has ended before it confirmed a process"})
		}
	})
}

// giveBack cancels a request or a reservation that a caller has left behind, in its name.
func (s *service) giveBack(ctx context.Context, request *bursarv1.CancelRequest) {
	a := s.API
	ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end it
	answer, err := relay(ctx, a, a.allocations.Cancel, request)
	if err != nil {
		a.log.Debug("what a caller has left behind was not given back: it ends by itself",
			"request_id", request.GetRequestId(), "error", err)
		return
	}
	a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
}

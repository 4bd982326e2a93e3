package callers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Allocate asks for resources of this host in the caller's name, and has the last word on a grant.
func (s *service) Allocate(ctx context.Context, request *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) { //nolint:cyclop // each end of a request once
	a := s.API
	if id := request.GetHost().GetId(); id != "" && id != a.settings().HostID {
		return nil, refusal.Invalid("host.id", id, fmt.Sprintf("%q, or nothing: an agent gives out its own host; a coordinator chooses among all", a.settings().HostID))
	}
	var caller process.Ref // the process that is to confirm another
	confirms := request.GetConfirmsProcess()
	if confirms {
		if _, err := socket.ProcessOf(ctx).Seen(ctx); err != nil {
			return nil, err
		}
		caller, confirms = callerProcess(ctx)
	}
	if err := a.engines.CanLimit(ctx, request.GetLimit()); err != nil {
		return nil, err
	}
	request.Streamed, request.Limit = nil, false // the request is this call's alone
	if request.Host == nil {
		request.Host = &bursarv1.HostWishes{}
	}
	request.Host.Id = a.settings().HostID
	minted := request.GetRequestId() == ""
	if minted {
		request.RequestId = "agent-" + client.NewRequestID()
	}
	wait := convert.Wait(request)
	if wait > 0 {
		ended, err := a.admit(socket.CallerOf(ctx).Counted())
		if err != nil {
			return nil, err
		}
		defer ended()
	}
	bounded, cancel := a.bounded(ctx, wait)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end the call
	open := false
	allocation, err := a.allocate(bounded, &open, request)
	if err != nil {
		switch _, refused := client.Insufficient(err); {
		case refused || !open:
		case minted:
			a.abandon(ctx, request.GetRequestId())
		case confirms && ctx.Err() != nil:
			s.cancelIfEnded(ctx, caller, request.GetRequestId())
		default:
			err = unsettled(err)
		}
		if s.stopping.Err() != nil && ctx.Err() == nil {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: ask again with the same request_id"))
		}
		return nil, err
	}
	if reserved(allocation) {
		switch {
		case confirms:
			s.awaitConfirm(ctx, caller, allocation)
		case minted && ctx.Err() != nil:
			a.abandon(ctx, request.GetRequestId())
		}
	}
	return &bursarv1.AllocateResponse{Allocation: allocation}, nil
}

// allocate asks until there is a grant that stands, or an answer that is no grant. It sets open
// once a coordinator may have accepted the request.
func (a *API) allocate(ctx context.Context, open *bool, request *bursarv1.AllocateRequest) (*bursarv1.Allocation, error) {
	waited := time.Now().Add(request.GetWait().AsDuration())
	call := noting(open, a.whileWaiting(request))
	if err := a.awaitReady(ctx); err != nil {
		return nil, err
	}
	defer a.reports.Asks()()
	var refused *tracker.Refusal // of the last grant
	reported := false            // the host, on this request's account
	for stale := 0; ; {
		answer, err := repeat(ctx, a, call, request)
		switch {
		case err != nil && !reported && a.unknownTo(err):
			reported = true
			if a.agree(ctx) {
				continue
			}
			return nil, err
		case err != nil:
			return nil, err
		case answer.asOf < a.epoch():
			// A coordinator that does not lead any more may have given it. The one that leads knows
			// which grants stand.
			continue
		}
		allocation := answer.msg.GetAllocation()
		if refused != nil && over(allocation.GetState()) {
			return nil, a.vetoError(request, refused)
		}
		verdict, veto, answered := a.judge(ctx, allocation, answer.asOf)
		switch {
		case allocation.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, verdict == tracker.Held:
			return allocation, nil
		case verdict == tracker.Vetoed:
			refused = &veto
			a.syncDue.NoLaterThan(a.reports.RefusalDue())
			switch told, err := a.awaitVeto(ctx, waited, allocation.GetId(), answered); {
			case err != nil:
				return nil, err
			case !told:
				return nil, a.vetoError(request, refused)
			}
		case stale > 0 || allocation.GetHostId() != a.settings().HostID:
			// It was asked for again and is still granted: so the agent is wrong about it.
			a.state.Locked((*tracker.Tracker).Resync)
			a.syncDue.NoLaterThan(time.Now())
			return allocation, nil
		default: // a late answer: it has ended, or was refused, since
			stale++
		}
	}
}

func (a *API) epoch() (epoch uint64) {
	a.state.Locked(func(t *tracker.Tracker) { epoch = t.Epoch() })
	return epoch
}

// judge has the tracker decide on an allocation. The next answer to a Sync closes the channel.
func (a *API) judge(ctx context.Context, allocation *bursarv1.Allocation, asOf uint64) (verdict tracker.Verdict, veto tracker.Refusal, answered <-chan struct{}) {
	a.awaitRoom(ctx, allocation)
	isNew := false
	a.state.Locked(func(t *tracker.Tracker) {
		_, known := t.Veto(allocation.GetId())
		verdict = t.Observe(time.Now(), allocation, asOf)
		isNew = verdict == tracker.Vetoed && !known
		veto, _ = t.Veto(allocation.GetId())
		answered = a.state.Answered.Next()
	})
	if isNew {
		a.vetoed(allocation, veto)
	}
	return verdict, veto, answered
}

// awaitReady waits until the coordinator knows this host.
func (a *API) awaitReady(ctx context.Context) error {
	if err := a.isOfItsHost(); err != nil {
		return err
	}
	select {
	case <-a.reports.Ready():
		return nil
	case <-ctx.Done():
		return connect.NewError(connect.CodeUnavailable, errors.New("no coordinator has taken this host's registration yet"))
	}
}

// awaitVeto waits until the coordinator has heard of a veto, and has put the request back in its
// place or refused it, and then for vetoPause. told is false if the request's wait is over before:
// the coordinator ends it when it hears of the veto.
func (a *API) awaitVeto(ctx context.Context, waited time.Time, id string, answered <-chan struct{}) (told bool, err error) {
	left := time.NewTimer(time.Until(waited))
	defer left.Stop()
	for time.Now().Before(waited) {
		select {
		case <-answered:
		case <-left.C:
			continue
		case <-ctx.Done():
			return false, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent refused the grant, and no coordinator answers: %w", ctx.Err()))
		}
		pending := false
		a.state.Locked(func(t *tracker.Tracker) {
			_, pending = t.Veto(id)
			answered = a.state.Answered.Next()
		})
		if pending {
			continue
		}
		if !pause.For(min(vetoPause, time.Until(waited)), ctx.Done(), nil) {
			return false, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent refused the grant: %w", ctx.Err()))
		}
		return true, nil
	}
	return false, nil
}

// vetoPause is how long a vetoed request is left alone before it is asked for again: without it
// grant and veto would alternate until the next sample.
const vetoPause = 500 * time.Millisecond

// abandonTimeout bounds the cancellation of a request that is abandoned.
const abandonTimeout = 3 * time.Second

// abandon cancels a request that no caller can ask for again, because only the agent knew its id.
func (a *API) abandon(ctx context.Context, requestID string) {
	ctx = context.WithoutCancel(ctx)
	a.background(func() {
		ctx, cancel := context.WithTimeout(ctx, abandonTimeout)
		defer cancel()
		request := &bursarv1.CancelRequest{RequestId: requestID, Reason: "its caller has no answer"}
		if _, err := relay(ctx, a, a.allocations.Cancel, request); err != nil {
			a.log.Debug("an abandoned request was not canceled: it ends by itself", "request_id", requestID, "error", err)
		}
	})
}

// vetoError refuses a request in the words of the coordinator.
func (a *API) vetoError(request *bursarv1.AllocateRequest, refused *tracker.Refusal) error {
	var limit int64
	a.state.Locked(func(t *tracker.Tracker) { limit = t.Host().Capacity.GetMemoryBytes() })
	code, detail := bursarv1.ShortfallNote_SHORTFALL_NOTE_MEASURED, refused.Reason
	if detail != "" {
		code = bursarv1.ShortfallNote_SHORTFALL_NOTE_REFUSED
	}
	note := convert.NoteText(code)
	short := &bursarv1.Shortfall{
		Account: &bursarv1.AccountName{
			Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": a.settings().HostID},
		},
		Dimension: "memory", Requested: request.GetResource().GetMemoryBytes(), Available: refused.Headroom, Limit: limit,
		Note: note, NoteCode: code, Detail: detail,
	}
	why := note
	if detail != "" {
		why += ": " + detail
	}
	err := connect.NewError(connect.CodeResourceExhausted, fmt.Errorf(
		"insufficient resources (vetoed): host %s: memory: requested %d, available %d, limit %d (%s)",
		a.settings().HostID, short.GetRequested(), short.GetAvailable(), short.GetLimit(), why))
	return refusal.WithDetail(err, &bursarv1.InsufficientResources{
		Shortfalls: []*bursarv1.Shortfall{short}, Reason: "vetoed", Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW,
	})
}

// over reports whether an allocation has ended.
func over(state bursarv1.AllocationState) bool {
	switch state {
	case bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED,
		bursarv1.AllocationState_ALLOCATION_STATE_CANCELED, bursarv1.AllocationState_ALLOCATION_STATE_LOST:
		return true
	default:
		return false
	}
}

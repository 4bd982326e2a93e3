package coordinator

import (
	"cmp"
	"context"
	"errors"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// allocationService serves bursar.v1.AllocationService. Watch is in watch.go, List in
// allocationlist.go, Await in streamedwaits.go.
type allocationService struct {
	loop   *commit.Loop
	store  store.Store
	labels *label.Preprocessor
	waits  *waitStreams
	hub    *orders.Hub // nil: agents get all orders with their heartbeats
}

// Allocate reserves resources, enqueues the request, or refuses it.
func (s *allocationService) Allocate(ctx context.Context, req *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	command, err := s.command(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	result, err := s.allocate(ctx, req, &command)
	if err != nil {
		return nil, err
	}
	if result.Ended {
		return s.answerRepeat(ctx, result.Allocation.ID, &command)
	}
	return &bursarv1.AllocateResponse{Allocation: wire.AllocationMessage(&result.Allocation)}, nil
}

func (s *allocationService) allocate(ctx context.Context, req *bursarv1.AllocateRequest, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	if req.GetStreamed().GetEnded() {
		return s.endOfWait(req.GetStreamed(), command)
	}
	if err := s.admit(ctx, command); err != nil {
		return ledger.AllocateResult{}, err
	}
	if req.GetStreamed() != nil && convert.Wait(req) > 0 {
		return s.allocateStreamed(ctx, req.GetStreamed(), command)
	}
	return s.loop.Allocate(ctx, command)
}

// admit refuses a request of a caller whose history is full, unless it is a repeat.
func (s *allocationService) admit(ctx context.Context, c *ledger.AllocateCommand) error {
	refused := s.loop.Admit(c.Actor.ChargedName())
	if refused == nil || c.RequestID == "" {
		return refused
	}
	id, err := s.loop.IDOf(ctx, c.Actor.Name, c.RequestID)
	if err != nil || id != 0 {
		return err
	}
	return refused
}

// answerRepeat answers a repeated request whose allocation has ended. The answer is that allocation
// if it had a grant, otherwise an error that tells how the wait ended.
func (s *allocationService) answerRepeat(ctx context.Context, id ledger.ID, c *ledger.AllocateCommand) (*bursarv1.AllocateResponse, error) {
	a, err := s.getEnded(ctx, id)
	if err != nil {
		return nil, err
	}
	if a.Reserved == 0 {
		if a.State == ledger.Expired {
			return nil, s.loop.WaitedBefore(ctx, c, a.PassedSince)
		}
		return nil, &endedError{Allocation: a, Want: "a new request_id"}
	}
	return &bursarv1.AllocateResponse{Allocation: wire.AllocationMessage(&a)}, nil
}

// command converts a request to the ledger's form. launch is nil for a request without a launch.
func (s *allocationService) command(ctx context.Context, req *bursarv1.AllocateRequest, launch *ledger.LaunchRequest) (ledger.AllocateCommand, error) {
	c := ledger.AllocateCommand{Launch: launch}
	var err error
	c.Actor = auth.ActorOf(ctx)
	given, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		return c, err
	}
	if c.Labels, c.Subordinate, err = s.labels.ApplyCharged(given, c.Actor.OnlyUser(), c.Actor.Owner); err != nil {
		return c, err
	}
	if c.Resource, err = convert.ResourceFromProto(req.GetResource()); err != nil {
		return c, wire.InField("resource.", err)
	}
	if c.Wishes, err = wire.WishesFrom(req.GetHost()); err != nil {
		return c, err
	}
	c.RequestID = req.GetRequestId()
	c.Wait, c.Async, c.Name = wire.DurationFrom(req.GetWait()), req.GetAsync(), req.GetName()
	c.ReservationTTL, c.Priority = wire.DurationFrom(req.GetReservationTtl()), req.GetPriority()
	if c.RequestID != "" {
		c.RequestHash = wire.RequestHash(given, &c)
	}
	return c, nil
}

// Confirm says that the engine runs.
func (s *allocationService) Confirm(ctx context.Context, req *bursarv1.ConfirmRequest) (*bursarv1.ConfirmResponse, error) {
	actor, id, err := s.target(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if req.GetLimit() {
		return nil, &ledger.FieldError{Field: "limit", Value: "true", Want: "a call to the agent of the engine's host, which sets limits"}
	}
	c := ledger.ConfirmCommand{
		Actor: actor, ID: id, HostID: actor.Host, Address: req.GetAddress(), ApplicationIDs: req.GetApplicationIds(), Lease: wire.DurationFrom(req.GetLease()),
		Phase: wire.PhaseFrom(req.GetPhase()), PhaseReason: wire.CleanText(req.GetPhaseReason()),
	}
	if p := req.GetProcess(); p != nil {
		c.Process = wire.ProcessFrom(p)
		c.Process.Verified = actor.Host != "" && p.GetPid() != 0
		c.Process.Launched = c.Process.Verified && c.Process.Launched
	}
	if req.GetEntitled() != nil {
		entitled, err := convert.ResourceFromProto(req.GetEntitled())
		if err != nil {
			return nil, wire.InField("entitled.", err)
		}
		c.Entitled = &entitled
	}
	a, err := commit.Decide(ctx, s.loop, onOwnHostOnly(actor, id, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) { return l.Confirm(now, c) }))
	if err != nil {
		return nil, s.describeEnded(ctx, id, err, "a reserved one; stop the engine")
	}
	return &bursarv1.ConfirmResponse{Allocation: s.sealedFor(actor, &a)}, nil
}

// sealedFor returns the message of an allocation that a caller has changed. A call through the
// agent of the allocation's host gets the seal, too: if the store is lost, the next heartbeat could
// bring it too late. The agent does not pass the seal on to the caller.
func (s *allocationService) sealedFor(actor identity.Actor, a *ledger.Allocation) *bursarv1.Allocation {
	m := wire.AllocationMessage(a)
	if actor.Host != "" && actor.Host == a.HostID {
		m.Seal = s.loop.Sealer().Seal(a)
	}
	return m
}

// Release gives everything back once no process of the engine lives.
func (s *allocationService) Release(ctx context.Context, req *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	actor, id, err := s.target(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	c := ledger.ReleaseCommand{
		Actor: actor, ID: id, HostID: actor.Host, Reason: wire.CleanText(req.GetReason()), Exit: wire.ExitFrom(req.GetExitStatus()), ErrorOutput: wire.CleanLines(req.GetErrorOutput()),
		ProcessEnded: req.GetProcessEnded(), Force: req.GetForce(),
		PeakSource: wire.PeakSourceFrom(req.GetMeasuredPeakSource()), CPUTime: wire.CPUTimeFrom(req.GetCpuTime()),
	}
	if c.Peak, err = wire.PeakFrom(req.GetMeasuredPeak()); err != nil {
		return nil, err
	}
	if actor.Host != "" {
		c.Incidents = wire.IncidentsFrom(req.GetIncidents())
	}
	a, err := commit.Decide(ctx, s.loop, onOwnHostOnly(actor, id, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) { return l.Release(now, c) }))
	a, err = s.ifLost(ctx, id, a, err, func(l *ledger.Ledger, now ledger.Instant, lost *ledger.Allocation) (ledger.Allocation, error) {
		return l.ReleaseLost(now, c, lost)
	})
	if err == nil {
		s.orderStop(&a)
	}
	m, err := s.answerEnded(ctx, id, a, err)
	return &bursarv1.ReleaseResponse{Allocation: m}, err
}

// Cancel ends a waiting request or a reservation.
func (s *allocationService) Cancel(ctx context.Context, req *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	actor := auth.ActorOf(ctx)
	id, err := wire.EitherID(req.GetId(), req.GetRequestId())
	if err != nil {
		return nil, err
	}
	c := ledger.CancelCommand{Actor: actor, ID: id, RequestID: req.GetRequestId(), Reason: wire.CleanText(req.GetReason())}
	known, last, err := onLastTry(ctx, s, id, func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) (cancelResult, error) {
		if c.ID = id; id == 0 { // an ended allocation is known by its own id
			c.ID, _, _ = l.ByRequest(c.Actor.Name, c.RequestID)
			if err := checkOwnHost(l, c.Actor, c.ID); err != nil {
				return cancelResult{}, err
			}
		}
		a, err := l.Cancel(now, c)
		return cancelResult{a, c.ID, l.Recalling()}, err
	})
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); unknown && known.id == 0 && known.recalling {
		past, wrong := s.loop.Past(ctx, actor.Name, req.GetRequestId())
		if known.id = past.ID; wrong != nil {
			return nil, wrong
		}
	}
	m, err := s.answerEnded(ctx, known.id, known.allocation, err)
	return &bursarv1.CancelResponse{Allocation: m}, ofLastTry(id, last, err)
}

// cancelResult holds the target of a Cancel, live or not.
type cancelResult struct {
	allocation ledger.Allocation
	id         ledger.ID
	recalling  bool // the ledger may not know the id of an ended allocation
}

// Amend changes a waiting request.
func (s *allocationService) Amend(ctx context.Context, req *bursarv1.AmendRequest) (*bursarv1.AmendResponse, error) {
	actor := auth.ActorOf(ctx)
	id, err := wire.EitherID(req.GetId(), req.GetRequestId())
	if err != nil {
		return nil, err
	}
	c := ledger.AmendCommand{Actor: actor, ID: id, RequestID: req.GetRequestId(), Wait: wire.DurationFrom(req.GetWait()), Priority: req.Priority} //nolint:protogetter // nil leaves it
	if req.GetResource() != nil {
		r, err := convert.ResourceFromProto(req.GetResource())
		if err != nil {
			return nil, wire.InField("resource.", err)
		}
		c.Resource = &r
	}
	a, last, err := onLastTry(ctx, s, id, func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) (ledger.Allocation, error) {
		if c.ID = id; id == 0 {
			c.ID, _, _ = l.ByRequest(c.Actor.Name, c.RequestID)
			if err := checkOwnHost(l, c.Actor, c.ID); err != nil {
				return ledger.Allocation{}, err
			}
		}
		return l.Amend(now, c)
	})
	if err != nil && c.ID == 0 {
		return nil, err
	}
	if err != nil {
		return nil, ofLastTry(id, last, s.describeEnded(ctx, c.ID, err, "a request that waits"))
	}
	return &bursarv1.AmendResponse{Allocation: wire.AllocationMessage(&a)}, nil
}

// Renew extends a reservation or a lease.
func (s *allocationService) Renew(ctx context.Context, req *bursarv1.RenewRequest) (*bursarv1.RenewResponse, error) {
	actor, id, err := s.target(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	c := ledger.RenewCommand{Actor: actor, ID: id, TTL: wire.DurationFrom(req.GetTtl())}
	a, err := commit.Decide(ctx, s.loop, onOwnHostOnly(actor, id, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) { return l.Renew(now, c) }))
	a, err = s.ifLost(ctx, id, a, err, func(l *ledger.Ledger, now ledger.Instant, lost *ledger.Allocation) (ledger.Allocation, error) {
		return l.RenewLost(now, c, lost)
	})
	if err != nil {
		return nil, s.describeEnded(ctx, id, err, "a reservation or an engine with a lease")
	}
	return &bursarv1.RenewResponse{Allocation: s.sealedFor(actor, &a)}, nil
}

// Resize changes an entitlement.
func (s *allocationService) Resize(ctx context.Context, req *bursarv1.ResizeRequest) (*bursarv1.ResizeResponse, error) {
	actor, id, err := s.target(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	entitled, err := convert.ResourceFromProto(req.GetEntitled())
	if err != nil {
		return nil, wire.InField("entitled.", err)
	}
	c := ledger.ResizeCommand{Actor: actor, ID: id, Entitled: entitled}
	a, err := commit.Decide(ctx, s.loop, onOwnHostOnly(actor, id, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		a, err := l.Resize(now, c)
		if err == nil {
			a.OverUse = l.ForeseenOverUse(id)
		}
		return a, err
	}))
	if err != nil {
		return nil, s.describeEnded(ctx, id, err, "a reserved or active one")
	}
	return &bursarv1.ResizeResponse{Allocation: s.sealedFor(actor, &a)}, nil
}

// Stop asks the host's agent to end the engine.
func (s *allocationService) Stop(ctx context.Context, req *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	actor, id, err := s.target(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	c := ledger.StopCommand{Actor: actor, ID: id, Reason: wire.CleanText(req.GetReason()), Release: req.GetRelease()}
	if req.GetGrace() != nil {
		grace := wire.DurationFrom(req.GetGrace())
		c.Grace = &grace
	}
	a, last, err := onLastTry(ctx, s, id, func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) (ledger.Allocation, error) {
		c.ID = id
		return l.Stop(now, c)
	})
	a, err = s.ifLost(ctx, last, a, err, func(l *ledger.Ledger, now ledger.Instant, lost *ledger.Allocation) (ledger.Allocation, error) {
		reason := cmp.Or(c.Reason, "stopped by "+actor.Name)
		return l.ReleaseLost(now, ledger.ReleaseCommand{Actor: actor, ID: last, Reason: reason}, lost)
	})
	if err != nil {
		return nil, ofLastTry(id, last, s.describeEnded(ctx, last, err, "an active one"))
	}
	s.orderStop(&a)
	return &bursarv1.StopResponse{Allocation: wire.AllocationMessage(&a)}, nil
}

// orderStop sends the stop order to the host's agent at once if the agent is attached. The next
// heartbeat carries the order, too, so a lost or repeated order does no harm.
func (s *allocationService) orderStop(a *ledger.Allocation) {
	if s.hub == nil || !a.Stopping || !a.State.Live() {
		return
	}
	order := &bursarv1.StopOrder{AllocationId: a.ID.String(), Grace: wire.DurationMessage(a.StopGrace), Reason: a.StopReason}
	_ = s.hub.Offer(a.HostID, &bursarv1.AttachResponse{Epoch: s.loop.Epoch(), Order: &bursarv1.AttachResponse_Stop{Stop: order}})
}

// target returns the caller of ctx and the allocation that the text names.
func (s *allocationService) target(ctx context.Context, text string) (actor identity.Actor, id ledger.ID, err error) {
	id, err = wire.ParseID("id", text)
	return auth.ActorOf(ctx), id, err
}

// getEnded reads an ended allocation if the caller may see it. The error is a *ledger.NotFoundError
// if there is none.
func (s *allocationService) getEnded(ctx context.Context, id ledger.ID) (ledger.Allocation, error) {
	a, err := s.ended(ctx, id)
	if err != nil {
		return a, err
	}
	return a, checkHostOf(auth.ActorOf(ctx), &a)
}

// ended is getEnded without the check of the caller's rights.
func (s *allocationService) ended(ctx context.Context, id ledger.ID) (ledger.Allocation, error) {
	auth.Parked(ctx) // it waits for the store
	a, err := s.store.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return a, &ledger.NotFoundError{What: "allocation", ID: id.String()}
	}
	return a, err
}

// ifLost repeats a command that found no live allocation, on the ended allocation, if its host has
// lost its lease. Otherwise the command's first answer or error stays.
func (s *allocationService) ifLost(
	ctx context.Context, id ledger.ID, a ledger.Allocation, err error, command func(*ledger.Ledger, ledger.Instant, *ledger.Allocation) (ledger.Allocation, error),
) (ledger.Allocation, error) {
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); !unknown {
		return a, err
	}
	row, failed := s.getEnded(ctx, id)
	if failed != nil || !row.LostLease() {
		return a, err
	}
	return commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) { return command(l, now, &row) })
}

// onOwnHostOnly wraps a command for an allocation. If the call comes through a host's agent, the
// allocation must be on that host.
func onOwnHostOnly(
	actor identity.Actor, id ledger.ID, command func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error),
) func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error) {
	return func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		if err := checkOwnHost(l, actor, id); err != nil {
			return ledger.Allocation{}, err
		}
		return command(l, now)
	}
}

// answerEnded answers commands that accept an ended or unknown allocation.
func (s *allocationService) answerEnded(ctx context.Context, id ledger.ID, a ledger.Allocation, err error) (*bursarv1.Allocation, error) {
	if err == nil {
		return wire.AllocationMessage(&a), nil
	}
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); !unknown {
		return nil, err
	}
	if id == 0 {
		return nil, nil //nolint:nilnil // the contract: unset where the id is unknown
	}
	a, err = s.getEnded(ctx, id)
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); unknown {
		return nil, nil //nolint:nilnil // the contract: unset where the id is unknown
	}
	if err != nil {
		return nil, err
	}
	return wire.AllocationMessage(&a), nil
}

// describeEnded replaces the error "not live": the allocation has ended, and how, or it never
// existed.
func (s *allocationService) describeEnded(ctx context.Context, id ledger.ID, err error, want string) error {
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); !unknown {
		return err
	}
	a, lookup := s.getEnded(ctx, id)
	if lookup != nil {
		return lookup
	}
	return &endedError{Allocation: a, Want: want}
}

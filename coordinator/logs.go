package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/access"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// firstMessageTime is how long an agent may take until its first message, which names the output.
const firstMessageTime = 10 * time.Second

// logReaders are the readers of output on this coordinator.
type logReaders struct {
	*outputs.Readers

	forwarder *forward.Interceptor
	// url returns the URL at which agents reach this coordinator; empty if it is the only one.
	url func() string
}

// Logs sends output to a reader. Any coordinator serves it, the leader or another.
func (s *engineService) Logs(ctx context.Context, req *bursarv1.LogsRequest, answers *connect.ServerStream[bursarv1.LogsResponse]) error {
	if _, err := wire.ParseID("id", req.GetId()); err != nil {
		return err
	}
	auth.Parked(ctx)
	return s.readers.Read(ctx, auth.ActorOf(ctx).ChargedName(), req, &leaderOrder{s}, answers.Send)
}

// leaderOrder sends orders through the leader in the name of the caller of ctx.
type leaderOrder struct{ service *engineService }

// URL implements outputs.Order.
func (o *leaderOrder) URL() string { return o.service.readers.url() }

// Send implements outputs.Order.
func (o *leaderOrder) Send(ctx context.Context, logs *bursarv1.LogsRequest, ticket []byte) (host string, err error) {
	answer, err := o.ask(ctx, &bursarv1.OrderLogsRequest{Logs: logs, Url: o.URL(), Ticket: ticket})
	return answer.GetHostId(), err
}

// Stop implements outputs.Order.
func (o *leaderOrder) Stop(ctx context.Context, logs *bursarv1.LogsRequest, ticket []byte) {
	_, _ = o.ask(ctx, &bursarv1.OrderLogsRequest{Logs: logs, Url: o.URL(), Ticket: ticket, Stop: true}) // if the order is lost, the agent finds no reader
}

func (o *leaderOrder) ask(ctx context.Context, order *bursarv1.OrderLogsRequest) (*bursarv1.OrderLogsResponse, error) {
	if o.service.readers.forwarder.Leads() {
		answer, err := o.service.orderLogs(ctx, order)
		return answer, rpcError(err)
	}
	answer, err := o.service.readers.forwarder.Ask(ctx, bursarv1connect.EngineServiceOrderLogsProcedure, order)
	if err != nil {
		return nil, rpcError(err)
	}
	response, _ := answer.(*bursarv1.OrderLogsResponse)
	return response, nil
}

// OrderLogs has an agent send output to another coordinator. That coordinator has passed on its
// reader's credentials.
func (s *engineService) OrderLogs(ctx context.Context, req *bursarv1.OrderLogsRequest) (*bursarv1.OrderLogsResponse, error) {
	info, called := connect.CallInfoForHandlerContext(ctx)
	if !called || !auth.PassedOn(ctx) || forward.From(info.RequestHeader()) != req.GetUrl() {
		return nil, &access.DeniedError{Actor: auth.ActorOf(ctx).Name, What: "have output sent to " + req.GetUrl(), Want: "Logs: OrderLogs is a call of a coordinator for its own URL"}
	}
	return s.orderLogs(ctx, req)
}

// orderLogs has an agent send output to a coordinator of this cluster.
func (s *engineService) orderLogs(ctx context.Context, req *bursarv1.OrderLogsRequest) (*bursarv1.OrderLogsResponse, error) {
	host, err := s.hostWithOutput(ctx, req.GetLogs().GetId())
	if err != nil {
		return nil, err
	}
	order := &bursarv1.AttachResponse{Epoch: s.allocations.loop.Epoch(), Order: &bursarv1.AttachResponse_SendOutput{SendOutput: &bursarv1.SendOutputOrder{
		Logs: req.GetLogs(), Url: req.GetUrl(), Ticket: req.GetTicket(), Reader: auth.ActorOf(ctx).ChargedName(),
	}}}
	if req.GetStop() {
		order.Order = &bursarv1.AttachResponse_StopSending{StopSending: &bursarv1.StopSendingOrder{Ticket: req.GetTicket()}}
	}
	if !req.GetStop() {
		if err := s.awaitHost(ctx, host); err != nil {
			return nil, err
		}
	}
	if err := s.hub.Offer(host, order); err != nil {
		return nil, err
	}
	return &bursarv1.OrderLogsResponse{HostId: host}, nil
}

// hostWithOutput returns the host of an allocation's engine, if the caller of ctx may see its
// output.
func (s *engineService) hostWithOutput(ctx context.Context, text string) (host string, err error) {
	id, err := wire.ParseID("id", text)
	if err != nil {
		return "", err
	}
	var a ledger.Allocation
	var live bool
	if err := s.allocations.loop.Do(ctx, func(book *ledger.Ledger, _ ledger.Instant) { a, live = book.Get(id) }); err != nil {
		return "", err
	}
	if !live {
		if a, err = s.allocations.getEnded(ctx, id); err != nil {
			return "", err
		}
	}
	actor := auth.ActorOf(ctx)
	if err := checkHostOf(actor, &a); err != nil {
		return "", err
	}
	if !access.MaySeeOutput(actor, convert.RightsOf(wire.AllocationMessage(&a))) {
		return "", &access.DeniedError{Actor: actor.Name, What: fmt.Sprintf("see the output of allocation %s", id), Want: "a submitter that may act as its user, an operator or an admin"}
	}
	if a.HostID == "" || a.Confirmed == 0 {
		return "", connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("allocation %s is %s and has no engine: want one whose engine has begun", id, a.State))
	}
	return a.HostID, nil
}

// endAfter calls end after a time, in a goroutine of its own, unless stop is called before. stop
// reports whether it prevented the call; if not, end has returned. stop may be called again.
func endAfter(d time.Duration, end func()) (stop func() bool) {
	ended := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		defer close(ended)
		end()
	})
	return sync.OnceValue(func() bool {
		if timer.Stop() {
			return true
		}
		<-ended
		return false
	})
}

// SendOutput takes output from an agent for a reader of this coordinator.
func (s *hostService) SendOutput(ctx context.Context, sent *connect.ClientStream[bursarv1.SendOutputRequest]) (*bursarv1.SendOutputResponse, error) {
	auth.Parked(ctx)
	inTime := endAfter(firstMessageTime, func() { auth.EndBody(ctx) })
	defer inTime()
	receive := func() (*bursarv1.SendOutputRequest, error) {
		if sent.Receive() {
			return sent.Msg(), nil
		}
		if err := sent.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	head, err := receive()
	switch {
	case !inTime():
		return nil, connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("no message came within %s", firstMessageTime))
	case errors.Is(err, io.EOF):
		return nil, wire.FieldError("ticket", "", "that of an order, in the first message")
	case err != nil:
		return nil, err
	}
	if err := isOwnHost(ctx, head.GetHostId(), "send output"); err != nil {
		return nil, err
	}
	err = s.readers.Deliver(ctx, head.GetHostId(), head.GetTicket(), receive, func() { auth.EndBody(ctx) })
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &bursarv1.SendOutputResponse{}, nil
}

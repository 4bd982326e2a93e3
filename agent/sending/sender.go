package sending

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	// mostOrders is how many orders are carried out at a time. Beyond it they are dropped.
	mostOrders = 1024
	// maxMessage is how much of a problem is told, in bytes.
	maxMessage = 4096
)

// Output reads the output of engines; *logs.Logs is one, and documents its method.
type Output interface {
	Send(ctx context.Context, caller string, request *bursarv1.LogsRequest, send func(*bursarv1.LogsResponse) error) error
}

// Options are the parts that a Sender needs. All of them are required.
type Options struct {
	HostID      func() string
	Incarnation func() uint64
	Output      Output
	// Coordinators are the URLs of the agent's own coordinators.
	Coordinators func() []string
	// Dial makes a client of one of these, over a connection of its own; "": of any of them.
	Dial func(url string) (hosts bursarv1connect.HostServiceClient, closed func(), err error)
	Log  *slog.Logger
}

// Sender carries out the orders of one host. Make it with New.
type Sender struct {
	Options

	mu     sync.Mutex
	orders map[string]context.CancelFunc // guarded by mu; by ticket
	calls  sync.WaitGroup
}

// New returns a Sender without orders.
func New(o Options) *Sender { return &Sender{Options: o, orders: make(map[string]context.CancelFunc)} }

// Send carries out an order in the background, until the end of the output, of its reader, or of
// ctx.
func (s *Sender) Send(ctx context.Context, order *bursarv1.SendOutputOrder) {
	ctx, cancel := context.WithCancel(ctx)
	ticket := string(order.GetTicket())
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.orders[ticket]; twice || len(s.orders) >= mostOrders {
		s.Log.Warn("an order to send output is dropped", "allocation_id", order.GetLogs().GetId(), "orders", len(s.orders))
		cancel()
		return
	}
	s.orders[ticket] = cancel
	s.calls.Go(func() {
		defer func() {
			cancel()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.orders, ticket)
		}()
		if err := s.carryOut(ctx, order); err != nil && ctx.Err() == nil {
			s.Log.Warn("output was not sent as a coordinator has ordered", "allocation_id", order.GetLogs().GetId(), "coordinator", order.GetUrl(), "error", err)
		}
	})
}

// Stop ends an order. One that is not known is no error.
func (s *Sender) Stop(order *bursarv1.StopSendingOrder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.orders[string(order.GetTicket())]; cancel != nil {
		cancel()
	}
}

// Wait returns when no order is carried out any more.
func (s *Sender) Wait() { s.calls.Wait() }

// errReaderGone ends the reading of output if the coordinator takes no more.
var errReaderGone = errors.New("the coordinator takes no more")

// carryOut sends the output of one order. It is no error if the reader goes before its end.
func (s *Sender) carryOut(ctx context.Context, order *bursarv1.SendOutputOrder) error {
	if err := s.isOwn(order.GetUrl()); err != nil {
		return err
	}
	hosts, closed, err := s.Dial(order.GetUrl())
	if err != nil {
		return err
	}
	defer closed()
	call, err := hosts.SendOutput(ctx)
	if err != nil {
		return err //nolint:wrapcheck // names the coordinator
	}
	send := func(message *bursarv1.SendOutputRequest) error {
		err := call.Send(message)
		if errors.Is(err, io.EOF) { // the answer is there already
			return errReaderGone
		}
		return err //nolint:wrapcheck // names the coordinator
	}
	// Before anything is opened: a coordinator at which no reader waits refuses the ticket.
	err = send(&bursarv1.SendOutputRequest{HostId: s.HostID(), Incarnation: s.Incarnation(), Ticket: order.GetTicket()})
	if err == nil {
		err = s.Output.Send(ctx, order.GetReader(), order.GetLogs(), func(output *bursarv1.LogsResponse) error {
			return send(&bursarv1.SendOutputRequest{Output: output})
		})
	}
	if err != nil && !errors.Is(err, errReaderGone) && ctx.Err() == nil {
		_ = send(&bursarv1.SendOutputRequest{Problem: problemOf(err)}) // if it cannot be told, the call ends without an end
	}
	if ctx.Err() != nil {
		return nil
	}
	_, err = call.CloseAndReceive()
	return err //nolint:wrapcheck // names the coordinator
}

// isOwn refuses a coordinator that is not among the agent's own.
func (s *Sender) isOwn(url string) error {
	own := s.Coordinators()
	if url == "" && len(own) > 0 {
		return nil
	}
	if slices.Contains(own, url) {
		return nil
	}
	return &StrangerError{URL: url, Own: own}
}

// StrangerError refuses an order to send output to somebody else than the agent's own coordinators.
type StrangerError struct {
	URL string
	Own []string
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("%q is not among the agent's coordinators (%s): want their URLs in its file as coordinators advertise them", spelling.Cut(e.URL, 300), strings.Join(e.Own, ", "))
}

// problemOf is the form of an error for the reader.
func problemOf(err error) *bursarv1.OutputProblem {
	code, message := connect.CodeOf(err), err.Error()
	if wrong, ok := errors.AsType[*connect.Error](err); ok {
		message = wrong.Message()
	}
	if code == connect.CodeUnknown {
		code = connect.CodeUnavailable
	}
	return &bursarv1.OutputProblem{Code: code.String(), Message: spelling.Cut(message, maxMessage)}
}

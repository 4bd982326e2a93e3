package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// watchfulAgent is the agent of host h1 that keeps the orders about engines that run.
type watchfulAgent struct {
	*visitor

	orders chan *bursarv1.AttachResponse
}

// enginePIDs are those of the engines so far.
var enginePIDs atomic.Int32

// watchful attaches the agent of host h1.
func (c *authServer) watchful(t *testing.T) *watchfulAgent {
	t.Helper()
	g := &watchfulAgent{visitor: c.visit(t, "agent1"), orders: make(chan *bursarv1.AttachResponse, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := g.hosts.Attach(ctx, &bursarv1.AttachRequest{HostId: "h1", Incarnation: 1})
	if err != nil || !stream.Receive() {
		t.Fatalf("not attached: %v, %v", err, stream.Err())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stream.Receive() {
			if stream.Msg().GetOrder() != nil {
				g.orders <- stream.Msg()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = stream.Close()
		<-ended
	})
	return g
}

func (g *watchfulAgent) next(t *testing.T) *bursarv1.AttachResponse {
	t.Helper()
	select {
	case order := <-g.orders:
		return order
	case <-time.After(20 * time.Second):
		t.Fatal("no order within 20s")
		return nil
	}
}

// engine confirms an engine of alice on host h1 through its agent.
func (c *authServer) engine(t *testing.T) (id string) {
	t.Helper()
	through := c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}, Role: identity.Submitter, Host: "h1"})
	id = through.mustAllocate(t, "h1", "alice")
	if _, err := through.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: 100 + enginePIDs.Add(1), StartTime: 1, Launched: true}}); err != nil {
		t.Fatal(err)
	}
	return id
}

// signaled answers a call of Signal once the agent has its order.
func signaled(t *testing.T, v *visitor, g *watchfulAgent, id, problem string) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := v.engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: id, Signal: bursarv1.Signal_SIGNAL_USR1})
		done <- err
	}()
	order := g.next(t).GetSignal()
	if order.GetAllocationId() != id || order.GetSignal() != bursarv1.Signal_SIGNAL_USR1 || order.GetNumber() == 0 || order.GetCaller() == "" {
		t.Errorf("the order is %v", order)
	}
	answer := &bursarv1.AnswerRequest{
		HostId: "h1", Incarnation: 1, AllocationId: id, Number: order.GetNumber() + 7,
		Result: &bursarv1.AnswerRequest_Signaled{Signaled: &bursarv1.SignalDone{Problem: "of another order"}},
	}
	for _, number := range []uint64{order.GetNumber() + 7, order.GetNumber(), order.GetNumber()} { // the last one comes twice
		answer.Number = number
		if number == order.GetNumber() {
			answer.GetSignaled().Problem = problem
		}
		if _, err := g.hosts.Answer(t.Context(), answer); err != nil {
			t.Error(err)
		}
	}
	return <-done
}

func TestSignalsGoToTheAgentOfTheirHost(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	id, alice := c.engine(t), c.visit(t, "alice")
	_, err := alice.engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: id, Signal: bursarv1.Signal_SIGNAL_INT})
	expect(t, "without its agent", err, connect.CodeUnavailable, "the agent of host h1 is not attached")
	g := c.watchful(t)
	for name, v := range map[string]*visitor{"its user": alice, "an operator": c.visit(t, "ops"), "an admin": c.visit(t, "root")} {
		if err := signaled(t, v, g, id, ""); err != nil {
			t.Errorf("by %s: %v", name, err)
		}
	}
	expect(t, "its process has ended", signaled(t, alice, g, id, "its main process (pid 100) has ended"), connect.CodeFailedPrecondition, "host h1: its main process (pid 100) has ended")
}

func TestWhoMaySendWhichSignals(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	g := c.watchful(t)
	id, alice := c.engine(t), c.visit(t, "alice")
	reserved := alice.mustAllocate(t, "h1", "alice")
	ended := alice.mustAllocate(t, "h1", "alice")
	if _, err := alice.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: ended}); err != nil {
		t.Fatal(err)
	}
	bobs := c.visit(t, "root").mustAllocate(t, "h1", "bob")
	elsewhere := c.visit(t, "agent2", identity.Actor{Name: "alice@h2", Users: []string{"alice"}, Role: identity.Submitter, Host: "h2"})
	for name, call := range map[string]struct {
		by     *visitor
		id     string
		signal bursarv1.Signal
		code   connect.Code
		words  string
	}{
		"a reader":                {c.visit(t, "reader"), id, 2, connect.CodePermissionDenied, "want"},
		"an agent for itself":     {c.visit(t, "agent1"), id, 2, connect.CodePermissionDenied, "want"},
		"another's":               {alice, bobs, 2, connect.CodePermissionDenied, "alice may not send a signal to the engine of allocation " + bobs + " of user bob"},
		"through another's agent": {elsewhere, id, 2, connect.CodePermissionDenied, "it is not on host h2"},
		"a reservation":           {alice, reserved, 2, connect.CodeFailedPrecondition, "want an engine that has begun"},
		"one that has ended":      {alice, ended, 2, connect.CodeFailedPrecondition, "want an engine that runs"},
		"one that never was":      {alice, "0000000000001", 2, connect.CodeNotFound, "no such allocation"},
		"no id":                   {alice, "x!", 2, connect.CodeInvalidArgument, "id"},
		"no signal":               {alice, id, 0, connect.CodeInvalidArgument, "signal"},
		"KILL":                    {alice, id, 9, connect.CodeInvalidArgument, "signal"},
		"STOP":                    {alice, id, 19, connect.CodeInvalidArgument, "signal"},
	} {
		_, err := call.by.engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: call.id, Signal: call.signal})
		expect(t, name, err, call.code, call.words)
	}
	select {
	case order := <-g.orders:
		t.Errorf("the agent got %v", order)
	default:
	}
}

// The audit log says who has sent which signal, and who was refused.
func TestSignalsAreWrittenDown(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	g, id := c.watchful(t), c.engine(t)
	if err := signaled(t, c.visit(t, "alice"), g, id, ""); err != nil {
		t.Fatal(err)
	}
	_, _ = c.visit(t, "reader").engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: id, Signal: bursarv1.Signal_SIGNAL_INT})
	c.stop() // all records are in the file then
	var got []string
	for _, r := range c.records(t) {
		if strings.HasSuffix(r.Procedure, "/Signal") {
			got = append(got, strings.Join([]string{r.Actor, r.Target, r.Code}, " | "))
		}
	}
	want := []string{"alice | allocation " + id + ", SIGNAL_USR1 | ok", "reader |  | permission_denied"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A stop does not wait for the next heartbeat of an agent that is attached. Releasing an engine
// that its agent has launched is a stop, too.
func TestStopsAreOrderedAtOnce(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	alice := c.visit(t, "alice")
	for name, end := range map[string]func(id string) error{
		"Stop": func(id string) error {
			_, err := alice.allocations.Stop(t.Context(), &bursarv1.StopRequest{Id: id, Reason: "enough"})
			return err
		},
		"Release": func(id string) error {
			_, err := alice.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: id, Reason: "enough"})
			return err
		},
	} {
		if err := end(c.engine(t)); err != nil {
			t.Errorf("%s without an agent that is attached: %v", name, err)
		}
		g := c.watchful(t)
		id := c.engine(t)
		if err := end(id); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		order := g.next(t)
		if stop := order.GetStop(); stop.GetAllocationId() != id || stop.GetReason() != "enough" || stop.GetGrace().AsDuration() != 10*time.Second || order.GetEpoch() == 0 {
			t.Errorf("%s: the order is %v", name, order)
		}
		reserved := alice.mustAllocate(t, "h1", "alice")
		if err := end(reserved); err != nil {
			t.Errorf("%s of a reservation: %v", name, err)
		}
		select {
		case order := <-g.orders:
			t.Errorf("%s of a reservation: the agent got %v", name, order)
		default:
		}
	}
}

// An agent that a newer one has replaced says nothing of an order to the newer one, and neither
// does an answer about another allocation.
func TestOnlyTheNewestAgentAnswersASignal(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	id, other := c.engine(t), c.engine(t)
	alice := c.visit(t, "alice")
	g := c.watchful(t)
	done := make(chan error, 1)
	go func() {
		_, err := alice.engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: id, Signal: bursarv1.Signal_SIGNAL_USR1})
		done <- err
	}()
	order := g.next(t).GetSignal()
	answer := func(incarnation uint64, id, problem string) error {
		_, err := g.hosts.Answer(t.Context(), &bursarv1.AnswerRequest{
			HostId: "h1", Incarnation: incarnation, AllocationId: id, Number: order.GetNumber(),
			Result: &bursarv1.AnswerRequest_Signaled{Signaled: &bursarv1.SignalDone{Problem: problem}},
		})
		return err
	}
	expect(t, "an older agent", answer(0, id, "older"), connect.CodeAborted, "incarnation 0")
	if err := errors.Join(answer(1, other, "another allocation"), answer(1, id, "this one")); err != nil {
		t.Error(err)
	}
	expect(t, "its answer", <-done, connect.CodeFailedPrecondition, "host h1: this one")
}

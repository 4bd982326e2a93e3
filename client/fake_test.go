package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/admission"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// calls counts the calls of a fake server.
type calls struct {
	mu  sync.Mutex
	log []string
}

func (c *calls) addf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.log...)
}

// fakeAllocations answers with its functions; the zero value grants every request.
type fakeAllocations struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	calls    calls
	allocate func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error)
	confirm  func(context.Context, *bursarv1.ConfirmRequest) error
	release  func(context.Context, *bursarv1.ReleaseRequest) error
	watch    func(context.Context, *bursarv1.AllocationServiceWatchRequest, *connect.ServerStream[bursarv1.AllocationServiceWatchResponse]) error
	list     func(*bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error)
}

func (f *fakeAllocations) Allocate(ctx context.Context, req *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	f.calls.addf("allocate")
	if f.allocate != nil {
		return f.allocate(ctx, req)
	}
	return granted(req), nil
}

// lostThenRefused accepts a request and breaks the connection, and is then overloaded for longer
// than any caller waits.
func lostThenRefused() func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	var asked atomic.Int32
	return func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		return nil, admission.Refusal(errors.New("too many requests"), time.Minute)
	}
}

func granted(req *bursarv1.AllocateRequest) *bursarv1.AllocateResponse {
	return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{
		Id: "a1", RequestId: req.GetRequestId(), Labels: req.GetLabels(), Requested: req.GetResource(), Entitled: req.GetResource(),
		State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, HostId: "host-1",
	}}
}

func (f *fakeAllocations) Confirm(ctx context.Context, req *bursarv1.ConfirmRequest) (*bursarv1.ConfirmResponse, error) {
	f.calls.addf("confirm %s", req.GetId())
	if f.confirm != nil {
		if err := f.confirm(ctx, req); err != nil {
			return nil, err
		}
	}
	return &bursarv1.ConfirmResponse{Allocation: &bursarv1.Allocation{
		Id: req.GetId(), State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Process: req.GetProcess(),
	}}, nil
}

func (f *fakeAllocations) Release(ctx context.Context, req *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	f.calls.addf("release %s %v", req.GetId(), ended(req.GetExitStatus()))
	if f.release != nil {
		if err := f.release(ctx, req); err != nil {
			return nil, err
		}
	}
	return &bursarv1.ReleaseResponse{Allocation: &bursarv1.Allocation{
		Id: req.GetId(), State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, ExitStatus: req.GetExitStatus(),
	}}, nil
}

func ended(status *bursarv1.ExitStatus) string {
	switch {
	case status == nil:
		return "unknown"
	case status.GetSignal() != 0:
		return fmt.Sprintf("signal %d", status.GetSignal())
	default:
		return fmt.Sprintf("code %d", status.GetCode())
	}
}

func (f *fakeAllocations) Cancel(_ context.Context, req *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	f.calls.addf("cancel %s%s", req.GetId(), req.GetRequestId())
	return &bursarv1.CancelResponse{}, nil
}

func (f *fakeAllocations) Watch(
	ctx context.Context, req *bursarv1.AllocationServiceWatchRequest,
	stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
) error {
	f.calls.addf("watch %d", req.GetAfterRevision())
	return f.watch(ctx, req, stream)
}

func (f *fakeAllocations) List(
	_ context.Context, req *bursarv1.AllocationServiceListRequest,
) (*bursarv1.AllocationServiceListResponse, error) {
	return f.list(req)
}

// serve listens on a socket until stop is called and returns its path.
func serve(dir string, fake *fakeAllocations) (socket string, stop func(), err error) {
	socket = filepath.Join(dir, "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(fake))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return socket, func() {
		_ = server.Close()
		<-done
	}, nil
}

// newClient returns a client of a fake on a socket.
func newClient(t *testing.T, fake *fakeAllocations, opts ...client.Option) *client.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	socket, stop, err := serve(dir, fake)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(socket, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		stop()
		_ = os.RemoveAll(dir)
	})
	return c
}

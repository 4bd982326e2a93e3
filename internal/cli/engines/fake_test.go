package engines

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const fakeID = "0000000000001"

// fake is a coordinator with one engine, which ends when end is called.
type fake struct {
	bursarv1connect.UnimplementedEngineServiceHandler
	bursarv1connect.UnimplementedAllocationServiceHandler

	url    string
	output map[bursarv1.OutputStream]string
	// list is what List has, whatever it is asked for: as an older coordinator.
	list []*bursarv1.Allocation
	// Each may be set.
	onStart  func(context.Context, *bursarv1.StartRequest) error
	onLogs   func(*bursarv1.LogsRequest, *connect.ServerStream[bursarv1.LogsResponse]) error
	onSignal func(bursarv1.Signal) error
	onCancel func() error
	onGet    func()
	onRead   func(*bursarv1.AllocationServiceGetRequest) *bursarv1.Allocation
	onWait   func(context.Context, *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error)

	mu      sync.Mutex
	engine  *bursarv1.Allocation
	start   *bursarv1.StartRequest
	asked   []string
	news    chan struct{} // closed at the next call
	ended   chan struct{}
	reading sync.Once
	read    chan struct{} // closed when the output is read
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{ended: make(chan struct{}), news: make(chan struct{}), read: make(chan struct{}), output: make(map[bursarv1.OutputStream]string)}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewEngineServiceHandler(f))
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(f))
	served := httptest.NewServer(mux)
	t.Cleanup(served.Close)
	f.url = served.URL
	return f
}

func (f *fake) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	close(f.news)
	f.news = make(chan struct{})
}

// await waits until a call was made.
func (f *fake) await(t *testing.T, what string) {
	for !f.was(what) {
		f.mu.Lock()
		news := f.news
		f.mu.Unlock()
		if f.was(what) {
			return
		}
		select {
		case <-news:
		case <-t.Context().Done():
			return
		}
	}
}

func (f *fake) was(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.asked, what)
}

// end ends the engine.
func (f *fake) end(status *bursarv1.ExitStatus, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine == nil {
		f.engine = &bursarv1.Allocation{Id: fakeID}
	}
	if f.engine.GetEndTime() != nil {
		return
	}
	f.engine = &bursarv1.Allocation{
		Id: fakeID, State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, EndTime: timestamppb.Now(), ExitStatus: status, Reason: reason,
		Launch: &bursarv1.Launch{LogDirectory: "/logs"},
	}
	close(f.ended)
}

func (f *fake) begun() *bursarv1.Allocation {
	return &bursarv1.Allocation{Id: fakeID, State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, HostId: "h1", Launch: &bursarv1.Launch{LogDirectory: "/logs"}}
}

func (f *fake) Start(ctx context.Context, req *bursarv1.StartRequest) (*bursarv1.StartResponse, error) {
	f.note("start")
	f.mu.Lock()
	f.start = req
	if f.engine == nil && f.onStart == nil {
		f.engine = f.begun()
	}
	f.mu.Unlock()
	if f.onStart != nil {
		if err := f.onStart(ctx, req); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &bursarv1.StartResponse{Allocation: f.engine}, nil
}

func (f *fake) Get(_ context.Context, req *bursarv1.AllocationServiceGetRequest) (*bursarv1.AllocationServiceGetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onGet != nil {
		f.onGet()
	}
	if f.onRead != nil {
		return &bursarv1.AllocationServiceGetResponse{Allocation: f.onRead(req)}, nil
	}
	if f.engine == nil {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such allocation"))
	}
	return &bursarv1.AllocationServiceGetResponse{Allocation: f.engine}, nil
}

func (f *fake) List(_ context.Context, req *bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
	if req.GetIdPrefix() != "" {
		return &bursarv1.AllocationServiceListResponse{}, nil
	}
	return &bursarv1.AllocationServiceListResponse{Allocations: f.list}, nil
}

func (f *fake) Wait(ctx context.Context, req *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
	if f.onWait != nil {
		return f.onWait(ctx, req)
	}
	select {
	case <-f.ended:
		f.mu.Lock()
		defer f.mu.Unlock()
		return &bursarv1.WaitResponse{Allocation: f.engine}, nil
	case <-time.After(req.GetTimeout().AsDuration()):
		return &bursarv1.WaitResponse{Allocation: f.begun(), TimedOut: true}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fake) Logs(ctx context.Context, req *bursarv1.LogsRequest, stream *connect.ServerStream[bursarv1.LogsResponse]) error {
	f.note("logs")
	if f.onLogs != nil {
		if err := f.onLogs(req, stream); err != nil {
			return err
		}
	}
	text := f.output[req.GetStream()]
	from := min(int(req.GetOffset()), len(text))
	if from < len(text) {
		if err := stream.Send(&bursarv1.LogsResponse{NextOffset: int64(len(text)), Piece: &bursarv1.LogsResponse_Data{Data: []byte(text[from:])}}); err != nil {
			return err
		}
	}
	f.reading.Do(func() { close(f.read) })
	if req.GetFollow() {
		select {
		case <-f.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return stream.Send(&bursarv1.LogsResponse{NextOffset: int64(len(text)), Piece: &bursarv1.LogsResponse_End{End: &bursarv1.LogsEnd{}}})
}

func (f *fake) Signal(_ context.Context, req *bursarv1.SignalRequest) (*bursarv1.SignalResponse, error) {
	f.note("signal " + req.GetSignal().String())
	if f.onSignal != nil {
		return &bursarv1.SignalResponse{}, f.onSignal(req.GetSignal())
	}
	return &bursarv1.SignalResponse{}, nil
}

func (f *fake) Stop(_ context.Context, req *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	f.note("stop: " + req.GetReason())
	f.end(&bursarv1.ExitStatus{Signal: 15}, "stopped: "+req.GetReason())
	return &bursarv1.StopResponse{}, nil
}

func (f *fake) Cancel(_ context.Context, req *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	f.note("cancel: " + req.GetReason())
	if f.onCancel != nil {
		return &bursarv1.CancelResponse{}, f.onCancel()
	}
	return &bursarv1.CancelResponse{}, nil
}

// run runs one command line against the coordinator.
func (f *fake) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("BURSAR_ADDR", f.url)
	dir := t.TempDir()
	var files []*os.File
	for _, name := range []string{"in", "out", "err"} {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, file)
	}
	c := cmdline.New(cmdline.Streams{In: files[0], Out: files[1], Err: files[2]}, "test")
	root := &cobra.Command{Use: "bursar", SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { c.Flags = cmd.Flags() }}
	root.PersistentFlags().StringVarP(&c.Form, "output", "o", render.OutputTable, "")
	root.AddCommand(Commands(c)...)
	root.AddGroup(cmdline.Groups()...)
	root.SetArgs(args)
	root.SetErr(io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := root.ExecuteContext(ctx)
	c.End(ctx)
	err = c.Outcome(err)
	c.Report(err)
	var texts [3]string
	for i, file := range files {
		content, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(content)
	}
	return failure.ExitCode(err), texts[1], texts[2]
}

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// lossy is an agent that loses the first answers to some calls, and has too much to do afterwards.
// It answers all other calls.
type lossy struct {
	bursarv1connect.UnimplementedAllocationServiceHandler
	bursarv1connect.UnimplementedEngineServiceHandler

	loses []string // the calls whose first answer is lost
	// busy are the calls that it has too much to do for, after that.
	busy   []string
	mu     sync.Mutex
	called []string // guarded by mu
	ids    []string // guarded by mu; request ids of Allocate and Cancel
}

func (l *lossy) call(name string) error {
	l.mu.Lock()
	first := !slices.Contains(l.called, name)
	l.called = append(l.called, name)
	l.mu.Unlock()
	switch {
	case first && slices.Contains(l.loses, name):
		panic(http.ErrAbortHandler)
	case slices.Contains(l.busy, name):
		return admission.Refusal(errors.New("too many requests"), time.Minute)
	}
	return nil
}

func (l *lossy) named(requestID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, requestID)
}

func (l *lossy) Allocate(_ context.Context, q *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	l.named(q.GetRequestId())
	return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{Id: "a1"}}, l.call("allocate")
}

func (l *lossy) Cancel(_ context.Context, q *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	l.named(q.GetRequestId())
	return &bursarv1.CancelResponse{}, l.call("cancel")
}

func (l *lossy) Release(context.Context, *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	return &bursarv1.ReleaseResponse{}, l.call("release")
}

func (l *lossy) Stop(context.Context, *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	return &bursarv1.StopResponse{}, l.call("stop")
}

func (l *lossy) Launch(context.Context, *bursarv1.LaunchRequest) (*bursarv1.LaunchResponse, error) {
	return &bursarv1.LaunchResponse{}, l.call("launch")
}

// run runs a command line at that agent and returns its exit code.
func (l *lossy) run(t *testing.T, args ...string) int {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(l))
	mux.Handle(bursarv1connect.NewEngineServiceHandler(l))
	server := httptest.NewServer(mux)
	defer server.Close()
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	args = slices.Insert(args, 1, "--agent", server.URL, "-m", "1MiB")
	return execute(t.Context(), args, cmdline.Streams{In: nothing, Out: nothing, Err: nothing})
}

// Nobody can ask for a request again if only the program knew its id.
func TestARequestWhoseAnswerWasLostIsCanceledUnlessItCanBeRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		loses []string
		want  []string
	}{
		"lost":               {[]string{"allocate"}, []string{"allocate"}, []string{"allocate", "allocate", "cancel"}},
		"lost, not to wait":  {[]string{"allocate", "--async", "--wait", "1h"}, []string{"allocate"}, []string{"allocate", "allocate", "cancel"}},
		"lost, for a launch": {[]string{"run", "--detach", "true"}, []string{"allocate"}, []string{"allocate", "allocate", "cancel"}},
		"lost, with an id":   {[]string{"allocate", "--request-id", "mine"}, []string{"allocate"}, []string{"allocate", "allocate"}},
		"refused":            {[]string{"allocate"}, nil, []string{"allocate"}},
	} {
		l := &lossy{loses: c.loses, busy: []string{"allocate"}}
		if code := l.run(t, c.args...); code != failure.ExitNoResources {
			t.Errorf("%s: exit code %d", name, code)
		}
		if diff := cmp.Diff(c.want, l.called); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(slices.Compact(l.ids)) != 1 {
			t.Errorf("%s: request ids %q: want one", name, l.ids)
		}
	}
}

// If the answer was lost, the command may run: a release would leave it running without its
// allocation.
func TestALaunchWhoseAnswerWasLostIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		loses []string
		want  []string
	}{
		"lost":    {[]string{"launch"}, []string{"allocate", "launch", "launch", "stop"}},
		"refused": {nil, []string{"allocate", "launch", "release"}},
	} {
		l := &lossy{loses: c.loses, busy: []string{"launch"}}
		if code := l.run(t, "run", "--detach", "true"); code != failure.ExitNoResources {
			t.Errorf("%s: exit code %d", name, code)
		}
		if diff := cmp.Diff(c.want, l.called); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

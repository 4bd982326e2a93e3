package engines

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// While the answer to Start does not come, the engine is looked for: without a readiness, too.
func TestAnEngineIsSeenWithoutTheAnswerToItsStart(t *testing.T) {
	f := newFake(t)
	f.output[stdoutStream] = "works\n"
	f.onStart = func(ctx context.Context, _ *bursarv1.StartRequest) error {
		f.mu.Lock()
		f.engine = f.begun()
		f.mu.Unlock()
		select {
		case <-f.read:
		case <-time.After(20 * time.Second):
			t.Error("nobody has read its output")
		case <-ctx.Done():
			return ctx.Err()
		}
		f.end(&bursarv1.ExitStatus{Code: new(int32(4))}, "process ended")
		return nil
	}
	if code, stdout, stderr := f.run(t, remoteArgs()...); code != 4 || stdout != "works\n" {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

// remoteOf is a remote command of a coordinator that has begun nothing.
func remoteOf(t *testing.T, f *fake) (r *remote, stderr func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "err"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	cl, err := client.New(f.url, client.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	c := cmdline.New(cmdline.Streams{In: file, Out: file, Err: file}, "test")
	r = &remote{c: c, cl: cl, grace: time.Second, req: &bursarv1.StartRequest{Request: &bursarv1.AllocateRequest{RequestId: "req-1"}}}
	return r, func() string {
		said, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
}

// The command ends with no answer to its Start: it stops what may run, or says where to look.
func TestACommandThatGivesUpLeavesNoEngineUnsaid(t *testing.T) {
	lost := func(code connect.Code) error { return connect.NewError(code, errors.New("lost")) }
	wire := func(code connect.Code) error {
		f := newFake(t)
		f.onCancel = func() error { return lost(code) }
		r, _ := remoteOf(t, f)
		_, err := r.cl.Allocations().Cancel(t.Context(), &bursarv1.CancelRequest{RequestId: "x"})
		return err
	}
	for _, code := range []connect.Code{connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeResourceExhausted, connect.CodeInternal} {
		for name, test := range map[string]struct {
			cancel error
			begun  bool
			words  string
		}{
			"canceled":         {nil, false, ""},
			"unknown":          {lost(connect.CodeNotFound), false, ""},
			"active":           {lost(connect.CodeFailedPrecondition), true, ""},
			"nobody answers":   {lost(connect.CodeUnavailable), false, "the engine may run: see bursar allocations req-1"},
			"not seen":         {lost(connect.CodeFailedPrecondition), false, "the engine may run: see bursar allocations req-1"},
			"is not to cancel": {lost(connect.CodePermissionDenied), false, "the engine may run: see bursar allocations req-1"},
		} {
			f := newFake(t)
			f.onCancel = func() error { return test.cancel }
			if test.begun {
				f.engine = f.begun()
			}
			r, said := remoteOf(t, f)
			err := wire(code)
			if got := r.notStarted(t.Context(), started{err: err}); !errors.Is(got, err) {
				t.Errorf("%s, %s: %v", code, name, got)
			}
			if !f.was("cancel: its answer was lost") || f.was("stop: its answer was lost") != test.begun {
				t.Errorf("%s, %s: asked %q", code, name, f.asked)
			}
			if text := said(); !strings.Contains(text, test.words) || test.words == "" && text != "" {
				t.Errorf("%s, %s: said %q", code, name, text)
			}
		}
	}
	f := newFake(t)
	r, _ := remoteOf(t, f)
	_ = r.notStarted(t.Context(), started{err: wire(connect.CodeInvalidArgument)})
	if len(f.asked) != 0 {
		t.Errorf("a refused request asks %q", f.asked)
	}
}

// A signal that is refused is told, once. One that comes after the engine's end is not.
func TestARefusedSignalIsTold(t *testing.T) {
	f := newFake(t)
	f.onSignal = func(bursarv1.Signal) error {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("no agent knows its process"))
	}
	go func() {
		<-f.read
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGUSR1} {
			signalSelf(t, sig)
			f.await(t, "signal SIGNAL_"+strings.TrimPrefix(map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGUSR1: "SIGUSR1"}[sig], "SIG"))
		}
		signalSelf(t, syscall.SIGTERM) // it stops
	}()
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 143 || strings.Count(stderr, "was not passed on") != 2 || !strings.Contains(stderr, "stops the engine: SIGTERM") || !strings.Contains(stderr, "SIGINT was not passed on: ") ||
		!strings.Contains(stderr, "no agent knows its process; a second Ctrl-C within") {
		t.Errorf("code %d, %q", code, stderr)
	}
	f = newFake(t)
	f.onSignal = func(bursarv1.Signal) error {
		f.end(&bursarv1.ExitStatus{Code: new(int32(3))}, "process ended")
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("it has ended"))
	}
	go func() {
		<-f.read
		signalSelf(t, syscall.SIGTERM)
	}()
	if code, _, stderr := f.run(t, remoteArgs()...); code != 3 || stderr != "" && strings.Contains(stderr, "passed on") {
		t.Errorf("after its end: code %d, %q", code, stderr)
	}
}

// Nobody has ever been at the address: there is nothing to wait for, and nothing to give back.
func TestAnAddressWhereNobodyIsEndsAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{url: "http://" + listener.Addr().String()}
	_ = listener.Close()
	for _, args := range [][]string{remoteArgs(), {"wait", fakeID}, {"logs", "-f", fakeID}, {"submit", "-m", "1MiB", "--", "job"}} {
		began := time.Now()
		code, _, stderr := f.run(t, args...)
		if took := time.Since(began); code != 69 || took > 6*time.Second || !strings.Contains(stderr, "connection refused") || strings.Contains(stderr, "may run") {
			t.Errorf("%v: code %d after %s, %q", args, code, took, stderr)
		}
	}
}

package engines

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	stdoutStream = bursarv1.OutputStream_OUTPUT_STREAM_STDOUT
	stderrStream = bursarv1.OutputStream_OUTPUT_STREAM_STDERR
)

func remoteArgs(more ...string) []string {
	return append(append([]string{"run", "--remote", "-m", "1MiB", "-l", "user=alice"}, more...), "--", "job", "x")
}

// signalSelf signals this process, as a terminal does.
func signalSelf(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Error(err)
	}
}

func TestARemoteCommandShowsItsOutputAndEndsWithItsCode(t *testing.T) {
	f := newFake(t)
	f.output[stdoutStream], f.output[stderrStream] = "out\x00\xff\n", "err\x1b[31m\n"
	go func() {
		<-f.read
		f.end(&bursarv1.ExitStatus{Code: new(int32(7))}, "process ended")
	}()
	copied := filepath.Join(t.TempDir(), "copy")
	code, stdout, stderr := f.run(t, remoteArgs("-o", copied, "--env", "A=b", "--name", "n", "--require", "zone in (a,b)")...)
	if code != 7 || stdout != "out\x00\xff\n" || stderr != "err\x1b[31m\n" {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	if content, err := os.ReadFile(copied); err != nil || string(content) != stdout {
		t.Errorf("the copy: %q, %v", content, err)
	}
	launch, request := f.start.GetLaunch(), f.start.GetRequest()
	if launch.GetAccount() != "alice" || strings.Join(launch.GetCommand(), " ") != "job x" || launch.GetEnvironment()["A"] != "b" ||
		request.GetName() != "n" || strings.Join(request.GetHost().GetRequiredRules(), ";") != "zone in (a,b)" || request.GetAsync() {
		t.Errorf("asked for %v", f.start)
	}
}

func TestARemoteCommandIsEndedByASignal(t *testing.T) {
	f := newFake(t)
	go func() {
		<-f.read
		f.end(&bursarv1.ExitStatus{Signal: 9}, "killed by SIGKILL")
	}()
	if code, _, _ := f.run(t, remoteArgs()...); code != 137 {
		t.Errorf("code %d", code)
	}
}

// Secrets go with the call, and nowhere else.
func TestSecretsComeFromTheEnvironment(t *testing.T) {
	t.Setenv("KEY", "hunter2")
	f := newFake(t)
	f.end(&bursarv1.ExitStatus{Code: new(int32(0))}, "process ended")
	code, _, stderr := f.run(t, remoteArgs("--secret", "KEY")...)
	if code != 0 || f.start.GetSecrets()["KEY"] != "hunter2" || len(f.start.GetLaunch().GetEnvironment()) != 0 {
		t.Errorf("code %d, %v, %q", code, f.start, stderr)
	}
	for _, args := range [][]string{{"--secret", "KEY=hunter2"}, {"--secret", "NOSUCH"}, {"--secret", "KEY", "--env", "KEY"}, {"--secret", ""}} {
		if code, _, stderr := f.run(t, remoteArgs(args...)...); code != 64 || strings.Contains(stderr, "hunter2") {
			t.Errorf("%q: code %d, %q", args, code, stderr)
		}
	}
}

func TestSignalsArePassedOnToAnotherHost(t *testing.T) {
	f := newFake(t)
	f.onSignal = func(sig bursarv1.Signal) error {
		if sig == bursarv1.Signal_SIGNAL_TERM {
			f.end(&bursarv1.ExitStatus{Code: new(int32(3))}, "process ended")
		}
		return nil
	}
	go func() {
		<-f.read
		for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM} {
			if signal.Ignored(sig) { // as SIGHUP is below nohup: then a command ignores it, too
				continue
			}
			signalSelf(t, sig)
			f.await(t, "signal SIGNAL_"+strings.TrimPrefix(signalName(sig), "SIG"))
		}
	}()
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 3 || !strings.Contains(stderr, "passed SIGINT on to the engine") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestASecondInterruptStopsTheEngine(t *testing.T) {
	f := newFake(t)
	go func() {
		<-f.read
		signalSelf(t, syscall.SIGINT)
		f.await(t, "signal SIGNAL_INT")
		signalSelf(t, syscall.SIGINT)
	}()
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 143 || !f.was("stop: interrupted twice") {
		t.Errorf("code %d, %q, asked %q", code, stderr, f.asked)
	}
}

// An older coordinator or agent passes no signals on.
func TestASignalThatNobodyCanSendStops(t *testing.T) {
	f := newFake(t)
	f.onSignal = func(bursarv1.Signal) error { return connect.NewError(connect.CodeUnimplemented, errors.New("too old")) }
	go func() {
		<-f.read
		signalSelf(t, syscall.SIGTERM)
	}()
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 143 || !f.was("stop: its caller got SIGTERM") {
		t.Errorf("code %d, %q, asked %q", code, stderr, f.asked)
	}
}

func TestAnInterruptBeforeTheBeginGivesUp(t *testing.T) {
	f := newFake(t)
	f.onStart = func(ctx context.Context, _ *bursarv1.StartRequest) error {
		signalSelf(t, syscall.SIGINT)
		<-ctx.Done()
		return ctx.Err()
	}
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 130 || !f.was("cancel: interrupted") {
		t.Errorf("code %d, %q, asked %q", code, stderr, f.asked)
	}
}

// A host with an older agent has no output to show: the end is waited for all the same.
func TestWithoutOutputTheEndIsWaitedFor(t *testing.T) {
	for _, code := range []connect.Code{connect.CodeUnimplemented, connect.CodeFailedPrecondition} {
		f := newFake(t)
		f.onLogs = func(*bursarv1.LogsRequest, *connect.ServerStream[bursarv1.LogsResponse]) error {
			f.reading.Do(func() { close(f.read) })
			return connect.NewError(code, errors.New("the agent is too old"))
		}
		go func() {
			<-f.read
			f.end(&bursarv1.ExitStatus{Code: new(int32(5))}, "process ended")
		}()
		exit, stdout, stderr := f.run(t, remoteArgs()...)
		if exit != 5 || stdout != "" || strings.Count(stderr, "the agent is too old") != 1 {
			t.Errorf("%s: code %d, %q, %q", code, exit, stdout, stderr)
		}
	}
}

// With a readiness, Start answers late. The output does not wait for it.
func TestOutputComesBeforeTheEngineIsReady(t *testing.T) {
	f := newFake(t)
	f.output[stdoutStream] = "loading\n"
	f.onStart = func(ctx context.Context, _ *bursarv1.StartRequest) error {
		f.mu.Lock()
		f.engine = f.begun()
		f.mu.Unlock()
		<-f.read
		f.end(&bursarv1.ExitStatus{Code: new(int32(9))}, "process ended")
		failed := connect.NewError(connect.CodeFailedPrecondition, errors.New("the engine did not start"))
		if detail, err := connect.NewErrorDetail(f.engine); err == nil {
			failed.AddDetail(detail)
		}
		return failed
	}
	code, stdout, stderr := f.run(t, remoteArgs("--ready-port", "8080")...)
	if code != 9 || stdout != "loading\n" || !strings.Contains(stderr, "did not start") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestAnEngineThatCannotStartSaysWhy(t *testing.T) {
	f := newFake(t)
	f.onStart = func(context.Context, *bursarv1.StartRequest) error {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("the engine did not start: on host h1: no such program"))
	}
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 1 || !strings.Contains(stderr, "on host h1: no such program") || f.was("logs") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// A program that no host could execute ends it as it would end a shell.
func TestAProgramThatIsNotThereHasTheCodeOfAShell(t *testing.T) {
	for fault, want := range map[bursarv1.LaunchFault]int{
		bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND: 127, bursarv1.LaunchFault_LAUNCH_FAULT_NOT_EXECUTABLE: 126, bursarv1.LaunchFault_LAUNCH_FAULT_UNSPECIFIED: 1,
	} {
		f := newFake(t)
		f.onStart = func(context.Context, *bursarv1.StartRequest) error {
			failed := connect.NewError(connect.CodeFailedPrecondition, errors.New("the engine did not start: no such program"))
			detail, err := connect.NewErrorDetail(neverBegan(fault))
			if err != nil {
				return err
			}
			failed.AddDetail(detail)
			return failed
		}
		if code, _, stderr := f.run(t, remoteArgs()...); code != want || !strings.Contains(stderr, "no such program") {
			t.Errorf("%s: code %d, %q; want %d", fault, code, stderr, want)
		}
	}
}

// A Start whose answer is lost is repeated under the same request id.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	f := newFake(t)
	var ids []string
	f.onStart = func(_ context.Context, req *bursarv1.StartRequest) error {
		if ids = append(ids, req.GetRequest().GetRequestId()); len(ids) < 3 {
			return connect.NewError(connect.CodeUnavailable, errors.New("no coordinator leads"))
		}
		f.end(&bursarv1.ExitStatus{Code: new(int32(0))}, "process ended")
		return nil
	}
	code, _, stderr := f.run(t, remoteArgs()...)
	if code != 0 || len(ids) != 3 || ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("code %d, %q, ids %q", code, stderr, ids)
	}
}

func signalName(sig syscall.Signal) string {
	return map[syscall.Signal]string{
		syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT", syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM",
	}[sig]
}

// The engine lives on without its main process, as one does that has started a daemon.
func TestRemoteSaysThatOthersGoOn(t *testing.T) {
	for _, test := range []struct{ args, words []string }{
		{[]string{"run", "--remote", "-m", "1MiB", "--", "job"}, []string{"has ended (code 3)", "still run", "Ctrl-C twice", "bursar stop " + fakeID}},
		{[]string{"wait", fakeID}, []string{"has ended (code 3)", "still run", "bursar stop " + fakeID}},
	} {
		f := newFake(t)
		f.onWait = func(_ context.Context, req *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
			if req.GetLeaderEnd() {
				a := f.begun()
				a.LeaderEnd = &bursarv1.LeaderEnd{ExitStatus: &bursarv1.ExitStatus{Code: new(int32(3))}}
				return &bursarv1.WaitResponse{Allocation: a}, nil
			}
			f.end(&bursarv1.ExitStatus{Code: new(int32(3))}, "")
			return &bursarv1.WaitResponse{Allocation: f.engine}, nil
		}
		code, _, stderr := f.run(t, test.args...)
		for _, words := range test.words {
			if code != 3 || strings.Count(stderr, words) != 1 {
				t.Errorf("%v: code %d, %q; want once %q", test.args, code, stderr, words)
			}
		}
	}
}

// An old file stays as it was if nothing has begun, and no new one is left.
func TestTheLocalCopyBeginsWithTheEngine(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "fresh")
	for _, test := range []struct {
		file, want string
		fails      bool
	}{{old, "what was there before", true}, {fresh, "", true}, {old, "new\n", false}, {fresh, "new\n", false}} {
		if test.file == old {
			if err := os.WriteFile(old, []byte("what was there before"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := newFake(t)
		f.output[stdoutStream] = "new\n"
		if test.fails {
			f.onStart = func(context.Context, *bursarv1.StartRequest) error {
				return connect.NewError(connect.CodePermissionDenied, errors.New("not yours"))
			}
		} else {
			go func() {
				<-f.read
				f.end(&bursarv1.ExitStatus{Code: new(int32(0))}, "")
			}()
		}
		code, _, stderr := f.run(t, remoteArgs("-o", test.file)...)
		content, err := os.ReadFile(test.file)
		if (code == 0) == test.fails || string(content) != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%+v: code %d, %q, %v, %q", test, code, content, err, stderr)
		}
	}
}

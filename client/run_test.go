package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

func request() *bursarv1.AllocateRequest {
	cpu := int64(500)
	return &bursarv1.AllocateRequest{RequestId: "r1", Resource: &bursarv1.Resource{MemoryBytes: memory(1 << 20).MemoryBytes, CpuMillis: &cpu}}
}

// phase returns the phase in which Run failed; empty if it did not fail by a RunError.
func phase(err error) client.Phase {
	if runErr, ok := errors.AsType[*client.RunError](err); ok {
		return runErr.Phase
	}
	return ""
}

func TestRunTakesAProcessThroughItsAllocation(t *testing.T) {
	fake := &fakeAllocations{}
	command := exec.Command("sh", "-c", "echo $BURSAR_ALLOCATION_ID $BURSAR_MEMORY_BYTES $BURSAR_CPU_MILLIS; exit 3")
	var out bytes.Buffer
	command.Stdout = &out
	var story []string
	result, err := newClient(t, fake).Run(t.Context(), client.RunOptions{
		Request: request(), Command: command,
		Granted: func(a *bursarv1.Allocation) { story = append(story, "granted "+a.GetId()) },
		Started: func(p *os.Process) { story = append(story, fmt.Sprint("started ", p.Pid == command.Process.Pid)) },
		Ending: func() { // its pid, and so its group's number, is its own until it is reaped
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", command.Process.Pid))
			story = append(story, fmt.Sprint("ending ", err == nil && strings.Contains(string(stat), ") Z ")))
		},
		Ended: func(s *os.ProcessState) {
			story = append(story, fmt.Sprint("ended ", s.ExitCode(), len(fake.calls.all())))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(out.String()); got != "a1 1048576 500" {
		t.Errorf("the process was told %q", got)
	}
	if result.State.ExitCode() != 3 || result.Allocation.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
		t.Errorf("got %+v", result)
	}
	if diff := cmp.Diff([]string{"granted a1", "started true", "ending true", "ended 3 2"}, story); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"allocate", "confirm a1", "release a1 code 3"}, fake.calls.all()); diff != "" {
		t.Error(diff)
	}
}

func TestRunConfirmsAProcessThatHasAlreadyEnded(t *testing.T) {
	fake := &fakeAllocations{}
	command := exec.Command("true")
	fake.confirm = func(_ context.Context, req *bursarv1.ConfirmRequest) error {
		// It is not reaped, so that the agent can inspect it and no other process has its pid.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", req.GetProcess().GetPid()))
		for err == nil && !strings.Contains(string(stat), ") Z ") {
			stat, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", req.GetProcess().GetPid()))
		}
		if err != nil {
			return connect.NewError(connect.CodeInternal, err)
		}
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("process has ended"))
	}
	result, err := newClient(t, fake).Run(t.Context(), client.RunOptions{Request: request(), Command: command})
	if err != nil || result.State.ExitCode() != 0 {
		t.Errorf("%+v, %v; want its own end", result, err)
	}
	if diff := cmp.Diff([]string{"allocate", "confirm a1", "release a1 code 0"}, fake.calls.all()); diff != "" {
		t.Error(diff)
	}
}

func TestRunStartsNothingWithoutAGrant(t *testing.T) {
	for name, c := range map[string]struct {
		code connect.Code
		want []string
	}{
		"refused":   {connect.CodeResourceExhausted, []string{"allocate"}},
		"invalid":   {connect.CodeInvalidArgument, []string{"allocate"}},
		"undecided": {connect.CodeUnavailable, []string{"allocate", "cancel r1"}},
	} {
		fake := &fakeAllocations{allocate: func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
			return nil, connect.NewError(c.code, errors.New(name))
		}}
		command := exec.Command("true")
		result, err := newClient(t, fake, client.WithoutRetries()).Run(t.Context(), client.RunOptions{Request: request(), Command: command})
		if phase(err) != client.PhaseAllocate || connect.CodeOf(err) != c.code || command.Process != nil || result.State != nil {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		if diff := cmp.Diff(c.want, fake.calls.all()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRunCancelsARequestThatItsCallerGivesUp(t *testing.T) {
	fake := &fakeAllocations{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fake.allocate = func(ctx context.Context, _ *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	req := request()
	req.Wait = durationpb.New(time.Minute)
	_, err := newClient(t, fake).Run(ctx, client.RunOptions{Request: req, Command: exec.Command("true")})
	if phase(err) != client.PhaseAllocate || connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("%v: want CANCELED", err)
	}
	if diff := cmp.Diff([]string{"allocate", "cancel r1"}, fake.calls.all()); diff != "" {
		t.Error(diff)
	}
}

// The first attempt is received and its answer lost; then the server is overloaded.
func TestRunCancelsWhatItWasRefusedAfterALostAnswer(t *testing.T) {
	fake := &fakeAllocations{allocate: lostThenRefused()}
	_, err := newClient(t, fake).Run(t.Context(), client.RunOptions{Request: request(), Command: exec.Command("true")})
	if phase(err) != client.PhaseAllocate || connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("%v: want RESOURCE_EXHAUSTED", err)
	}
	if diff := cmp.Diff([]string{"allocate", "allocate", "cancel r1"}, fake.calls.all()); diff != "" {
		t.Error(diff)
	}
}

func TestRunAsksForNothingForACommandThatIsNotThere(t *testing.T) {
	fake := &fakeAllocations{}
	_, err := newClient(t, fake).Run(t.Context(), client.RunOptions{Request: request(), Command: exec.Command("no-such-command")})
	if phase(err) != client.PhaseStart || !errors.Is(err, exec.ErrNotFound) || len(fake.calls.all()) != 0 {
		t.Errorf("%v, calls %v", err, fake.calls.all())
	}
}

func TestRunGivesBackWhatItCouldNotStart(t *testing.T) {
	fake := &fakeAllocations{}
	file := t.TempDir() + "/not-a-program"
	if err := os.WriteFile(file, []byte("\x00"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := newClient(t, fake).Run(t.Context(), client.RunOptions{Request: request(), Command: exec.Command(file)})
	if phase(err) != client.PhaseStart {
		t.Errorf("%v: want it to fail at the start", err)
	}
	if diff := cmp.Diff([]string{"allocate", "release a1 unknown"}, fake.calls.all()); diff != "" {
		t.Error(diff)
	}
}

func TestRunStopsAProcessWhoseConfirmIsRefused(t *testing.T) {
	fake := &fakeAllocations{confirm: func(context.Context, *bursarv1.ConfirmRequest) error {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("expired"))
	}}
	for name, c := range map[string]struct {
		script, want string
		grace        time.Duration
	}{
		"obedient": {"exec sleep 60", "release a1 signal 15", time.Minute},
		// It says that it is deaf before it is confirmed.
		"deaf": {"trap '' TERM; echo deaf; sleep 60; sleep 60", "release a1 signal 9", 10 * time.Millisecond},
	} {
		fake.calls = calls{}
		command := exec.Command("sh", "-c", c.script)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		started := func(*os.Process) {}
		if name == "deaf" {
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			started = func(*os.Process) { _, _ = out.Read(make([]byte, 5)) }
		}
		result, err := newClient(t, fake).Run(t.Context(), client.RunOptions{
			Request: request(), Command: command, Started: started, Grace: c.grace,
		})
		if phase(err) != client.PhaseConfirm || result.State == nil {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		if diff := cmp.Diff([]string{"allocate", "confirm a1", c.want}, fake.calls.all()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRunStopsTheProcessWhenItsContextEnds(t *testing.T) {
	fake := &fakeAllocations{}
	ctx, cancel := context.WithCancel(t.Context())
	fake.confirm = func(context.Context, *bursarv1.ConfirmRequest) error {
		time.AfterFunc(0, cancel)
		return nil
	}
	result, err := newClient(t, fake).Run(ctx, client.RunOptions{Request: request(), Command: exec.Command("sleep", "60")})
	if phase(err) != client.PhaseConfirm && err != nil {
		t.Errorf("%v", err)
	}
	if status, _ := result.State.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v: want SIGTERM", result.State)
	}
	if calls := fake.calls.all(); calls[len(calls)-1] != "release a1 signal 15" {
		t.Errorf("calls %q: want the release last", calls)
	}
}

func TestRunTellsARefusedRelease(t *testing.T) {
	fake := &fakeAllocations{release: func(context.Context, *bursarv1.ReleaseRequest) error {
		return connect.NewError(connect.CodeUnavailable, errors.New("gone"))
	}}
	result, err := newClient(t, fake, client.WithoutRetries()).Run(t.Context(), client.RunOptions{Request: request(), Command: exec.Command("false")})
	if phase(err) != client.PhaseRelease || result.State.ExitCode() != 1 {
		t.Errorf("%+v, %v; want the process's end and the error", result, err)
	}
}

// The command has ended, and its shell wants to continue: the agent detects the end by itself.
func TestRunReturnsSoonIfNobodyTakesTheEndOfItsCommand(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, fake := range map[string]*fakeAllocations{
		"at the release": {release: func(ctx context.Context, _ *bursarv1.ReleaseRequest) error { return hang(ctx) }},
		"from the confirmation on": {
			confirm: func(ctx context.Context, _ *bursarv1.ConfirmRequest) error { return hang(ctx) },
			release: func(ctx context.Context, _ *bursarv1.ReleaseRequest) error { return hang(ctx) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			delays, began := proc.Delays(t), time.Now()
			result, err := newClient(t, fake).Run(t.Context(), client.RunOptions{Request: request(), Command: exec.Command("false")})
			if phase(err) != client.PhaseRelease || result.State.ExitCode() != 1 {
				t.Errorf("%+v, %v; want the process's end and the error", result, err)
			}
			if took := time.Since(began); took > 6*time.Second+delays() {
				t.Errorf("it took %s", took)
			}
		})
	}
}

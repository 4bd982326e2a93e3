package engines

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// endedAs is an engine that has ended.
func endedAs(id string, code int32) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: id, State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, EndTime: timestamppb.Now(), ExitStatus: &bursarv1.ExitStatus{Code: new(code)},
	}
}

// neverBegan is an engine whose program no host could execute, the last one for a reason.
func neverBegan(fault bursarv1.LaunchFault) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: fakeID, State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, EndTime: timestamppb.Now(),
		Launch: &bursarv1.Launch{Tries: []*bursarv1.LaunchTry{{HostId: "h1"}, {HostId: "h2", Fault: fault}}},
	}
}

// All are waited for at the same time, and the code is that of the first in the order of the ids.
func TestWaitEndsWithTheFirstCodeThatIsNotZero(t *testing.T) {
	f := newFake(t)
	last := make(chan struct{})
	f.onWait = func(ctx context.Context, req *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
		switch req.GetId() {
		case "0000000000001":
			return &bursarv1.WaitResponse{Allocation: endedAs(req.GetId(), 0)}, nil
		case "0000000000002":
			<-last
			return &bursarv1.WaitResponse{Allocation: endedAs(req.GetId(), 7)}, nil
		}
		close(last)
		return &bursarv1.WaitResponse{Allocation: endedAs(req.GetId(), 3)}, nil
	}
	code, stdout, stderr := f.run(t, "wait", "0000000000001", "0000000000002", "0000000000003")
	if code != 7 || strings.Count(stdout, "released") != 3 {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestWaitKnowsEachEnd(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		a    *bursarv1.Allocation
		err  error
		code int
	}{
		"done":             {nil, endedAs("a", 0), nil, 0},
		"by a signal":      {nil, &bursarv1.Allocation{EndTime: timestamppb.Now(), State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, ExitStatus: &bursarv1.ExitStatus{Signal: 9}}, nil, 137},
		"never begun":      {nil, &bursarv1.Allocation{EndTime: timestamppb.Now(), State: bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED}, nil, 1},
		"not started":      {nil, &bursarv1.Allocation{EndTime: timestamppb.Now(), State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, Launch: &bursarv1.Launch{Account: "alice"}}, nil, 1},
		"not found":        {nil, neverBegan(bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND), nil, 127},
		"not executable":   {nil, neverBegan(bursarv1.LaunchFault_LAUNCH_FAULT_NOT_EXECUTABLE), nil, 126},
		"another fault":    {nil, neverBegan(bursarv1.LaunchFault_LAUNCH_FAULT_UNSPECIFIED), nil, 1},
		"of a caller":      {nil, &bursarv1.Allocation{EndTime: timestamppb.Now(), State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED}, nil, 0},
		"lost":             {nil, &bursarv1.Allocation{EndTime: timestamppb.Now(), State: bursarv1.AllocationState_ALLOCATION_STATE_LOST}, nil, 1},
		"ready":            {[]string{"--for", "ready"}, &bursarv1.Allocation{State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE}, nil, 0},
		"ended, not ready": {[]string{"--for", "ready"}, endedAs("a", 0), nil, 1},
		"failed":           {[]string{"--for", "ready"}, endedAs("a", 4), nil, 4},
		"unknown":          {nil, nil, connect.NewError(connect.CodeNotFound, errors.New("no such allocation")), 66},
		"not allowed":      {nil, nil, connect.NewError(connect.CodePermissionDenied, errors.New("not yours")), 77},
	} {
		f := newFake(t)
		f.onWait = func(_ context.Context, req *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
			if (len(test.args) > 0) != req.GetReady() {
				t.Errorf("%s: asked for %v", name, req)
			}
			return &bursarv1.WaitResponse{Allocation: test.a}, test.err
		}
		if code, stdout, stderr := f.run(t, append([]string{"wait", fakeID}, test.args...)...); code != test.code {
			t.Errorf("%s: code %d, want %d: %q, %q", name, code, test.code, stdout, stderr)
		}
	}
}

// The engine of a submit that has just returned waits, is reserved, and begins.
func TestLogsFollowAnEngineThatHasNotBegun(t *testing.T) {
	f := newFake(t)
	f.output[bursarv1.OutputStream_OUTPUT_STREAM_STDOUT] = "late\n"
	f.engine = &bursarv1.Allocation{Id: fakeID, State: bursarv1.AllocationState_ALLOCATION_STATE_WAITING, Reason: "no room", Launch: &bursarv1.Launch{Account: "alice"}}
	looks := 0
	f.onGet = func() {
		if looks++; looks == 4 {
			f.engine = f.begun()
		}
	}
	f.onLogs = func(*bursarv1.LogsRequest, *connect.ServerStream[bursarv1.LogsResponse]) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !hasBegun(f.engine) {
			return connect.NewError(connect.CodeFailedPrecondition, errors.New("it has not begun"))
		}
		return nil
	}
	go func() {
		<-f.read
		f.end(&bursarv1.ExitStatus{Code: new(int32(0))}, "")
	}()
	if code, stdout, stderr := f.run(t, "logs", "-f", fakeID); code != 0 || stdout != "late\n" || !strings.Contains(stderr, "no room") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestWaitSurvivesAChangeOfLeader(t *testing.T) {
	f := newFake(t)
	calls := 0
	f.onWait = func(_ context.Context, req *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
		if calls++; calls < 3 {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("no coordinator leads"))
		}
		return &bursarv1.WaitResponse{Allocation: endedAs(req.GetId(), 6)}, nil
	}
	if code, _, stderr := f.run(t, "wait", fakeID); code != 6 || calls != 3 {
		t.Errorf("code %d after %d calls: %q", code, calls, stderr)
	}
}

func TestWaitEndsWhenItsTimeIsOver(t *testing.T) {
	f := newFake(t)
	began := time.Now()
	code, _, stderr := f.run(t, "wait", fakeID, "--timeout", "100ms")
	if took := time.Since(began); code != 124 || took > 10*time.Second || !strings.Contains(stderr, "not within 100ms") {
		t.Errorf("code %d after %s: %q", code, took, stderr)
	}
}

func TestSubmitPrintsTheIDAlone(t *testing.T) {
	f := newFake(t)
	code, stdout, stderr := f.run(t, "submit", "-m", "1MiB", "-l", "user=alice", "--", "job")
	if code != 0 || stdout != fakeID+"\n" || stderr != "" || !f.start.GetRequest().GetAsync() || f.start.GetRequest().GetWait().AsDuration() != 24*time.Hour {
		t.Errorf("code %d, %q, %q, asked for %v", code, stdout, stderr, f.start)
	}
}

func TestLogsShowOneOutput(t *testing.T) {
	f := newFake(t)
	f.engine = f.begun()
	f.output[stdoutStream], f.output[stderrStream] = "12345", "err\n"
	for want, args := range map[string][]string{"12345": nil, "err\n": {"--stderr"}, "45": {"--offset", "3"}} {
		if code, stdout, stderr := f.run(t, append([]string{"logs", fakeID}, args...)...); code != 0 || stdout != want || stderr != "" {
			t.Errorf("%q: code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	f.output[stdoutStream] = ""
	if code, stdout, stderr := f.run(t, "logs", fakeID); code != 0 || stdout != "" || !strings.Contains(stderr, "bursar logs --stderr "+fakeID) {
		t.Errorf("nothing: code %d, %q, %q", code, stdout, stderr)
	}
}

func TestSignalsAreNamedInAllWays(t *testing.T) {
	f := newFake(t)
	for text, want := range map[string]string{"usr1": "SIGNAL_USR1", "SIGHUP": "SIGNAL_HUP", "12": "SIGNAL_USR2", "": "SIGNAL_TERM"} {
		args := []string{"signal", fakeID}
		if text != "" {
			args = append(args, "-s", text)
		}
		if code, stdout, stderr := f.run(t, args...); code != 0 || stdout != "" || stderr != "" || !f.was("signal "+want) {
			t.Errorf("%s: code %d, %q, %q, asked %q", text, code, stdout, stderr, f.asked)
		}
	}
}

// A name is as good as an id if one allocation has it.
func TestAnEngineIsFoundByItsName(t *testing.T) {
	f := newFake(t)
	f.list = []*bursarv1.Allocation{{Id: fakeID, Name: "job"}, {Id: "0000000000002", Name: "two"}, {Id: "0000000000003", Name: "two"}}
	if code, _, stderr := f.run(t, "signal", "job"); code != 0 || !f.was("signal SIGNAL_TERM") {
		t.Errorf("code %d, %q", code, stderr)
	}
	if code, _, stderr := f.run(t, "signal", "two"); code != 65 || !strings.Contains(stderr, "several allocations have the name") || !strings.Contains(stderr, "0000000000003") {
		t.Errorf("two: code %d, %q", code, stderr)
	}
	if code, _, stderr := f.run(t, "signal", "none"); code != 66 {
		t.Errorf("none: code %d, %q", code, stderr)
	}
}

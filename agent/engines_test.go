package agent_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

func TestEngineIsConfirmedMeasuredAndReleasedWhenItsProcessEnds(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(100, "exec sleep 1000")
	if a.GetState() != active || a.GetProcess().GetStartTime() == 0 || a.GetProcess().GetBootId() == "" {
		t.Errorf("confirmed: %v", a)
	}
	s.coordinator.await("its use is known", func() bool {
		return s.coordinator.allocations[a.GetId()].GetMeasured().GetMemoryBytes() > 0
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	end := s.coordinator.awaitState(a.GetId(), released)
	if end.GetReason() != "process ended" {
		t.Errorf("reason %q", end.GetReason())
	}
	// Kernels before 6.15 do not tell.
	if exit := end.GetExitStatus(); exit != nil && exit.GetSignal() != 9 {
		t.Errorf("exit status %v, want signal 9", exit)
	}
}

func TestOwnerReleasesWithTheExitStatus(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(100, "exec sleep 1000")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	r, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId(), Reason: "done", ExitStatus: &bursarv1.ExitStatus{Signal: 9}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.GetAllocation(); got.GetState() != released {
		t.Errorf("released: %v", got)
	}
	for range 2 { // again is fine
		if _, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()}); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: "unknown"}); err != nil {
		t.Errorf("an unknown id: %v", err)
	}
}

// A launcher whose engine has ended does not wait until a coordinator is there.
func TestReleaseIsPassedOnThoughItsCallerHasGone(t *testing.T) {
	s := run(t)
	a := s.allocate(100)
	if _, err := s.confirm(a.GetId(), process(t, "exec sleep 1000").Process.Pid); err != nil {
		t.Fatal(err)
	}
	s.coordinator.goAway()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Release(ctx, &bursarv1.ReleaseRequest{Id: a.GetId(), ExitStatus: &bursarv1.ExitStatus{Code: new(int32(3))}}); err == nil {
		t.Fatal("nobody is there, and it was answered")
	}
	s.coordinator.comeBack()
	if got := s.coordinator.awaitState(a.GetId(), released); got.GetExitStatus().GetCode() != 3 {
		t.Errorf("released as %v: want its exit code", got)
	}
}

// A caller that allows more time than the agent's patience gets its answer within that.
func TestReleaseLastsForItsCallersDeadline(t *testing.T) {
	s := newSubject(t)
	s.config.Patience = 100 * time.Millisecond
	s.start()
	a := s.allocate(100)
	s.coordinator.goAway()
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Release(ctx, &bursarv1.ReleaseRequest{Id: a.GetId()})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("answered while nobody was there: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	s.coordinator.comeBack()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// An agent that stops says that it is not available, which callers ask again about.
func TestReleaseEndsWithTheAgent(t *testing.T) {
	s := run(t)
	a := s.allocate(100)
	s.coordinator.mu.Lock() // it is there, and does not answer
	defer s.coordinator.mu.Unlock()
	answered := make(chan error, 1)
	go func() {
		_, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("answered while nobody was there: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	s.stop()
	if err := <-answered; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v; want %v", err, connect.CodeUnavailable)
	}
}

// tree is an engine whose root and inner process the test can kill; rest is what the root does
// when it has started the other.
func (s *subject) tree(rest string) (id string, root *exec.Cmd, inner *proc.Held) {
	s.t.Helper()
	a := s.allocate(100)
	root = exec.Command("sh", "-c", "sh -c 'echo $$; exec sleep 1000' & "+rest)
	root.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := root.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := root.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_, _ = io.Copy(io.Discard, out)
		_ = root.Wait()
	})
	proc.KillGroupAtEnd(s.t, root.Process.Pid)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	inner = proc.HoldText(s.t, line)
	if _, err := s.confirm(a.GetId(), root.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	s.coordinator.await("its use is known", func() bool {
		return s.coordinator.allocations[a.GetId()].GetMeasured().GetMemoryBytes() > 0
	})
	return a.GetId(), root, inner
}

// ticks waits for so many heartbeats with a new sample.
func (s *subject) ticks(n int) {
	s.t.Helper()
	s.coordinator.mu.Lock()
	from := len(s.coordinator.syncs)
	s.coordinator.mu.Unlock()
	s.coordinator.await("heartbeats", func() bool {
		samples := map[int64]bool{}
		for _, q := range s.coordinator.syncs[from:] {
			samples[q.GetSample().GetSampleTime().AsTime().UnixNano()] = true
		}
		return len(samples) >= n
	})
}

func TestEngineOutlivesItsChild(t *testing.T) {
	s := run(t)
	id, _, inner := s.tree("while :; do sleep 1000; done")
	if err := inner.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ticks(3)
	s.coordinator.awaitState(id, active)
}

func TestOrphansKeepTheAllocationUntilTheyEnd(t *testing.T) {
	s := run(t)
	id, root, inner := s.tree("wait")
	if err := root.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ticks(3)
	s.coordinator.awaitState(id, active)
	if err := inner.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.coordinator.awaitState(id, released)
}

func TestStopEndsOrphansToo(t *testing.T) {
	s := run(t)
	id, root, inner := s.tree("wait")
	if err := root.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ticks(3)
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: id, Reason: "left over"}); err != nil {
		t.Fatal(err)
	}
	if got := s.coordinator.awaitState(id, released).GetReason(); got != "stopped: left over" {
		t.Errorf("reason %q", got)
	}
	if !zombie(inner.PID) {
		t.Error("the process is still there")
	}
}

// zombie reports whether a process has ended, also if its parent has not waited for it.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestStopAsksThenKills(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(100, "trap '' TERM; while :; do sleep 1000; done")
	_, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId(), Grace: durationpb.New(0), Reason: "enough"})
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := s.coordinator.awaitState(a.GetId(), released).GetReason(); got != "stopped: enough" {
		t.Errorf("reason %q", got)
	}
}

// A coordinator refuses a heartbeat with a longer one, and with it the whole host.
func TestReasonOfAStopIsNoLongerThanTheContractHasRoomFor(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(100, "exec sleep 1000")
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId(), Reason: strings.Repeat("é", 1024)}); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	reason := s.coordinator.awaitState(a.GetId(), released).GetReason()
	if err := protovalidate.Validate(&bursarv1.EngineEnd{Reason: reason}); err != nil || !strings.HasPrefix(reason, "stopped: éé") {
		t.Errorf("%v: %s", err, reason)
	}
}

func TestConfirmChecksTheProcess(t *testing.T) {
	s := run(t)
	taken, _ := s.engine(10, "exec sleep 1000")
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = zombie.Wait() }()
	var info unix.Siginfo // it has ended, and its parent has not waited for it
	if err := unix.Waitid(unix.P_PID, zombie.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	running := process(t, "exec sleep 1000")
	pid := int32(running.Process.Pid)
	for name, test := range map[string]struct {
		process *bursarv1.Process
		code    connect.Code
		field   string
	}{
		"no pid":             {&bursarv1.Process{}, connect.CodeInvalidArgument, "process.pid"},
		"a start and no pid": {&bursarv1.Process{StartTime: 5}, connect.CodeInvalidArgument, "process.pid"},
		"nothing":            {nil, connect.CodeInvalidArgument, "process.pid"},
		"no such process":    {&bursarv1.Process{Pid: int32(ended.Process.Pid)}, connect.CodeFailedPrecondition, "process.pid"},
		"a zombie":           {&bursarv1.Process{Pid: int32(zombie.Process.Pid)}, connect.CodeFailedPrecondition, "process.pid"},
		"init":               {&bursarv1.Process{Pid: 1}, connect.CodeInvalidArgument, "process.pid"},
		"the agent":          {&bursarv1.Process{Pid: int32(os.Getpid())}, connect.CodeInvalidArgument, "process.pid"},
		"a negative pid":     {&bursarv1.Process{Pid: -5}, connect.CodeInvalidArgument, "process.pid"},
		"another start":      {&bursarv1.Process{Pid: pid, StartTime: 5}, connect.CodeFailedPrecondition, "process.pid"},
		"another boot":       {&bursarv1.Process{Pid: pid, BootId: "other"}, connect.CodeFailedPrecondition, "process.pid"},
		"another's engine":   {&bursarv1.Process{Pid: taken.GetProcess().GetPid()}, connect.CodeFailedPrecondition, "process.pid"},
		"everybody's cgroup": {&bursarv1.Process{Pid: pid, Cgroup: "/"}, connect.CodeInvalidArgument, "process.cgroup"},
		"a made-up cgroup":   {&bursarv1.Process{Pid: pid, Cgroup: "/engines/a"}, connect.CodeInvalidArgument, "process.cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.allocate(10)
			_, err := s.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Process: test.process})
			if connect.CodeOf(err) != test.code {
				t.Fatalf("%v, want %v", err, test.code)
			}
			if got := field(err); got != test.field {
				t.Errorf("field %q, want %q", got, test.field)
			}
		})
	}
	if _, err := s.confirm(s.allocate(10).GetId(), int(pid)); err != nil {
		t.Errorf("all as it should be: %v", err)
	}
}

// field is the one that an error says is wrong.
func field(err error) string {
	for _, m := range details(err) {
		if invalid, ok := m.(*bursarv1.InvalidField); ok {
			return invalid.GetField()
		}
	}
	return ""
}

func TestConfirmTwiceIsFine(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(10, "exec sleep 1000")
	again, err := s.confirm(a.GetId(), cmd.Process.Pid)
	if err != nil || again.GetAllocation().GetRevision() != a.GetRevision() {
		t.Errorf("%v, %v", again, err)
	}
}

func TestConfirmOfWhatIsNotReservedIsRefused(t *testing.T) {
	s := run(t)
	a := s.allocate(10)
	if _, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()}); err != nil {
		t.Fatal(err)
	}
	cmd := process(t, "exec sleep 1000")
	if _, err := s.confirm(a.GetId(), cmd.Process.Pid); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("released: %v", err)
	}
	if _, err := s.confirm("unknown", cmd.Process.Pid); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("unknown: %v", err)
	}
}

func TestAllocationsOfOtherHostsAreLeftToTheirAgents(t *testing.T) {
	s := run(t)
	s.coordinator.do(func() {
		s.coordinator.allocations["elsewhere"] = &bursarv1.Allocation{Id: "elsewhere", HostId: "h2", State: reserved, Revision: 50}
	})
	cmd := process(t, "exec sleep 1000")
	ctx := t.Context()
	_, confirm := s.confirm("elsewhere", cmd.Process.Pid)
	_, release := s.Release(ctx, &bursarv1.ReleaseRequest{Id: "elsewhere"})
	_, renew := s.Renew(ctx, &bursarv1.RenewRequest{Id: "elsewhere"})
	_, resize := s.Resize(ctx, &bursarv1.ResizeRequest{Id: "elsewhere", Entitled: &bursarv1.Resource{}})
	_, stop := s.Stop(ctx, &bursarv1.StopRequest{Id: "elsewhere"})
	for name, err := range map[string]error{"confirm": confirm, "release": release, "renew": renew, "resize": resize, "stop": stop} {
		if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "on host h2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: "elsewhere"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("get: %v", err)
	}
}

func TestEngineWithoutAProcessHereIsALease(t *testing.T) {
	s := run(t)
	a := s.allocate(10)
	r, err := s.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Address: "10.0.0.5:1", Lease: durationpb.New(1 << 40)})
	if err != nil || r.GetAllocation().GetState() != active {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := s.Renew(t.Context(), &bursarv1.RenewRequest{Id: a.GetId()}); err != nil {
		t.Error(err)
	}
	for name, request := range map[string]*bursarv1.ConfirmRequest{
		"a lease": {Lease: durationpb.New(1 << 40)}, "an address": {Address: "10.0.0.5:1"}, "an application": {ApplicationIds: []string{"application_1_1"}},
	} {
		request.Id = s.allocate(10).GetId()
		if _, err := s.Confirm(t.Context(), request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.ticks(2)
	s.coordinator.awaitState(a.GetId(), active)
}

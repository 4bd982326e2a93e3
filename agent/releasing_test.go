package agent_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/proc"
)

// A release frees nothing while a process of the engine lives, whatever its caller says.
func TestAReleaseWaitsForTheEnd(t *testing.T) {
	s := newSubject(t)
	s.coordinator.awaitsEnds = true
	s.start()
	a, cmd := s.engine(100, "exec sleep 1000")
	lie := &bursarv1.ReleaseRequest{Id: a.GetId(), ExitStatus: &bursarv1.ExitStatus{Code: new(int32)}, ProcessEnded: true}
	for range 2 {
		r, err := s.Release(t.Context(), lie)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.GetAllocation(); got.GetState() != active || !got.GetReleasing() || got.GetStopping() {
			t.Errorf("released while it ran: %v", got)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.coordinator.awaitState(a.GetId(), released)
}

// What has ended is free with the answer, also before the agent has measured that.
func TestAReleaseOfWhatHasEndedFreesAtOnce(t *testing.T) {
	s := newSubject(t)
	s.coordinator.awaitsEnds = true
	s.start()
	for range 5 {
		a, cmd := s.engine(1, "exec sleep 1000")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.GetAllocation(); got.GetState() != released {
			t.Errorf("it had ended: %v", got)
		}
	}
}

// The first process has ended, and another one of its session lives.
func TestAReleaseWaitsForTheLastProcess(t *testing.T) {
	s := newSubject(t)
	s.coordinator.awaitsEnds = true
	s.start()
	a := s.allocate(1)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; read go")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	leave, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	n, err := said.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	s.releaseWaitsFor(a, string(buf[:n]), cmd, leave, 0)
}

// A child that has left the session and whose parent has ended is known from measurements alone.
func TestAReleaseWaitsForWhatHasLeftTheSession(t *testing.T) {
	s := newSubject(t)
	s.coordinator.awaitsEnds = true
	s.start()
	a := s.allocate(1)
	file := filepath.Join(folder(t), "pid")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "setsid sh -c 'echo $$ >"+file+".new; mv "+file+".new "+file+"; exec sleep 1000' >/dev/null 2>&1 & read go")
	leave, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text []byte
	until(t, "the child has left", func() bool { text, err = os.ReadFile(file); return err == nil })
	s.releaseWaitsFor(a, string(text), cmd, leave, 3)
}

// releaseWaitsFor confirms an engine, measures it so many times, lets its first process end, and
// expects its release to wait for the process with this pid.
func (s *subject) releaseWaitsFor(a *bursarv1.Allocation, pid string, first *exec.Cmd, leave io.Closer, ticks int) {
	s.t.Helper()
	left, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	if _, err := s.confirm(a.GetId(), first.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	s.ticks(ticks)
	_ = leave.Close()
	_ = first.Wait()
	r, err := s.Release(s.t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()})
	if err != nil {
		s.t.Fatal(err)
	}
	if got := r.GetAllocation(); got.GetState() != active || !got.GetReleasing() {
		s.t.Errorf("process %d lives: %v", left, got)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	s.coordinator.awaitState(a.GetId(), released)
}

// All processes of an engine have ended: it is free with the answer, though several were known.
func TestAReleaseOfSeveralThatHaveEndedFreesAtOnce(t *testing.T) {
	s := newSubject(t)
	s.coordinator.awaitsEnds = true
	s.start()
	a, cmd := s.engine(1, "sleep 1000 & wait")
	s.ticks(3)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId(), Reason: "done", ExitStatus: &bursarv1.ExitStatus{Signal: 9}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.GetAllocation(); got.GetState() != released || got.GetExitStatus().GetSignal() != 9 {
		t.Errorf("all had ended: %v", got)
	}
}

// The release of an engine that the agent launched is a stop.
func TestAReleaseOfALaunchedEngineStopsIt(t *testing.T) {
	s := launcher(t)
	r := s.mustLaunch("exec sleep 1000")
	pid := int(r.GetAllocation().GetProcess().GetPid())
	if !r.GetAllocation().GetProcess().GetLaunched() {
		t.Errorf("launched: %v", r.GetAllocation().GetProcess())
	}
	answer, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: r.GetAllocation().GetId(), Reason: "done"})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.GetAllocation(); got.GetState() != active || !got.GetStopping() || !got.GetReleasing() {
		t.Errorf("released while it ran: %v", got)
	}
	s.coordinator.awaitState(r.GetAllocation().GetId(), released)
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		t.Errorf("process %d runs", pid)
	}
}

// An engine whose keeper answers late may have begun. Its caller hears that it is too late, asks
// again, and gets that very engine: it does not begin twice, and is not ended.
func TestALaunchThatBeginsLateIsThatEngine(t *testing.T) {
	s := launcher(t)
	id := s.allocate(10).GetId()
	var held int
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.coordinator.confirming = func(string) { // it waits to begin
		time.AfterFunc(time.Second, cancel) // its caller gives up then, however long the start took
		children, _ := filepath.Glob("/proc/" + strconv.Itoa(s.keeperOf(id)) + "/task/*/children")
		for _, file := range children {
			text, _ := os.ReadFile(file)
			for word := range strings.FieldsSeq(string(text)) {
				held, _ = strconv.Atoi(word)
			}
		}
		_ = syscall.Kill(held, syscall.SIGSTOP)
		proc.KillGroupAtEnd(t, held)
		until(t, "it is stopped", func() bool {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(held) + "/stat")
			return err != nil || strings.Contains(string(stat), ") T ")
		})
	}
	launch := &bursarv1.LaunchRequest{Id: id, Command: []string{"sleep", "1000"}, WorkingDirectory: "/"}
	_, late := bursarv1connect.NewEngineServiceClient(s.http, "http://agent").Launch(ctx, launch)
	if late == nil || held == 0 {
		t.Fatalf("begun in time, process %d", held)
	}
	if err := syscall.Kill(held, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	again, err := s.launchAgain(launch)
	if err != nil || int(again.GetAllocation().GetProcess().GetPid()) != held {
		t.Errorf("again: %v, %v; want process %d", again, err, held)
	}
}

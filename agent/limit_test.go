package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// These tests are of limits that launchers ask for. Some have this machine's kernel limit engines:
// see contain_test.go.

func (s *subject) confirmLimited(id string, pid int) (*bursarv1.ConfirmResponse, error) {
	return s.Confirm(s.t.Context(), &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: int32(pid)}, Limit: true})
}

// A launcher gets the limit that it asks for, without tolerance, and has it when the answer comes.
// It stays over a restart of the agent and over a further Confirm, and follows the entitlement.
func TestALauncherThatAsksForALimitHasItWithTheAnswer(t *testing.T) {
	for name, policy := range map[string]agent.PolicyConfig{
		"under the policy warn":  {OnOverUse: "warn"},
		"under a looser limit":   {OnOverUse: "limit", Tolerance: "50%"},
		"under the policy kill":  {OnOverUse: "kill"},
		"it is never only moved": {OnOverUse: "observe", Cgroup: new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			s := contained(t, policy)
			s.start()
			a, cmd := s.allocate(32), process(t, "exec sleep 1000")
			r, err := s.confirmLimited(a.GetId(), cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			path := cgroupOf(int32(cmd.Process.Pid))
			if got := memoryLimit(t, path); got != 32*mib || !r.GetAllocation().GetProcess().GetLimit() {
				t.Errorf("with the answer %v its limit is %d bytes in %s, want 32 MiB", r, got, path)
			}
			s.ticks(2)
			if got := memoryLimit(t, path); got != 32*mib {
				t.Errorf("after a tick its limit is %d bytes", got)
			}
			s.crash()
			s.start()
			s.resize(a.GetId(), 80)
			until(t, "the limit follows", func() bool { return memoryLimit(t, path) == 80*mib })
			again, err := s.confirm(a.GetId(), cmd.Process.Pid)
			if err != nil || !again.GetAllocation().GetProcess().GetLimit() {
				t.Errorf("confirmed again without a word of it: %v, %v", again, err)
			}
			s.resize(a.GetId(), 64)
			until(t, "the limit follows", func() bool { return memoryLimit(t, path) == 64*mib })
		})
	}
}

func TestALaunchedEngineWithALimitBeginsInside(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "warn"})
	launched := newLauncher(t)
	s.config.Engines.Keeper, s.config.Engines.LogDir = launched.config.Engines.Keeper, launched.config.Engines.LogDir
	s.start()
	out := filepath.Join(folder(t), "cgroup")
	r := s.mustLaunch("cat /proc/self/cgroup > "+out+".part; mv "+out+".part "+out+"; exec sleep 1000", func(q *bursarv1.LaunchRequest) {
		q.Id, q.Limit = s.allocate(120).GetId(), true
	})
	if !r.GetAllocation().GetProcess().GetLimit() {
		t.Errorf("the answer is %v", r)
	}
	until(t, "it says where it began", func() bool { _, err := os.Stat(out); return err == nil })
	began, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(began), "bursar-engines/"+r.GetAllocation().GetId()) {
		t.Errorf("it began in %s, %v", began, err)
	}
	if got := memoryLimit(t, cgroupOf(r.GetAllocation().GetProcess().GetPid())); got != 120*mib {
		t.Errorf("its limit is %d bytes", got)
	}
}

// wantRefused has an error that names a setting of the agent, if there is one.
func wantRefused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%s: %v; want it refused", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v; want %q in it", what, err, word)
		}
	}
}

// A limit is a promise: an agent that may not make cgroups refuses, before anything waits or runs,
// and names the setting that forbids it.
func TestALimitThatTheConfigurationForbidsIsRefused(t *testing.T) {
	s := newLauncher(t)
	s.config.Engines.Cgroups = "none"
	s.start()
	q := request(10)
	q.Limit = true
	_, err := s.Allocate(t.Context(), q)
	wantRefused(t, "Allocate", err, `engines.cgroups: "none"`, "auto, systemd or direct")
	ran := filepath.Join(folder(t), "ran")
	_, err = s.launch("touch "+ran, func(q *bursarv1.LaunchRequest) { q.Limit = true })
	wantRefused(t, "Launch", err, `engines.cgroups: "none"`)
	_, err = s.confirmLimited(s.allocate(10).GetId(), process(t, "exec sleep 1000").Process.Pid)
	wantRefused(t, "Confirm", err, `engines.cgroups: "none"`)
	if _, err := os.Stat(ran); err == nil {
		t.Error("the engine ran")
	}
	if got := len(s.coordinator.reported()); got > 0 {
		t.Errorf("%d engines are reported", got)
	}
}

func TestALimitThatAPolicyForbidsIsRefused(t *testing.T) {
	s := newSubject(t)
	inPlayed(s)
	s.config.Engines.Policies = []agent.PolicyConfig{{Match: map[string]string{"user": "alice"}, Cgroup: new(false)}}
	s.start()
	_, err := s.confirmLimited(s.allocate(10).GetId(), process(t, "exec sleep 1000").Process.Pid)
	wantRefused(t, "Confirm", err, "engines.policies", "cgroup: false")
}

// What the kernel does not take, and what it takes and does not keep, is no limit.
func TestALimitThatTheKernelDoesNotHoldIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*playedCgroups){
		"it refuses":           func(p *playedCgroups) { p.held, p.refuses = 30*mib, 1 },
		"it has another value": func(p *playedCgroups) { p.forgets = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLauncher(t)
			played := inPlayed(s)
			s.config.Engines.Policies = nil
			spoil(played)
			s.start()
			a := s.allocate(20)
			_, err := s.confirmLimited(a.GetId(), process(t, "exec sleep 1000").Process.Pid)
			wantRefused(t, "Confirm", err, "limit: the kernel does not hold the engine to it")
			ran := filepath.Join(folder(t), "ran")
			_, err = s.launch("touch "+ran, func(q *bursarv1.LaunchRequest) { q.Limit = true })
			wantRefused(t, "Launch", err, "limit: the kernel does not hold the engine to it")
			if _, err := os.Stat(ran); err == nil {
				t.Error("the engine ran")
			}
		})
	}
}

func TestALimitOfNoProcessIsRefused(t *testing.T) {
	s := newSubject(t)
	s.start()
	_, err := s.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: s.allocate(10).GetId(), Address: "elsewhere:1", Limit: true})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "process.pid") {
		t.Errorf("%v", err)
	}
}

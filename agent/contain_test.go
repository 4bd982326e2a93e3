package agent_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// These tests have this machine's kernel limit engines: they need root, and a hierarchy that
// accounts for memory.

// folders are those of a cgroup's files, in every hierarchy that has it.
func folders(t *testing.T, name string) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/fs/cgroup/*" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/fs/cgroup" + name); err == nil { // version 2
		found = append(found, "/sys/fs/cgroup"+name)
	}
	return found
}

// contained is an agent whose engines have cgroups below one of the test's own, under a policy.
//
// Each has a folder of its own for them: allocations have the same ids in each test, and the
// kernel's log still has what it killed in the cgroup of an earlier one.
func contained(t *testing.T, policy agent.PolicyConfig) *subject {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("want root: cgroups are made here")
	}
	s := newSubject(t)
	s.config.Engines = agent.EnginesConfig{
		Cgroups: "direct", Cgroup: "/bursar-test-agent-" + strings.ToLower(rand.Text()[:8]), Policies: []agent.PolicyConfig{policy},
	}
	t.Cleanup(func() {
		until(t, "its cgroups are gone", func() bool {
			left := folders(t, s.config.Engines.Cgroup)
			for _, folder := range left {
				below, _ := os.ReadDir(folder + "/bursar-engines")
				for _, entry := range below {
					if entry.IsDir() {
						// what has processes that are being killed goes later
						_ = os.Remove(filepath.Join(folder, "bursar-engines", entry.Name()))
					}
				}
				_ = os.Remove(folder + "/bursar-engines")
				_ = os.Remove(folder)
			}
			return len(left) == 0
		})
	})
	return s
}

// cgroupOf is a process's cgroup in the hierarchy that accounts for memory.
func cgroupOf(pid int32) string {
	content, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(pid)), "cgroup"))
	unified := ""
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case strings.Contains(","+fields[1]+",", ",memory,"):
			return fields[2]
		case fields[1] == "":
			unified = fields[2]
		}
	}
	return unified
}

// memoryLimit is that of a cgroup in bytes, as the kernel has it; -1: none.
func memoryLimit(t *testing.T, name string) int64 {
	t.Helper()
	for _, folder := range folders(t, name) {
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			content, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				continue
			}
			limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
			if err != nil || limit > 1<<60 {
				return -1
			}
			return limit
		}
	}
	return -1
}

func (s *subject) metric(name string) string {
	s.t.Helper()
	r, err := s.http.Get("http://agent/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// inCgroup waits until an engine is in a cgroup of ours, and returns that.
func (s *subject) inCgroup(a *bursarv1.Allocation) (path string) {
	s.t.Helper()
	until(s.t, "it is in its cgroup", func() bool {
		path = cgroupOf(a.GetProcess().GetPid())
		return strings.HasPrefix(path, s.config.Engines.Cgroup+"/bursar-engines/"+a.GetId())
	})
	return path
}

func (s *subject) current(id string) *bursarv1.Allocation {
	s.t.Helper()
	r, err := s.Get(s.t.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetAllocation()
}

func TestEngineIsKeptToItsEntitlementByItsCgroup(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "limit", Tolerance: "25%"})
	s.start()
	a, engine := s.stepper(32, "own")
	path := s.inCgroup(s.current(a.GetId()))
	if got := memoryLimit(t, path); got != 40*mib {
		t.Errorf("its limit is %d bytes, want 40 MiB", got)
	}
	s.resize(a.GetId(), 80)
	until(t, "the limit follows", func() bool { return memoryLimit(t, path) == 100*mib })
	engine.step()
	engine.step() // 64 MiB
	// Half of that is below what it holds: the limit stays, for setting it would kill.
	s.resize(a.GetId(), 32)
	s.ticks(3)
	if got := memoryLimit(t, path); got != 100*mib {
		t.Errorf("a limit of %d bytes was set below what is held", got)
	}
	s.coordinator.awaitState(a.GetId(), active)
	for range 2 { // 128 MiB
		if _, err := io.WriteString(engine.in, "\n"); err != nil {
			break
		}
	}
	end := s.coordinator.awaitState(a.GetId(), released)
	if want := "killed for lack of memory: its cgroup's limit of 100MiB"; end.GetReason() != want || !end.GetExitStatus().GetOutOfMemory() ||
		end.GetExitStatus().GetSignal() != 9 {
		t.Errorf("ended: %q, %v; want %q", end.GetReason(), end.GetExitStatus(), want)
	}
	if got := s.metric("bursar_agent_out_of_memory_kills_total"); got != "1" {
		t.Errorf("%s kills were counted", got)
	}
	until(t, "its cgroup is removed", func() bool { return len(folders(t, path)) == 0 })
}

// resize changes what an engine is entitled to, in MiB.
func (s *subject) resize(id string, memory int64) {
	s.t.Helper()
	if _, err := s.Resize(s.t.Context(), &bursarv1.ResizeRequest{Id: id, Entitled: &bursarv1.Resource{MemoryBytes: new(memory * mib)}}); err != nil {
		s.t.Fatal(err)
	}
}

func TestPolicyGivesACgroupWithoutLimits(t *testing.T) {
	s := contained(t, agent.PolicyConfig{Match: map[string]string{"user": "alice"}, Cgroup: new(true)})
	s.start()
	a, _ := s.engine(10, "exec sleep 1000")
	path := s.inCgroup(a)
	if got := memoryLimit(t, path); got != -1 {
		t.Errorf("its limit is %d bytes, want none", got)
	}
	until(t, "the agent knows where it is after a restart", func() bool {
		for _, content := range s.logs() {
			if strings.Contains(string(content), path) {
				return true
			}
		}
		return false
	})
	if got := s.coordinator.awaitState(a.GetId(), active); got.GetState() != active {
		t.Error(got)
	}
}

func TestPolicyLeavesOthersWhereTheyAre(t *testing.T) {
	s := contained(t, agent.PolicyConfig{Match: map[string]string{"user": "bob"}, OnOverUse: "limit"})
	s.config.Engines.Policies = append(s.config.Engines.Policies, agent.PolicyConfig{Cgroup: new(false)})
	s.start()
	a, _ := s.engine(10, "exec sleep 1000")
	s.ticks(3)
	if path := cgroupOf(a.GetProcess().GetPid()); path != cgroupOf(int32(os.Getpid())) {
		t.Errorf("it was moved to %s", path)
	}
	if left := folders(t, s.config.Engines.Cgroup); len(left) > 0 {
		t.Errorf("cgroups were made that nobody needs: %s", left)
	}
}

func TestCgroupsAreTakenUpAgainAfterARestart(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "limit", Tolerance: "0%"})
	s.start()
	lives, _ := s.engine(10, "exec sleep 1000")
	dies, cmd := s.engine(10, "exec sleep 1000")
	path, gone := s.inCgroup(lives), s.inCgroup(dies)
	s.crash()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.config.Engines.Policies[0].Tolerance = "50%"
	s.start()
	until(t, "the limit follows the policy", func() bool { return memoryLimit(t, path) == 15*mib })
	until(t, "what nobody is in is removed", func() bool { return len(folders(t, gone)) == 0 })
	if got := cgroupOf(lives.GetProcess().GetPid()); got != path {
		t.Errorf("it is in %s, and was in %s", got, path)
	}
	// One that was released and runs on stays where it is.
	if _, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: lives.GetId()}); err != nil {
		t.Fatal(err)
	}
	s.ticks(3)
	if got := cgroupOf(lives.GetProcess().GetPid()); got != path {
		t.Errorf("released, it is in %q, and was in %s", got, path)
	}
}

func TestEngineGoesOnWithoutACgroupThatCannotBeMade(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "limit"})
	s.config.Engines.Cgroup = "/bursar\ntest" // the kernel takes no such name
	s.start()
	a, _ := s.engine(10, "exec sleep 1000")
	until(t, "the failure is counted", func() bool { return s.metric("bursar_agent_cgroup_failures_total") == "1" })
	s.ticks(3)
	if got := s.coordinator.awaitState(a.GetId(), active); got.GetProcess().GetCgroup() != "" {
		t.Errorf("%v", got)
	}
	if got := s.metric("bursar_agent_cgroup_failures_total"); got != "1" {
		t.Errorf("tried %s times at once", got)
	}
}

// limitedTo puts a process into a cgroup that is not the agent's, with a limit in bytes.
func limitedTo(t *testing.T, name string, bytes int64, pid int) {
	t.Helper()
	for _, top := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		folder := top + name
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			continue
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			_ = os.WriteFile(filepath.Join(folder, file), []byte(strconv.FormatInt(bytes, 10)), 0o600)
		}
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
}

func TestKillForLackOfMemoryIsRecognisedWithoutACgroupOfOurs(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "observe", Cgroup: new(false)})
	s.start()
	a, engine := s.stepper(500, "own")
	pid := s.current(a.GetId()).GetProcess().GetPid()
	limitedTo(t, s.config.Engines.Cgroup, 40*mib, int(pid)) // somebody else's cgroup, around it
	for range 2 {
		if _, err := io.WriteString(engine.in, "\n"); err != nil {
			break
		}
	}
	end := s.coordinator.awaitState(a.GetId(), released)
	if want := "killed for lack of memory: the limit of cgroup " + s.config.Engines.Cgroup; end.GetReason() != want || !end.GetExitStatus().GetOutOfMemory() {
		t.Errorf("ended: %q, %v; want %q", end.GetReason(), end.GetExitStatus(), want)
	}
	if got := s.metric("bursar_agent_out_of_memory_kills_total"); got != "1" {
		t.Errorf("%s kills were counted", got)
	}
}

// grows allocates 256 MiB in one piece and is killed for it, once the file is there.
const grows = "until [ -e %s ]; do sleep 0.02; done; dd if=/dev/zero of=/dev/null bs=256M count=1 status=none; exit %d"

func TestEngineThatOutlivesItsKilledProcessesSaysSo(t *testing.T) {
	// its keeper, which is this binary, has 40
	const lack = ", after the kernel had killed 1 of its processes for lack of memory: its cgroup's limit of 120MiB"
	for code, want := range map[int]string{0: "exit code 0" + lack, 1: "exit code 1" + lack} {
		t.Run(want, func(t *testing.T) {
			s := contained(t, agent.PolicyConfig{OnOverUse: "limit", Tolerance: "0%"})
			launched := newLauncher(t)
			s.config.Engines.Keeper, s.config.Engines.LogDir = launched.config.Engines.Keeper, launched.config.Engines.LogDir
			s.start()
			begin := filepath.Join(folder(t), "begin")
			r := s.mustLaunch(fmt.Sprintf(grows, begin, code), func(q *bursarv1.LaunchRequest) { q.Id = s.allocate(120).GetId() })
			s.inCgroup(r.GetAllocation())
			if err := os.WriteFile(begin, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			end := s.coordinator.awaitState(r.GetAllocation().GetId(), released)
			if end.GetReason() != want || !end.GetExitStatus().GetOutOfMemory() {
				t.Errorf("ended: %q, %v", end.GetReason(), end.GetExitStatus())
			}
			wantKills(t, end, 1, 120*mib)
		})
	}
}

// Its cgroup is one that its starter has made and removes: only the kernel's log knows.
func TestEngineInACgroupOfItsStartersSaysThatItsProcessesWereKilled(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "observe", Cgroup: new(false)})
	s.start()
	begin := filepath.Join(folder(t), "begin")
	cmd := process(t, fmt.Sprintf(grows, begin, 1))
	own := s.config.Engines.Cgroup
	limitedTo(t, own, 40*mib, cmd.Process.Pid)
	a := s.allocate(40)
	if _, err := s.confirm(a.GetId(), cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if got := s.current(a.GetId()).GetProcess().GetCgroup(); got != own {
		t.Fatalf("its cgroup is %q, want %q", got, own)
	}
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	want := ", after the kernel had killed 1 of its processes for lack of memory: the limit of cgroup " + own
	end := s.coordinator.awaitState(a.GetId(), released)
	if !strings.HasSuffix(end.GetReason(), want) || !end.GetExitStatus().GetOutOfMemory() {
		t.Errorf("ended: %q, %v", end.GetReason(), end.GetExitStatus())
	}
	wantKills(t, end, 1, 0)
}

func TestKillByAHandIsNoLackOfMemory(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "limit"})
	s.start()
	a, cmd := s.engine(100, "exec sleep 1000")
	s.inCgroup(a)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if end := s.coordinator.awaitState(a.GetId(), released); end.GetExitStatus().GetOutOfMemory() || end.GetReason() != "process ended" {
		t.Errorf("ended: %q, %v", end.GetReason(), end.GetExitStatus())
	}
}

// An engine that a launcher has started gets a cgroup of its own without being asked for it,
// unless it would get out of a limit by that.
func TestAConfirmedEngineGetsACgroupUnlessItWouldLoseALimit(t *testing.T) {
	s := contained(t, agent.PolicyConfig{})
	s.start()
	a, cmd := s.engine(100, "exec sleep 1000")
	want := s.config.Engines.Cgroup + "/bursar-engines/" + a.GetId() + ".adopted"
	until(t, "it is in a cgroup of its own", func() bool { return cgroupOf(int32(cmd.Process.Pid)) == want })
	limited := s.config.Engines.Cgroup + "-limited"
	t.Cleanup(func() {
		until(t, "it is removed", func() bool {
			for _, folder := range folders(t, limited) {
				_ = os.Remove(folder)
			}
			return len(folders(t, limited)) == 0
		})
	})
	// two: for one alone it would be its own
	shared, in := process(t, "exec sleep 1000"), process(t, "exec sleep 1000")
	for _, p := range []*exec.Cmd{shared, in} {
		limitedTo(t, limited, 1000*mib, p.Process.Pid)
	}
	before := cgroupOf(int32(in.Process.Pid))
	if _, err := s.confirm(s.allocate(100).GetId(), in.Process.Pid); err != nil {
		t.Fatal(err)
	}
	s.ticks(3)
	if now := cgroupOf(int32(in.Process.Pid)); now != before {
		t.Errorf("it was moved from %s, whose limit it was under, to %s", before, now)
	}
	// Told to move it all the same, the agent keeps its cgroup as every other.
	moved := s.config
	moved.Engines.Policies = []agent.PolicyConfig{{Cgroup: new(true)}}
	if _, err := s.agent.Reload(moved); err != nil {
		t.Fatal(err)
	}
	var path string
	until(t, "it is moved", func() bool { path = cgroupOf(int32(in.Process.Pid)); return strings.HasSuffix(path, ".adopted") })
	if err := in.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = in.Wait() // it was killed
	until(t, "its cgroup is removed", func() bool { return len(folders(t, path)) == 0 })
}

package agent_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/launch"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/proc"
)

// launcher is an agent that launches engines: its keeper is this binary, where every user gets at
// it.
func launcher(t *testing.T) *subject {
	t.Helper()
	s := newLauncher(t)
	s.start()
	return s
}

// newLauncher does not run yet.
func newLauncher(t *testing.T) *subject {
	t.Helper()
	s := newSubject(t)
	dir := filepath.Dir(s.config.StateDir)
	s.config.Engines.Keeper = filepath.Join(dir, "bursar-keeper")
	s.config.Engines.LogDir = filepath.Join(dir, "logs")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config.Engines.Keeper, self, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// launch starts an engine with a shell, which is killed at the end of the test.
func (s *subject) launch(script string, changes ...func(*bursarv1.LaunchRequest)) (*bursarv1.LaunchResponse, error) {
	s.t.Helper()
	q := &bursarv1.LaunchRequest{Id: s.allocate(10).GetId(), Command: []string{"sh", "-c", script}, WorkingDirectory: "/"}
	for _, change := range changes {
		change(q)
	}
	return s.launchAgain(q)
}

func (s *subject) launchAgain(q *bursarv1.LaunchRequest) (*bursarv1.LaunchResponse, error) {
	r, err := bursarv1connect.NewEngineServiceClient(s.http, "http://agent").Launch(s.t.Context(), q)
	if pid := r.GetAllocation().GetProcess().GetPid(); pid > 1 {
		proc.KillGroupAtEnd(s.t, int(pid))
	}
	return r, err
}

func (s *subject) mustLaunch(script string, changes ...func(*bursarv1.LaunchRequest)) *bursarv1.LaunchResponse {
	s.t.Helper()
	r, err := s.launch(script, changes...)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// until polls until something holds of which there is no event.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	proc.Until(t, 20*time.Second, 5*time.Millisecond, what, holds)
}

func asNobody(q *bursarv1.LaunchRequest) {
	if os.Geteuid() == 0 {
		q.User = "nobody"
	}
}

// owner is the uid of a path's owner.
func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	return stat.Uid
}

func TestLaunchedEngineIsOneOfItsUserWithItsLogs(t *testing.T) {
	s := launcher(t)
	r := s.mustLaunch("echo $BURSAR_ALLOCATION_ID $BURSAR_MEMORY_BYTES $A $USER; id -u; echo err >&2; exec sleep 1000", asNobody,
		func(q *bursarv1.LaunchRequest) {
			q.Environment = map[string]string{"A": "b", "BURSAR_MEMORY_BYTES": "99"}
		})
	a := r.GetAllocation()
	if a.GetState() != active || a.GetProcess().GetStartTime() == 0 || a.GetProcess().GetBootId() == "" {
		t.Errorf("%v", a)
	}
	if want := filepath.Join(s.config.Engines.LogDir, a.GetId()); r.GetLogDirectory() != want {
		t.Errorf("logs in %s: want %s", r.GetLogDirectory(), want)
	}
	uid, _ := other()
	name := "nobody"
	if uid != nobody {
		name = os.Getenv("USER")
	}
	want := fmt.Sprintf("%s %d b %s\n%d\n", a.GetId(), 10*mib, name, uid)
	until(t, "the engine has written", func() bool {
		out, _ := os.ReadFile(filepath.Join(r.GetLogDirectory(), "stdout"))
		return string(out) == want
	})
	for _, path := range []string{r.GetLogDirectory(), filepath.Join(r.GetLogDirectory(), "stderr")} {
		if got := owner(t, path); got != uid {
			t.Errorf("%s is uid %d's: want %d's", path, got, uid)
		}
	}
	// Its record is the agent's.
	record := filepath.Join(s.config.StateDir, "engines", a.GetId(), "record")
	if info, err := os.Stat(record); err != nil || info.Mode().Perm() != 0o600 || owner(t, record) != uint32(os.Geteuid()) {
		t.Errorf("%v, %v", info, err)
	}
}

func TestEndOfALaunchedEngineIsToldWithItsLastLines(t *testing.T) {
	s := launcher(t)
	for script, want := range map[string]struct {
		reason, output string
		exit           *bursarv1.ExitStatus
	}{
		"echo out; echo one >&2; echo two >&2; exit 3": {"exit code 3", "one\ntwo", &bursarv1.ExitStatus{Code: new(int32(3))}},
		"echo warning >&2; exit 0":                     {"exit code 0", "", &bursarv1.ExitStatus{Code: new(int32(0))}},
		"kill -9 $$":                                   {"killed by SIGKILL", "", &bursarv1.ExitStatus{Signal: 9}},
		"echo x >&2; kill -6 $$":                       {"killed by SIGABRT", "x", &bursarv1.ExitStatus{Signal: 6}},
		"printf '\\033[1mé\\377\\n' >&2; exit 1":       {"exit code 1", "[1mé\uFFFD", &bursarv1.ExitStatus{Code: new(int32(1))}},
	} {
		t.Run(script, func(t *testing.T) {
			r := s.mustLaunch(script, asNobody)
			got := s.coordinator.awaitState(r.GetAllocation().GetId(), released)
			if got.GetReason() != want.reason || got.GetErrorOutput() != want.output || !proto.Equal(got.GetExitStatus(), want.exit) {
				t.Errorf("%q, %q, %v: want %q, %q, %v", got.GetReason(), got.GetErrorOutput(), got.GetExitStatus(), want.reason, want.output, want.exit)
			}
		})
	}
}

func TestWhatAnEngineWritesIsNotInTheAgentsLog(t *testing.T) {
	s := newLauncher(t)
	s.start()
	r := s.mustLaunch("echo jdbc:db://host?password=hunter2 >&2; exit 3", asNobody)
	if got := s.coordinator.awaitState(r.GetAllocation().GetId(), released); !strings.Contains(got.GetErrorOutput(), "hunter2") {
		t.Errorf("%v", got)
	}
	s.stop()
	if text := s.log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "an engine has ended") {
		t.Error(text)
	}
}

func TestLastLinesFit(t *testing.T) {
	s := launcher(t)
	r := s.mustLaunch("for i in 1 2 3 4 5 6 7 8 9; do printf '%d%0200d\\n' $i 0 >&2; done; exit 3", asNobody)
	got := s.coordinator.awaitState(r.GetAllocation().GetId(), released).GetErrorOutput()
	if !strings.HasPrefix(got, "6000") || len(got) > 1000 || strings.Count(got, "\n") != 3 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	r = s.mustLaunch("printf '%02000d\\n' 7 >&2; exit 3", asNobody)
	if got := s.coordinator.awaitState(r.GetAllocation().GetId(), released).GetErrorOutput(); len(got) != 1000 || !strings.HasPrefix(got, "000") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestStoppedEngineSaysWhyItWasStopped(t *testing.T) {
	s := launcher(t)
	r := s.mustLaunch("trap 'echo bye >&2; exit 5' TERM; echo up; while :; do sleep 0.01; done", asNobody)
	until(t, "the engine is up", func() bool {
		out, _ := os.ReadFile(filepath.Join(r.GetLogDirectory(), "stdout"))
		return len(out) > 0
	})
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: r.GetAllocation().GetId(), Reason: "drain"}); err != nil {
		t.Fatal(err)
	}
	got := s.coordinator.awaitState(r.GetAllocation().GetId(), released)
	if got.GetReason() != "stopped: drain" || got.GetExitStatus().GetCode() != 5 {
		t.Errorf("%q, %v", got.GetReason(), got.GetExitStatus())
	}
}

func TestLaunchAgainReturnsWhatRuns(t *testing.T) {
	s := launcher(t)
	q := &bursarv1.LaunchRequest{Id: s.allocate(10).GetId(), Command: []string{"sleep", "1000"}, WorkingDirectory: "/"}
	results := make(chan *bursarv1.LaunchResponse, 4)
	for range cap(results) {
		go func() {
			r, err := s.launchAgain(q)
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	first := <-results
	for range cap(results) - 1 {
		if again := <-results; again.GetAllocation().GetProcess().GetPid() != first.GetAllocation().GetProcess().GetPid() || again.GetLogDirectory() != first.GetLogDirectory() {
			t.Errorf("%v: want %v", again, first)
		}
	}
	s.crash()
	s.start()
	if again, err := s.launchAgain(q); err != nil || again.GetAllocation().GetProcess().GetPid() != first.GetAllocation().GetProcess().GetPid() {
		t.Errorf("after a restart: %v, %v", again, err)
	}
	// What a launcher has started is not what a Launch has.
	a, _ := s.engine(10, "exec sleep 1000")
	if _, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{"sleep", "1000"}}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("of an engine that was confirmed: %v", err)
	}
}

func TestEngineThatEndsWhileNoAgentRunsIsReleasedWithHowItEnded(t *testing.T) {
	s := launcher(t)
	lives := s.mustLaunch("exec sleep 1000", asNobody).GetAllocation()
	launched := s.mustLaunch("echo last words >&2; sleep 1000; exit 7", asNobody)
	dies := launched.GetAllocation()
	until(t, "it has said its last words", func() bool {
		said, err := os.ReadFile(filepath.Join(launched.GetLogDirectory(), "stderr"))
		return err == nil && len(said) > 0
	})
	s.stop()
	record := filepath.Join(s.config.StateDir, "engines", dies.GetId(), "record")
	if err := syscall.Kill(-int(dies.GetProcess().GetPid()), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	until(t, "its end is written down", func() bool {
		info, err := os.Stat(record)
		return err == nil && info.Size() > 0
	})
	s.start()
	got := s.coordinator.awaitState(dies.GetId(), released)
	if got.GetReason() != "killed by SIGUSR1" || got.GetErrorOutput() != "last words" || got.GetExitStatus().GetSignal() != int32(syscall.SIGUSR1) {
		t.Errorf("%q, %v", got.GetReason(), got.GetExitStatus())
	}
	s.ticks(2)
	s.coordinator.awaitState(lives.GetId(), active)
	if err := syscall.Kill(int(lives.GetProcess().GetPid()), 0); err != nil {
		t.Errorf("the engine that lives: %v", err)
	}
}

func TestEngineOfARefusedConfirmationIsEnded(t *testing.T) {
	s := launcher(t)
	pid := filepath.Join(folder(t), "pid")
	if err := os.WriteFile(pid, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	a := s.allocate(10)
	s.coordinator.do(func() { s.coordinator.refuseConfirm = true })
	_, err := s.launchAgain(&bursarv1.LaunchRequest{
		Id: a.GetId(), Command: []string{"sh", "-c", "echo $$ > " + pid + "; exec sleep 1000"}, WorkingDirectory: "/",
	})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%v", err)
	}
	until(t, "the engine has ended", func() bool {
		text, _ := os.ReadFile(pid)
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		// before it could say its pid, or after
		return err != nil || errors.Is(syscall.Kill(number, 0), syscall.ESRCH)
	})
	s.coordinator.awaitState(a.GetId(), reserved)
	if _, err := os.Stat(filepath.Join(s.config.StateDir, "engines", a.GetId())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its record: %v", err)
	}
	// The reservation is still good.
	s.coordinator.do(func() { s.coordinator.refuseConfirm = false })
	if _, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{"sleep", "1000"}, WorkingDirectory: "/"}); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeLaunchedIsNamed(t *testing.T) {
	s := launcher(t)
	for name, test := range map[string]struct {
		change func(*bursarv1.LaunchRequest)
		field  string
	}{
		"a program that is not there": {func(q *bursarv1.LaunchRequest) { q.Command[0] = "/no/such" }, "command[0]"},
		"an empty program":            {func(q *bursarv1.LaunchRequest) { q.Command[0] = "" }, "command[0]"},
		"a directory that is not":     {func(q *bursarv1.LaunchRequest) { q.WorkingDirectory = "/no/such" }, "working_directory"},
		"logs where none can be":      {func(q *bursarv1.LaunchRequest) { q.Logs = &bursarv1.LaunchLogs{Directory: "/proc"} }, "logs.directory"},
		"a user that is not":          {func(q *bursarv1.LaunchRequest) { q.User = "no-such-user" }, "user"},
		"an option for a user":        {func(q *bursarv1.LaunchRequest) { q.User = "--help" }, "user"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.launch("exec sleep 1000", test.change)
			if connect.CodeOf(err) != connect.CodeInvalidArgument || field(err) != test.field {
				t.Errorf("%v: field %q, want %q", err, field(err), test.field)
			}
		})
	}
	if ids, err := launch.Records(filepath.Join(s.config.StateDir, "engines")).List(); err != nil || len(ids) > 0 {
		t.Errorf("records: %v, %v", ids, err)
	}
}

func TestNobodyLaunchesAsOrForSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to play several users")
	}
	s := launcher(t)
	mine := s.allocate(10).GetId()
	if got := s.as(nobody, "launch", mine, "nobody", "sleep", "1000"); !strings.HasPrefix(got, "permission_denied") {
		t.Errorf("for another: %s", got)
	}
	theirs := s.as(nobody, "allocate")
	s.coordinator.do(func() {
		s.coordinator.put(s.coordinator.allocations[theirs], func(a *bursarv1.Allocation) { a.Labels = map[string]string{"user": "nobody"} })
	})
	for _, user := range []string{"root", "0", "daemon", "1"} {
		if got := s.as(nobody, "launch", theirs, user, "sleep", "1000"); !strings.HasPrefix(got, "permission_denied") {
			t.Errorf("as %s: %s", user, got)
		}
	}
	if got := s.as(nobody, "launch", theirs, "nobody", "sleep", "1000"); got != "launched" {
		t.Fatal(got)
	}
	a := s.coordinator.awaitState(theirs, active)
	proc.KillAtEnd(t, int(a.GetProcess().GetPid()))
	if got := owner(t, fmt.Sprintf("/proc/%d", a.GetProcess().GetPid())); got != nobody {
		t.Errorf("the engine is uid %d's", got)
	}
	// A trusted user may act as anybody but root.
	s.stop()
	s.config.TrustedUsers = []string{strconv.Itoa(nobody)}
	s.start()
	if got := s.as(nobody, "launch", s.allocate(10).GetId(), "root", "sleep", "1000"); !strings.HasPrefix(got, "permission_denied") {
		t.Errorf("as root, by somebody trusted: %s", got)
	}
	third := s.allocate(10).GetId()
	if got := s.as(nobody, "launch", third, "daemon", "sleep", "1000"); !strings.HasPrefix(got, "permission_denied") {
		t.Errorf("as an account of the system, which is not listed: %s", got)
	}
	s.stop()
	s.config.Engines.SystemUsers = []string{"daemon"}
	s.start()
	if got := s.as(nobody, "launch", third, "daemon", "sleep", "1000"); got != "launched" {
		t.Error(got)
	}
	daemon := s.coordinator.awaitState(third, active)
	proc.KillAtEnd(t, int(daemon.GetProcess().GetPid()))
}

// A uid without an account is itself, with the group that it calls with.
func TestACallerWithoutAnAccountLaunchesAsItsUID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to play several users")
	}
	const nameless = 1_234_567
	s := launcher(t)
	id := s.as(nameless, "allocate")
	s.coordinator.do(func() {
		s.coordinator.put(s.coordinator.allocations[id], func(a *bursarv1.Allocation) { a.Labels = map[string]string{"user": strconv.Itoa(nameless)} })
	})
	if got := s.as(nameless, "launch", id, strconv.Itoa(nameless+1), "sleep", "1000"); !strings.HasPrefix(got, "permission_denied") {
		t.Errorf("as another: %s", got)
	}
	if got := s.as(nameless, "launch", id, strconv.Itoa(nameless), "sleep", "1000"); got != "launched" {
		t.Fatal(got)
	}
	pid := s.coordinator.awaitState(id, active).GetProcess().GetPid()
	proc.KillAtEnd(t, int(pid))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, want := range []string{"Uid:\t1234567\t1234567\t1234567\t1234567\n", "Gid:\t1234567\t1234567\t1234567\t1234567\n", "Groups:\t1234567 \n"} {
		if err != nil || !strings.Contains(string(status), want) {
			t.Errorf("%v: want %q in %s", err, want, status)
		}
	}
}

func TestRecordsGoWithTheirAllocations(t *testing.T) {
	s := launcher(t)
	lives := s.mustLaunch("exec sleep 1000").GetAllocation().GetId()
	dies := s.mustLaunch("exit 3").GetAllocation().GetId()
	s.coordinator.awaitState(dies, released)
	left := filepath.Join(s.config.StateDir, "engines", "of-a-launch-that-a-crash-has-cut")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	s.stop() // it looks at its start, and once a minute
	s.start()
	until(t, "the records are gone", func() bool {
		_, err := os.Stat(left)
		_, endErr := os.Stat(filepath.Join(s.config.StateDir, "engines", dies))
		return errors.Is(err, fs.ErrNotExist) && errors.Is(endErr, fs.ErrNotExist)
	})
	if _, err := os.Stat(filepath.Join(s.config.StateDir, "engines", lives, "record")); err != nil {
		t.Error(err)
	}
}

// An engine that its user has robbed of its keeper still ends in the ledger.
func TestEngineWithoutAKeeperIsReleasedToo(t *testing.T) {
	s := launcher(t)
	a := s.mustLaunch("exec sleep 1000", asNobody).GetAllocation()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.GetProcess().GetPid()))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := strconv.Atoi(strings.Fields(string(text))[3])
	if err != nil || parent <= 1 {
		t.Fatalf("parent %d, %v", parent, err)
	}
	if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ticks(2)
	s.coordinator.awaitState(a.GetId(), active)
	if err := syscall.Kill(int(a.GetProcess().GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.coordinator.awaitState(a.GetId(), released)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("its record was waited for only %v", took)
	}
}

package launch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/internal/hold"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/test/proc"
)

func TestMain(m *testing.M) {
	hold.Wait()                        // by then it goes by the name of an engine
	switch filepath.Base(os.Args[0]) { // this binary is the keeper, too
	case "bursar-keeper":
		os.Exit(keeper.Main())
	case "mute-keeper":
		_, _ = os.Stdin.Read(make([]byte, 1<<20))
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the agent is gone
		os.Exit(0)
	case "dead-keeper":
		os.Exit(3)
	case "lying-keeper":
		_, _ = os.Stdout.WriteString(`{"pid":1,"start_time":1}` + "\n")
		os.Exit(0)
	}
	if os.Getenv(asAgent) != "" {
		os.Exit(beAgent())
	}
	goleak.VerifyTestMain(m)
}

// launcher launches as this user, with this binary for a keeper.
func launcher(t *testing.T, keeperName string) (*Launcher, *Direct) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, keeperName)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	direct := &Direct{}
	return &Launcher{Spawner: direct, Keeper: program, Records: Records(filepath.Join(dir, "engines")), LogDir: filepath.Join(dir, "logs")}, direct
}

func request(command ...string) Request {
	user := osuser.Self()
	user.Name, user.Home = "me", "/"
	return Request{ID: "a1", User: user, Command: command}
}

func TestEngineGetsTheEnvironmentOfItsUser(t *testing.T) {
	r := request("env")
	r.User = osuser.User{Name: "alice", UID: 1000, Home: "/users/alice", Shell: "/bin/zsh"}
	r.Environment = map[string]string{"SHELL": "/bin/false", "X": "a b", "BURSAR_ALLOCATION_ID": "forged"}
	r.Added = map[string]string{"BURSAR_ALLOCATION_ID": "a1"}
	want := []string{
		"BURSAR_ALLOCATION_ID=a1", "HOME=/users/alice", "LOGNAME=alice", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/false", "USER=alice", "X=a b",
	}
	if diff := cmp.Diff(want, environment(r)); diff != "" {
		t.Error(diff)
	}
	r.User.UID = 0
	if got := environment(r)[3]; !strings.Contains(got, "/sbin") {
		t.Errorf("root has %s", got)
	}
}

// A folder for logs that the agent has made, and its user cannot get to, is the operator's to mend:
// the caller has named none.
func TestFolderForLogsThatItsUserCannotGetTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	l, direct := launcher(t, "bursar-keeper")
	dir, err := os.MkdirTemp("", "launch") //nolint:usetesting // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	l.Keeper, l.LogDir = filepath.Join(dir, "bursar-keeper"), filepath.Join(dir, "closed", "engines")
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(l.Keeper, self, 0o755), os.Mkdir(filepath.Dir(l.LogDir), 0o700)); err != nil {
		t.Fatal(err)
	}
	r := request("true")
	r.User = osuser.User{Name: "alice", UID: 65534, GID: 65534, Home: "/", Shell: "/bin/sh"}
	_, err = l.Start(t.Context(), r)
	wrong, is := errors.AsType[*LogDirError](err)
	if !is || wrong.LogDir != l.LogDir || wrong.User != "alice" || !strings.Contains(err.Error(), "engines.logDir") || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}
	if err := os.Chmod(filepath.Dir(l.LogDir), 0o711); err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, direct)
}

func TestEngineGoesOnOnceItIsConfirmed(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	s, err := l.Start(t.Context(), request("sh", "-c", "echo $HOME; exit 4"))
	if err != nil {
		t.Fatal(err)
	}
	if s.PID <= 1 || s.StartTime == 0 || s.Cgroup != "" {
		t.Errorf("%+v", s)
	}
	if err := s.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, direct)
	record, err := l.Records.End("a1")
	if err != nil || record.Exit.Code == nil || *record.Exit.Code != 4 || record.OutOfMemory {
		t.Errorf("%+v, %v", record, err)
	}
	if out, err := os.ReadFile(filepath.Join(s.LogDir, "stdout")); err != nil || string(out) != "/\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// await waits until every keeper has ended and has been taken note of.
func await(t *testing.T, direct *Direct) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for running := true; running; {
		if time.Now().After(deadline) {
			t.Fatal("a keeper does not end")
		}
		direct.Reap()
		direct.mu.Lock()
		running = len(direct.children) > 0
		direct.mu.Unlock()
	}
}

// The agent may be killed while a launch is under way: it has noted the keeper before there is an
// engine.
func TestAKeeperIsToldOfBeforeItStartsItsEngine(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	begun := filepath.Join(t.TempDir(), "begun")
	var told Spawned
	l.Spawned = func(s Spawned) {
		told = s
		if _, err := os.Stat(begun); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its engine has begun: %v", err)
		}
	}
	s, err := l.Start(t.Context(), request("sh", "-c", ": >"+begun+"; exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	if told.PID <= 1 || told != s.Keeper {
		t.Errorf("told %+v of %+v", told, s.Keeper)
	}
	s.Abandon()
	await(t, direct)
}

// Between fork and exec, a child shares the memory of the thread that waits for it. A child that
// had its user there already could be stopped by that user, and the agent waited for ever.
func TestAUserThatStopsItsProcessesDoesNotHoldALaunch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	const victim = 64901
	proc.StopNewest(t, victim)
	l, direct := launcher(t, "bursar-keeper")
	done := make(chan error, 1)
	go func() {
		var err error
		for range 50 {
			err = errors.Join(err, spawnOf(t.Context(), l, direct, osuser.User{Name: "victim", UID: victim, GID: victim}))
		}
		done <- err
	}()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-timer.C:
		t.Fatal("a keeper that its user has stopped holds the agent")
	}
	direct.mu.Lock()
	for _, child := range direct.children {
		_ = child.Kill() // some are stopped, and do not see that nobody tells them anything
	}
	direct.mu.Unlock()
	await(t, direct)
}

// spawnOf starts a keeper, of which nothing more is wanted.
func spawnOf(ctx context.Context, l *Launcher, direct *Direct, u osuser.User) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	_, err = direct.Spawn(ctx, Spawn{ID: "a1", User: u, Stdin: null, Stdout: null, Record: null, Keeper: l.Keeper})
	return err
}

func TestAbandonedEngineEnds(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	s, err := l.Start(t.Context(), request("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	engine := proc.Hold(t, int(s.PID))
	s.Abandon()
	await(t, direct)
	if engine.There() {
		t.Error("the engine is there")
	}
	if _, err := l.Records.End("a1"); !errors.Is(err, ErrNone) {
		t.Errorf("its record: %v", err)
	}
}

func TestNothingIsLeftOfWhatDidNotStart(t *testing.T) {
	for name, test := range map[string]struct {
		keeper string
		change func(*Launcher, *Request)
		field  string
	}{
		"a wrong program":          {"bursar-keeper", func(_ *Launcher, r *Request) { r.Command[0] = "/no/such" }, "command[0]"},
		"no program":               {"bursar-keeper", func(_ *Launcher, r *Request) { r.Command = nil }, "command[0]"},
		"a home that is not there": {"bursar-keeper", func(_ *Launcher, r *Request) { r.User.Home = "/no/such" }, "working_directory"},
		"a home that is no path":   {"bursar-keeper", func(_ *Launcher, r *Request) { r.User.Home = "none" }, ""},
		"no keeper":                {"bursar-keeper", func(l *Launcher, _ *Request) { l.Keeper = "/no/such" }, ""},
		"a keeper that ends":       {"dead-keeper", func(*Launcher, *Request) {}, ""},
		"a keeper that lies":       {"lying-keeper", func(*Launcher, *Request) {}, ""},
		"a bad id":                 {"bursar-keeper", func(_ *Launcher, r *Request) { r.ID = "../x" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, direct := launcher(t, test.keeper)
			r := request("sleep", "1000")
			test.change(l, &r)
			_, err := l.Start(t.Context(), r)
			field, _ := errors.AsType[*FieldError](err)
			if err == nil || field != nil && field.Field != test.field || field == nil && test.field != "" {
				t.Errorf("%v", err)
			}
			await(t, direct)
			if ids, err := l.Records.List(); err != nil || len(ids) > 0 {
				t.Errorf("records: %v, %v", ids, err)
			}
		})
	}
}

func TestKeeperThatSaysNothingIsNotWaitedFor(t *testing.T) {
	l, direct := launcher(t, "mute-keeper")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.Start(ctx, request("sleep", "1000")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	await(t, direct)
}

func TestEngineIsKilledNoSoonerThanOthersAndItsKeeperLast(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	s, err := l.Start(t.Context(), request("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	direct.mu.Lock()
	keeper := direct.children[0].Pid
	direct.mu.Unlock()
	wantKeeper := "-900\n"
	if !mayProtect(t) {
		wantKeeper = "0\n"
	}
	for pid, want := range map[int]string{keeper: wantKeeper, int(s.PID): "0\n"} {
		if got, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj")); err != nil || string(got) != want {
			t.Errorf("%d: %q, %v: want %q", pid, got, err, want)
		}
	}
	s.Abandon()
	await(t, direct)
}

// Its helper starts later, and would be spared with it.
func TestAKeeperWithAHelperIsSparedOnceItIsProtected(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	r := request("sleep", "1000")
	r.Look = &keeper.Look{File: "/none", Interval: time.Second, Limit: time.Second, Within: time.Minute}
	s, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	score := func() string {
		got, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(s.Keeper.PID)), "oom_score_adj"))
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := score(); got != "0\n" {
		t.Errorf("%q", got)
	}
	ref := process.Ref{PID: s.Keeper.PID, StartTime: 1}
	Protect(ref, func(process.Ref) bool { return false })
	if got := score(); got != "0\n" {
		t.Errorf("another process is protected: %q", got)
	}
	Protect(ref, func(asked process.Ref) bool { return asked == ref })
	if got := score(); mayProtect(t) && got != "-900\n" {
		t.Errorf("%q", got)
	}
	s.Abandon()
	await(t, direct)
}

// mayProtect reports whether this process may keep others from being killed for lack of memory,
// which not even every root may.
func mayProtect(t *testing.T) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj"), []byte(keeperScore), 0)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return err == nil
}

package ready_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/test/proc"
)

// nobody is a user that owns nothing here.
const nobody = 65534

// asListener makes the test's program one that listens: "listen NETWORK ADDRESS", or "threads
// NETWORK ADDRESS", whose first thread ends. It says a line once it does.
const asListener = "BURSAR_TEST_LISTENER"

// programs are the keeper and the test's own program, where every user can start them.
var programs struct{ keeper, listener string }

func TestMain(m *testing.M) {
	if what := os.Getenv(asListener); what != "" {
		beListener(strings.Fields(what))
		return
	}
	os.Exit(runTests(m))
}

func beListener(what []string) {
	listener, err := net.Listen(what[1], what[2])
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = fmt.Fprintln(os.Stdout, "listens on", listener.Addr())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			if _, err := listener.Accept(); err != nil {
				return
			}
		}
	})
	if what[0] == "threads" {
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread, which is the first one
	}
	serving.Wait()
}

func init() { //nolint:gochecknoinits // the only way to keep the main goroutine on the first thread
	if strings.HasPrefix(os.Getenv(asListener), "threads") {
		lockFirstThread()
	}
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ready")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.keeper, programs.listener = filepath.Join(dir, "bursar-keeper"), filepath.Join(dir, "listener")
	build := proc.Build{Into: programs.keeper, Packages: []string{"./cmd/bursar-keeper"}}
	err = build.Run(context.Background())
	if err == nil {
		err = errors.Join(copyFile(programs.listener), os.Chmod(dir, 0o755))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// copyFile copies this program.
func copyFile(to string) error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// agent is the part of an agent that launches engines and follows them.
type agent struct {
	t        *testing.T
	direct   launch.Direct
	launcher launch.Launcher
	meter    *host.Meter
	opener   *process.Opener
	watcher  *ready.Watcher
	user     osuser.User
	others   []process.Ref
	launched int
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, meter: meter, opener: process.NewOpener(meter, "/proc"), user: osuser.Self()}
	if os.Geteuid() == 0 {
		a.user = osuser.User{Name: "nobody", UID: nobody, GID: nobody, Groups: []uint32{nobody}, Home: "/", Shell: "/bin/sh"}
	}
	a.launcher = launch.Launcher{Spawner: &a.direct, Keeper: programs.keeper, Records: launch.Records(t.TempDir()), LogDir: a.folder()}
	a.watcher = ready.New(ready.Deps{
		Proc: "/proc", Records: a.launcher.Records, Opener: a.opener, Others: func() []process.Ref { return a.others },
	})
	t.Cleanup(a.watcher.Wait)
	return a
}

// folder is a directory that every user may enter; if this is root, the engine's user owns it.
func (a *agent) folder() string {
	a.t.Helper()
	dir, err := os.MkdirTemp("", "ready")
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, int(a.user.UID), int(a.user.GID))); err != nil {
		a.t.Fatal(err)
	}
	return dir
}

// engine is one that a test has launched.
type engine struct {
	ready.Engine

	agent  *agent
	check  ready.Check
	logDir string
}

// launch launches an engine that runs a script of the shell, with a check.
func (a *agent) launch(script string, spec ready.Spec, changes ...func(*launch.Request)) *engine {
	a.t.Helper()
	if err := spec.Check(); err != nil {
		a.t.Fatal(err)
	}
	a.launched++
	request := launch.Request{
		ID: "e" + strconv.Itoa(a.launched), User: a.user, Command: []string{"/bin/sh", "-c", script}, WorkingDirectory: a.folder(),
		Environment: map[string]string{"LISTENER": programs.listener},
	}
	request.Look = spec.Look(request.WorkingDirectory)
	for _, change := range changes {
		change(&request)
	}
	starting, err := a.launcher.Start(a.t.Context(), request)
	if err != nil {
		a.t.Fatal(err)
	}
	reaper, err := a.meter.Identify(starting.Keeper.PID)
	if err != nil {
		a.t.Fatal(err)
	}
	e := &engine{agent: a, check: spec.Stored(), logDir: starting.LogDir, Engine: ready.Engine{
		ID: request.ID, Root: process.Ref{PID: starting.PID, StartTime: starting.StartTime},
		Reaper: process.Ref{PID: reaper.PID, StartTime: reaper.StartTime}, Begun: time.Now(),
	}}
	a.t.Cleanup(e.end)
	if err := starting.Confirm(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	return e
}

// end ends an engine with its keeper, and all that they have started.
func (e *engine) end() {
	uid := e.agent.user.UID
	if err := e.agent.opener.Stop(context.Background(), process.Engine{Root: e.Reaper, User: &uid}, 0); err != nil {
		e.agent.t.Errorf("the engine cannot be ended: %v", err)
	}
	e.agent.direct.Reap()
}

// watch begins to follow an engine.
func (e *engine) watch() <-chan ready.Result {
	return e.agent.watcher.Watch(e.agent.t.Context(), e.Engine, e.check)
}

// result waits for the result of a Watch.
func (e *engine) result(results <-chan ready.Result) ready.Result {
	e.agent.t.Helper()
	select {
	case result, sent := <-results:
		if !sent {
			e.agent.t.Fatal("there is no result")
		}
		return result
	case <-time.After(40 * time.Second):
		e.agent.t.Fatalf("no result in time; its record: %s", e.record())
	}
	return ready.Result{}
}

func (e *engine) record() string {
	content, _ := os.ReadFile(filepath.Join(string(e.agent.launcher.Records), e.ID, "record"))
	return string(content)
}

// reason waits until the engine's helper has noted a reason with a text in it.
func (e *engine) reason(text string) {
	e.agent.t.Helper()
	proc.Eventually(e.agent.t, 20*time.Second, 20*time.Millisecond, "a reason with "+text, func() error {
		looked, err := e.agent.launcher.Records.Looked(e.ID)
		if err != nil || !strings.Contains(looked.Reason, text) {
			return fmt.Errorf("%+v, %w", looked, err)
		}
		return nil
	})
}

// below are the processes below the engine's keeper.
func (e *engine) below() []string {
	refs, err := process.Descendants("/proc", e.Reaper)
	if err != nil {
		return nil
	}
	var names []string
	for _, ref := range refs {
		if ref == e.Reaper {
			continue
		}
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(int(ref.PID)) + "/cmdline")
		names = append(names, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return names
}

// helper waits until the engine has a helper, and returns its pid.
func (e *engine) helper() (pid int) {
	e.agent.t.Helper()
	proc.Eventually(e.agent.t, 20*time.Second, 10*time.Millisecond, "a helper", func() error {
		refs, err := process.Descendants("/proc", e.Reaper)
		for _, ref := range refs {
			line, _ := os.ReadFile("/proc/" + strconv.Itoa(int(ref.PID)) + "/cmdline")
			if strings.HasPrefix(string(line), "bursar-keeper\x00"+keeper.LookMode+"\x00") {
				pid = int(ref.PID)
				return nil
			}
		}
		return fmt.Errorf("none below the keeper: %w", err)
	})
	return pid
}

// fifo makes a FIFO that the engine's user may read.
func (a *agent) fifo() string {
	a.t.Helper()
	name := filepath.Join(a.folder(), "fifo")
	if err := errors.Join(syscall.Mkfifo(name, 0o666), os.Chmod(name, 0o666)); err != nil {
		a.t.Fatal(err)
	}
	return name
}

// say writes a line to a FIFO that an engine reads, once it does.
func (a *agent) say(fifo string) {
	a.t.Helper()
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		a.t.Error(err)
	}
}

func (a *agent) port() int32 {
	a.t.Helper()
	port, err := proc.FreePort("0.0.0.0") // at all addresses
	if err != nil {
		a.t.Fatal(err)
	}
	return int32(port)
}

// listen is a part of a script that listens.
func listen(address string, port int32) string {
	return fmt.Sprintf("%s=%q \"$LISTENER\"", asListener, fmt.Sprintf("listen tcp4 %s:%d", address, port))
}

// start starts a process that is no engine's, and returns when it has said a line.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	proc.StartGroup(t, cmd)
	if _, err := out.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
}

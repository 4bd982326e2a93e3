package exec

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/command"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/proc"
)

// public makes a folder below /tmp that everybody may enter and only its owner may write to.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "exec") //nolint:usetesting // everybody must be able to enter all folders above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// script writes a shell script and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(public(t), "queues")
	err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o600)
	if err = errors.Join(err, os.Chmod(file, 0o755)); err != nil {
		t.Fatal(err)
	}
	return file
}

// settingsOf returns settings for a command, plus more. If the test runs as root, the command runs
// as nobody.
func settingsOf(program string, more ...string) map[string]string {
	settings := map[string]string{"command": program, "timeout": "30s"}
	if os.Geteuid() == 0 {
		settings["user"] = "nobody"
	}
	for i := 0; i+1 < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return settings
}

func open(t *testing.T, settings map[string]string) providers.Provider {
	t.Helper()
	p, err := Kind().Open("licences", settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestSnapshotIsWhatTheCommandPrints(t *testing.T) {
	program := script(t, `
cat <<END
{"version": 1, "incarnation": "$2", "queues": [
  {"path": "licences", "limit": {"custom": {"$1": 10}}, "used": {"custom": {"$1": 4}}}],
 "applications": [{"id": "job-1", "queue": "licences", "allocated": {"custom": {"$1": 3}}}]}
END`)
	p := open(t, settingsOf(`["`+program+`", "MATLAB", "two words; $(exit 1)"]`))
	got, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	matlab := func(n int64) resource.Vector { return resource.Vector{}.With("MATLAB", n) }
	want := providers.Snapshot{
		Server: program, Incarnation: "two words; $(exit 1)", Queues: []providers.Queue{{Path: "licences", Limit: matlab(10), Used: matlab(4)}},
	}
	equal := cmp.Comparer(resource.Vector.Equal)
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Error(diff)
	}
	applications, err := p.Applications(t.Context(), []string{"job-2", "job-1", "job-2"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]providers.Application{
		{ID: "job-1", Known: true, Queue: "licences", Allocated: map[string]resource.Vector{"": matlab(3)}}, {ID: "job-2"},
	}, applications, equal); diff != "" {
		t.Error(diff)
	}
}

const oneQueue = `{"version":1,"queues":[{"path":"a"}]}`

func TestWithoutAListOfApplicationsNoneIsAnswered(t *testing.T) {
	p := open(t, settingsOf(script(t, "echo '"+oneQueue+"'")))
	if _, err := p.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Applications(t.Context(), []string{"job-1"}); len(got) > 0 || !errors.Is(err, errNoList) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWhatTheCommandIsGiven(t *testing.T) {
	t.Setenv("EXEC_NAMED", "from the coordinator")
	t.Setenv("EXEC_SECRET", "secret")
	dir := public(t)
	p := open(t, settingsOf(script(t, `echo '{"version":1,"queues":[{"path":"a","state":"'"$(pwd) $EXEC_NAMED, $EXEC_GIVEN, $EXEC_SECRET, $PATH, $LANG"'"}]}'`),
		"directory", dir, "environment", `["EXEC_NAMED", "EXEC_GIVEN=a=b", "EXEC_ABSENT"]`))
	got, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := dir + " from the coordinator, a=b, , " + defaultPath + ", " + defaultLang; got.Queues[0].State != want {
		t.Errorf("%q, want %q", got.Queues[0].State, want)
	}
}

func TestTheCommandRunsAsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, as for other tests of users")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	program := script(t, `echo '{"version":1,"queues":[{"path":"a","state":"'"$(id -u) $(id -g)"'"}]}'`)
	for _, name := range []string{"nobody", nobody.Uid} {
		got, err := open(t, settingsOf(program, "user", name)).Snapshot(t.Context())
		if err != nil || got.Queues[0].State != nobody.Uid+" "+nobody.Gid {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestCommandsThatGiveNoAnswer(t *testing.T) {
	shared := script(t, "echo '"+oneQueue+"'")
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	secret := script(t, "echo '"+oneQueue+"'")
	if err := os.Chmod(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	noScript := script(t, "")
	if err := os.WriteFile(noScript, []byte("echo a"), 0); err != nil {
		t.Fatal(err)
	}
	ofDOS := script(t, "")
	if err := os.WriteFile(ofDOS, []byte("#!/bin/sh\r\necho a\r\n"), 0); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"lines of DOS":      {settingsOf(ofDOS), "it could not be started: fork/exec " + ofDOS + ": no such file or directory: want the interpreter that its first line names (#!), and no carriage"},
		"exit status":       {settingsOf(script(t, "echo '"+oneQueue+"'; echo connecting >&2; echo 'no licence server' >&2; exit 3")), "exit status 3: connecting / no licence server"},
		"no JSON":           {settingsOf(script(t, "echo warming up; echo 'deprecated' >&2")), `standard output: "warming up": want one JSON object (`},
		"nothing":           {settingsOf(script(t, "echo 'who are you?' >&2")), "standard output: missing: want one JSON object; the command printed nothing there: who are you?"},
		"nonsense":          {settingsOf(script(t, `echo '{"version":1,"queues":[{"path":"a","limit":{"cpu":-1}}]}'`)), "queues[0].limit.cpu: -1: want cores"},
		"too much":          {settingsOf(script(t, "exec yes"), "maxBytes", "4KiB"), "it printed more than 4096 bytes: want less, or more in the setting maxBytes"},
		"others may change": {settingsOf(shared), "it does not run: " + shared + " is owned by uid " + strconv.Itoa(os.Geteuid()) + " and has mode 0777: want that neither its group nor others may write to it"},
		"not there":         {settingsOf("/usr/no/such/program"), "it does not run: lstat /usr/no: no such file or directory"},
		"a folder":          {settingsOf("/usr"), "it does not run: /usr has mode drwxr-xr-x: want a file that can be executed"},
		"no directory":      {settingsOf("/bin/true", "directory", "/no/such"), "its working directory: stat /no/such: no such file or directory"},
		"a file":            {settingsOf("/bin/true", "directory", "/etc/passwd"), "its working directory: /etc/passwd is no directory"},
		"no script":         {settingsOf(noScript), "it could not be started: fork/exec " + noScript + ": exec format error: want a program of this machine, or a script with #! and"},
		"not nobody's":      {settingsOf(secret), "it could not be started: fork/exec " + secret + ": permission denied: want that user \"nobody\" may execute it, and enter its folder and /"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, test.settings).Snapshot(t.Context())
			wrong, is := errors.AsType[*CommandError](err)
			if !is || !strings.HasPrefix(err.Error(), wrong.Path+": "+test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestACommandThatHangsIsKilledWithItsChildren(t *testing.T) {
	errCaller := errors.New("the caller's time is over")
	for name, test := range map[string]struct {
		timeout string
		cancel  bool // the caller cancels the run
		want    string
	}{
		"its own timeout": {"3s", false, "no answer within 3s: still waiting"},
		"the caller's":    {"1m", true, errCaller.Error() + ": still waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(public(t), "pid")
			if err := errors.Join(unix.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			child := make(chan int, 1)
			go func() {
				data, _ := os.ReadFile(fifo) // blocks until the command has opened, written and closed it
				pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
				child <- pid
				if test.cancel {
					cancel(errCaller)
				}
			}()
			program := script(t, "sleep 3600 & echo still waiting >&2; echo $! >"+fifo+"; wait")
			if _, err := open(t, settingsOf(program, "timeout", test.timeout)).Snapshot(ctx); err == nil || err.Error() != program+": "+test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
			pid := <-child
			proc.Until(t, 20*time.Second, 5*time.Millisecond, "its child has ended", func() bool { return !proc.Alive(pid) })
		})
	}
}

func TestACommandThatCannotBeKilledDoesNotRunAgain(t *testing.T) {
	p, ok := open(t, settingsOf(script(t, "echo '"+oneQueue+"'"))).(*Provider)
	if !ok {
		t.Fatal("another provider")
	}
	gone := make(chan struct{})
	p.undead = gone
	if _, err := p.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "its last run hangs in the kernel") {
		t.Error(err)
	}
	close(gone)
	if _, err := p.Snapshot(t.Context()); err != nil {
		t.Error(err)
	}
}

// An unresponsive file system must not block a reading for ever.
func TestAProgramThatCannotBeLookedAtEndsTheReading(t *testing.T) {
	p, _ := open(t, settingsOf(script(t, "exit 0"), "timeout", "100ms")).(*Provider)
	hangs := make(chan struct{})
	p.command.Check = func() error {
		<-hangs
		return errors.New("it is away")
	}
	for _, want := range []string{"no answer within 100ms", "it runs again when that one has ended"} {
		if _, err := p.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	close(hangs)
	<-p.undead
	if _, err := p.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "it is away") {
		t.Errorf("%v, want it looked at again", err)
	}
}

// After a failed reading, the applications of the reading before are gone.
func TestApplicationsAreThoseOfTheLastReading(t *testing.T) {
	dir := public(t)
	p := open(t, settingsOf(script(t, "cat "+dir+"/answer")))
	answer := func(text string) error {
		if err := os.WriteFile(dir+"/answer", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/answer", 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := p.Snapshot(t.Context())
		return err
	}
	if err := answer(`{"version":1,"queues":[{"path":"a"}],"applications":[{"id":"x","queue":"a","allocated":{}}]}`); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Applications(t.Context(), []string{"x"}); err != nil || len(got) != 1 || !got[0].Known {
		t.Errorf("%v, %v", got, err)
	}
	if err := answer("{"); err == nil {
		t.Error("half an object was read")
	}
	if got, err := p.Applications(t.Context(), []string{"x"}); !errors.Is(err, errNoList) || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestServersSayWhetherTheProgramMayRun(t *testing.T) {
	program := script(t, "exit 1")
	p := open(t, settingsOf(program))
	if got := p.Servers(t.Context()); len(got) != 1 || got[0].Address != program || got[0].Err != nil {
		t.Errorf("%+v", got)
	}
	if err := os.Chmod(program, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.Servers(t.Context()); len(got) != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "want a file that can be executed") {
		t.Errorf("%+v", got)
	}
}

func TestACommandGetsNoFilesOfTheCoordinator(t *testing.T) {
	leaked, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaked)
	p := open(t, settingsOf(script(t, `set -- /proc/self/fd/*; echo '{"version":1,"queues":[{"path":"a","state":"'"$(ls /proc/$$/fd | grep -c '^`+strconv.Itoa(leaked)+`$')"'"}]}'`)))
	if got, err := p.Snapshot(t.Context()); err != nil || got.Queues[0].State != "0" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheCauseOfAnErrorCanBeFound(t *testing.T) {
	_, err := open(t, settingsOf(script(t, "exec yes"), "maxBytes", "4KiB")).Snapshot(t.Context())
	if tooMuch, is := errors.AsType[*command.TooMuchError](err); !is || tooMuch.Most != 4096 {
		t.Error(err)
	}
	_, err = open(t, settingsOf(script(t, "echo {}"))).Snapshot(t.Context())
	if wrong, is := errors.AsType[*AnswerError](err); !is || wrong.Field != "version" {
		t.Error(err)
	}
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/test/proc"
)

// shell returns a command for the shell.
func shell(text string) *Command {
	return &Command{Args: []string{"/bin/sh", "-c", text}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, MaxOutput: 1 << 20}
}

// within returns a context that ends a hanging command of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestWhatACommandIsGiven(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	leaked, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD, 100) // as a process may inherit one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(leaked) })
	for name, test := range map[string]struct {
		text, want string
	}{
		"its output":                     {"echo out; echo err >&2", "out\n"},
		"its arguments see no shell":     {`printf %s "$0"`, "/bin/sh"},
		"nothing to read":                {"cat", ""},
		"its working directory":          {"pwd", "/\n"},
		"its environment and no more":    {"env | grep -v -e ^PWD= -e ^_= -e ^SHLVL=", "PATH=/usr/bin:/bin\n"},
		"no files of this process":       {fmt.Sprintf("[ -e /proc/$$/fd/%d ] || echo none", leaked), "none\n"},
		"a process group of its own":     {`[ "$(cut -d" " -f5 /proc/$$/stat)" = $$ ] && echo yes`, "yes\n"},
		"a session of its own":           {`[ "$(cut -d" " -f6 /proc/$$/stat)" = $$ ] && echo yes`, "yes\n"},
		"no terminal":                    {`cut -d" " -f7 /proc/$$/stat`, "0\n"},
		"no rights by setuid bits":       {"grep ^NoNewPrivs: /proc/self/status", "NoNewPrivs:\t1\n"},
		"no capabilities that stay":      {"grep ^CapAmb: /proc/self/status", "CapAmb:\t0000000000000000\n"},
		"more than a pipe holds of text": {"head -c 1000000 /dev/zero | tr '\\0' x", strings.Repeat("x", 1000000)},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := shell(test.text).Run(within(t)); err != nil || string(got.Output) != test.want {
				t.Errorf("%.100q, %v, want %.100q", got.Output, err, test.want)
			}
		})
	}
}

func TestCommandsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		command *Command
		want    string
		said    string
	}{
		"exit status":       {shell("exit 3"), "exit status 3", ""},
		"a signal":          {shell("kill -SEGV $$"), "signal: segmentation fault", ""},
		"it says why":       {shell("echo first >&2; echo no licence >&2; exit 1"), "exit status 1", "first / no licence"},
		"only the last":     {shell("for i in 1 2 3 4 5; do echo $i >&2; done; exit 1"), "exit status 1", "3 / 4 / 5"},
		"what moves a line": {shell(`printf 'a\033[31mb\r\342\200\256c\377\n\n' >&2; exit 1`), "exit status 1", "a [31mb ?c?"},
		"long lines":        {shell("head -c 100000 /dev/zero | tr '\\0' y >&2; exit 1"), "exit status 1", strings.Repeat("y", 163) + " …"},
		"endless words":     {&Command{Args: []string{"/bin/sh", "-c", "yes >&2 & exec cat /dev/zero"}, Dir: "/", MaxOutput: 1000}, "it printed more than 1000 bytes", "y / y / y"},
		"without end":       {&Command{Args: []string{"/bin/cat", "/dev/zero"}, Dir: "/", MaxOutput: 1000}, "it printed more than 1000 bytes", ""},
		"not there":         {&Command{Args: []string{"/no/such/program"}, Dir: "/"}, "it could not be started: fork/exec /no/such/program: no such file or directory", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.command.Run(within(t))
			if err == nil || err.Error() != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
			if got.Errors != test.said && name != "endless words" || len(got.Errors) > MaxErrors {
				t.Errorf("it said %q, want %q", got.Errors, test.said)
			}
		})
	}
}

func TestNoMoreIsKeptThanACommandMayPrint(t *testing.T) {
	got, err := (&Command{Args: []string{"/usr/bin/printf", "12345"}, Dir: "/", MaxOutput: 5}).Run(within(t))
	if err != nil || string(got.Output) != "12345" {
		t.Errorf("%q, %v", got.Output, err)
	}
	got, err = (&Command{Args: []string{"/usr/bin/printf", "123456"}, Dir: "/", MaxOutput: 5}).Run(within(t))
	if tooMuch, is := errors.AsType[*TooMuchError](err); !is || tooMuch.Most != 5 || string(got.Output) != "12345" {
		t.Errorf("%q, %v", got.Output, err)
	}
}

// awaitEnd waits until a killed process has ended.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	proc.Until(t, 20*time.Second, 5*time.Millisecond, "the process has ended", func() bool { return !proc.Alive(pid) })
}

// pidIn reads the pid that a command wrote.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

var errOver = errors.New("no answer within 1s")

// untilTold returns a context that ends when a command writes a pid into a file, and passes the pid
// on.
func untilTold(t *testing.T) (ctx context.Context, fifo string, pid <-chan int) {
	t.Helper()
	fifo = filepath.Join(t.TempDir(), "pid")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(within(t))
	told := make(chan int, 1)
	go func() {
		data, _ := os.ReadFile(fifo) // until the command has written and closed it
		pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		told <- pid
		cancel(errOver)
	}()
	return ctx, fifo, told
}

func TestCommandThatHangsIsKilledWithAllItStarted(t *testing.T) {
	ctx, fifo, child := untilTold(t)
	got, err := shell("trap '' TERM INT HUP; sleep 3600 & echo waits >&2; echo $! >" + fifo + "; wait").Run(ctx)
	if !errors.Is(err, errOver) || got.Errors != "waits" {
		t.Errorf("%v, it said %q", err, got.Errors)
	}
	awaitEnd(t, <-child)
}

func TestChildThatHoldsThePipeIsNotWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	got, err := shell("sleep 3600 & echo $! >" + file + "; echo 3").Run(within(t))
	if err != nil || string(got.Output) != "3\n" {
		t.Errorf("%q, %v", got.Output, err)
	}
	awaitEnd(t, pidIn(t, file))
}

// escapes are ways to leave a process group, and the tree of a command. Each writes the pid of the
// escaped process to the file.
func escapes(file string) map[string]string {
	waits := "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 3600"
	return map[string]string{
		"a child":                  "sh -c '" + waits + "' &",
		"a session":                "setsid sh -c '" + waits + "' &",
		"a daemon":                 "(setsid sh -c '" + waits + "' &) &",
		"a daemon without output":  "(setsid sh -c '" + waits + "' </dev/null >/dev/null 2>&1 &) &",
		"a daemon's daemon":        "setsid sh -c '(setsid sh -c \"" + strings.ReplaceAll(waits, "$", "\\$") + "\" &) &' &",
		"one with another environ": "(env -i setsid /bin/sh -c 'cd /tmp; PATH=/usr/bin:/bin; trap \"\" TERM HUP; " + waits + "' &) &",
	}
}

func TestNothingOutlivesACommandThatEnds(t *testing.T) {
	for name, text := range escapes("FILE") {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			text := strings.ReplaceAll(text, "FILE", file)
			got, err := shell(text + " until [ -e " + file + " ]; do :; done; echo 3").Run(within(t))
			if err != nil || string(got.Output) != "3\n" {
				t.Errorf("%q, %v", got.Output, err)
			}
			ended(t, pidIn(t, file))
		})
	}
}

func TestNothingOutlivesTheTimeOfACommand(t *testing.T) {
	for name, text := range escapes("FILE") {
		t.Run(name, func(t *testing.T) {
			ctx, fifo, _ := untilTold(t)
			file := filepath.Join(t.TempDir(), "pid")
			text := strings.ReplaceAll(text, "FILE", file)
			_, err := shell(text + " until [ -e " + file + " ]; do :; done; echo 3; echo 1 >" + fifo + "; sleep 3600").Run(ctx)
			if !errors.Is(err, errOver) {
				t.Error(err)
			}
			if _, undead := errors.AsType[*UndeadError](err); undead {
				t.Error(err)
			}
			ended(t, pidIn(t, file))
		})
	}
}

// ended fails if the process has not ended, and kills it.
func ended(t *testing.T, pid int) {
	t.Helper()
	if proc.Alive(pid) {
		t.Errorf("process %d outlives its command", pid)
		proc.KillGroupAtEnd(t, pid)
	}
}

// TestProcessesThatForkAndExitDoNotOutliveTheirCommand: each leaves its session, too.
func TestProcessesThatForkAndExitDoNotOutliveTheirCommand(t *testing.T) {
	ctx, fifo, _ := untilTold(t)
	life := filepath.Join(t.TempDir(), "life")
	if err := unix.Mkfifo(life, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := unix.Open(life, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	// It runs for half a minute, unless it is killed.
	comet := `use POSIX; if (fork == 0) { POSIX::setsid(); open(my $f, ">", $ARGV[0]); print $f "1"; close $f; for (1..50000) { POSIX::_exit(0) if fork; POSIX::setsid(); select(my $r, my $w, my $e, 0.0002) } POSIX::_exit(0) } sleep 3600`
	_, err = shell("exec 9>" + life + "; exec perl -e '" + comet + "' " + fifo).Run(ctx)
	if !errors.Is(err, errOver) {
		t.Error(err)
	}
	if _, undead := errors.AsType[*UndeadError](err); undead {
		t.Error(err)
	}
	if n, err := unix.Read(held, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("a process outlives its command: it holds a file (%d, %v)", n, err)
	}
}

func TestNothingOfACommandOutlivesThisProcess(t *testing.T) {
	if os.Getenv(runnerVariable) != "" {
		_, _ = shell(os.Getenv(runnerVariable)).Run(t.Context())
		return
	}
	for name, text := range escapes("FILE") {
		t.Run(name, func(t *testing.T) {
			_, fifo, told := untilTold(t)
			file := filepath.Join(t.TempDir(), "pid")
			text := strings.ReplaceAll(text, "FILE", file)
			runner := exec.Command("/proc/self/exe", "-test.run=^TestNothingOfACommandOutlivesThisProcess$")
			runner.Env = []string{runnerVariable + "=" + text + " until [ -e " + file + " ]; do :; done; echo $$ >" + fifo + "; sleep 3600"}
			held := proc.StartGroup(t, runner)
			command := <-told
			if err := held.SignalGroup(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			awaitEnd(t, command)
			awaitEnd(t, pidIn(t, file))
		})
	}
}

const runnerVariable = "BURSAR_TEST_RUNS"

func TestCommandThatCannotBeKilled(t *testing.T) {
	for name, text := range map[string]string{"itself": "exec sleep 3600", "its child": "setsid sleep 3600 & exit 0"} {
		t.Run(name, func(t *testing.T) {
			finishes := make(chan func(), 1)
			ctx, fifo, _ := untilTold(t)
			if name != "itself" {
				ctx = within(t)
			}
			c := shell("echo $$ >" + fifo + "; " + text)
			c.patience, c.kill = time.Millisecond, func(finish func()) { finishes <- finish }
			_, err := c.Run(ctx)
			undead, is := errors.AsType[*UndeadError](err)
			if !is || name == "itself" && !errors.Is(err, errOver) || !strings.HasSuffix(err.Error(), "; it hangs in the kernel and cannot be killed") {
				t.Fatal(err)
			}
			select {
			case <-undead.Gone:
				t.Error("it is gone by itself")
			default:
			}
			(<-finishes)()
			<-undead.Gone
		})
	}
}

func TestACheckThatRefusesOrHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	c := shell("touch " + file + "; exec sleep 3600")
	refused := errors.New("not this one")
	c.Check = func() error { return refused }
	if _, err := c.Run(t.Context()); err != refused { //nolint:errorlint // it is not wrapped
		t.Error(err)
	}
	for name, after := range map[string]error{"refuses at last": refused, "lets it run at last": nil} {
		t.Run(name, func(t *testing.T) {
			hangs := make(chan struct{})
			c.patience = time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			c.Check = func() error {
				cancel(errOver)
				<-hangs
				return after
			}
			_, err := c.Run(ctx)
			undead, is := errors.AsType[*UndeadError](err)
			if !is || !errors.Is(err, errOver) {
				t.Fatal(err)
			}
			close(hangs)
			<-undead.Gone // if it was started after all, it is killed
		})
	}
}

func TestNothingIsStartedWhenTimeIsOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shell("touch " + file).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it ran")
	}
}

func TestACommandRunsAsAnotherUser(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	c := shell("id -u; id -g; id -G; grep ^CapEff: /proc/self/status; sleep 3600 & exit 0")
	c.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	got, err := c.Run(within(t))
	want := nobody.Uid + "\n" + nobody.Gid + "\n" + nobody.Gid + "\nCapEff:\t0000000000000000\n"
	if err != nil || string(got.Output) != want {
		t.Errorf("%q, %v, want %q", got.Output, err, want)
	}
}

// A user can stop a child with a signal after it has got the user and before it is the program. The
// thread that starts it then waits.
func TestAUserThatStopsItsProcessesDoesNotHoldACommand(t *testing.T) {
	const victim = 64902
	proc.StopNewest(t, victim)
	for range 20 {
		c := shell("true")
		c.Credential = &syscall.Credential{Uid: victim, Gid: victim}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errOver)
		_, err := c.Run(ctx)
		cancel()
		if _, undead := errors.AsType[*UndeadError](err); undead {
			t.Fatal(err)
		}
	}
}

func TestTheErrorOfACommandIsThatOfItsProcess(t *testing.T) {
	_, err := shell("exit 7").Run(within(t))
	if exit, is := errors.AsType[*ExitError](err); !is || exit.ExitCode() != 7 {
		t.Errorf("%v", err)
	}
}

func TestFilesAreKeptFromACommandOfAnOldKernelToo(t *testing.T) {
	leaked, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaked)
	if err := closeEachOnExec(); err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(leaked), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("%d, %v", flags, err)
	}
}

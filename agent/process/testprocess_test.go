package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// processName in the environment makes this binary a test process: a process that does as it is
// told and tells which signals it gets.
const processName = "BURSAR_TEST_PROCESS"

func TestMain(m *testing.M) {
	if name := os.Getenv(processName); name != "" {
		if err := beTestProcess(name); err != nil {
			fmt.Fprintln(os.Stderr, "test process", name, err)
			os.Exit(1)
		}
		return
	}
	if stage := os.Getenv(ownNumbers); os.Geteuid() == 0 && stage != "tests" {
		os.Exit(runWithOwnNumbers(stage))
	}
	goleak.VerifyTestMain(m)
}

// ownNumbers in the environment says that this process is in a pid namespace of the tests' own:
// "first" is its first process, "tests" the one that runs the tests.
const ownNumbers = "BURSAR_TEST_OWN_NUMBERS"

// runWithOwnNumbers runs the tests in a pid namespace of their own. They choose which pids the
// kernel gives out next. In a namespace that others use, a pid that somebody signals after its
// process has ended could so become that of a test process, and the reverse. The first process of
// a namespace is no engine's, so it is another one that runs the tests.
func runWithOwnNumbers(stage string) (code int) {
	runtime.LockOSThread() // what it starts is to die with this process, and that goes by thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if stage == "first" {
		cmd.Env = append(os.Environ(), ownNumbers+"=tests")
		err = mountProc()
	} else {
		cmd.Env = append(os.Environ(), ownNumbers+"=first")
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	if err == nil {
		err = cmd.Run()
	}
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.Exited() {
		return ended.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "process: in a pid namespace of its own:", err)
		return 1
	}
	return 0
}

// mountProc makes /proc that of the pid namespace.
func mountProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// testProcess is one such process. Its saved uid stays root's, so that it can become
// any user.
type testProcess struct {
	name string // TREE-NUMBER
	uid  int
	conn *net.UnixConn
	to   *net.UnixAddr
}

func address(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: "@bursar-test-process-" + name}
}

// The words of a test process's environment: NAME=name:uid:heeds, where heeds says that SIGTERM
// ends it.
func environment(name string, uid int, heeds bool) []string {
	return []string{fmt.Sprintf("%s=%s:%d:%t", processName, name, uid, heeds), "GOMAXPROCS=1"}
}

func beTestProcess(words string) error {
	parts := strings.Split(words, ":")
	p := &testProcess{name: parts[0]}
	uid, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	if err := p.become(uid); err != nil {
		return err
	}
	if p.conn, err = net.ListenUnixgram("unixgram", address(p.name)); err != nil {
		return err
	}
	tree, number, _ := strings.Cut(p.name, "-")
	p.to = address(tree)
	if number == "0" { // the launcher gets the orphans, as a user's service manager does
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	go func() {
		for range children {
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}()
	go func() {
		for s := range signals {
			p.say("signal", s.String())
			if s == syscall.SIGTERM && parts[2] == "true" {
				os.Exit(0)
			}
		}
	}()
	p.say("is", strconv.Itoa(os.Getpid()))
	return p.obey(parts[2])
}

func (p *testProcess) say(words ...string) {
	_, _ = p.conn.WriteToUnix([]byte(p.name+" "+strings.Join(words, " ")), p.to)
}

func (p *testProcess) obey(heeds string) error {
	buffer := make([]byte, 256)
	for {
		n, err := p.conn.Read(buffer)
		if err != nil {
			return err
		}
		words := strings.Fields(string(buffer[:n]))
		number := 0
		if len(words) > 1 {
			number, _ = strconv.Atoi(words[1])
		}
		switch words[0] {
		case "fork": // fork UID NAME HEEDS SETSID
			err = p.fork(words[2], number, words[3] == "true", words[4] == "true")
		case "exec":
			if err = p.raise(); err == nil {
				err = syscall.Exec("/proc/self/exe", []string{"test process"}, environment(p.name, p.uid, heeds == "true"))
			}
		case "setsid":
			_, _ = syscall.Setsid() // a leader of a group may not
		case "setpgid":
			_ = syscall.Setpgid(0, number) // it may not into any
		case "become":
			err = p.become(number)
		case "exit":
			return nil
		}
		if err != nil {
			return err
		}
		p.say("done")
	}
}

func (p *testProcess) fork(name string, uid int, heeds, setsid bool) error {
	if err := p.raise(); err != nil {
		return err
	}
	child, err := os.StartProcess("/proc/self/exe", []string{"test process"}, &os.ProcAttr{
		Dir: "/", Env: environment(name, uid, heeds), Files: []*os.File{nil, nil, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: setsid},
	})
	if err != nil {
		return err
	}
	_ = child.Release()
	return p.become(p.uid)
}

// raise makes it root for a moment, also in what it starts.
func (p *testProcess) raise() error { return syscall.Setresuid(0, 0, 0) }

func (p *testProcess) become(uid int) error {
	p.uid = uid
	if err := syscall.Setresuid(-1, 0, -1); err != nil {
		return err
	}
	return syscall.Setresuid(uid, uid, 0)
}

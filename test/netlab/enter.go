//go:build linux

package netlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// insideVariable is set in the environment of the process that is in a namespace of its own.
	insideVariable = "BURSAR_NETLAB_INSIDE"
	// enterWord, as first argument, makes this program enter a namespace and become another
	// program.
	enterWord = "netlab-enter"
)

// Main runs the tests of a package in a network namespace of its own. It is for TestMain, before
// anything else, and returns the exit code.
func Main(m *testing.M) int {
	if len(os.Args) > 3 && os.Args[1] == enterWord {
		err := become(os.Args[2], os.Args[3:])
		fmt.Fprintln(os.Stderr, "netlab:", err)
		return 126
	}
	if Inside() {
		if err := setUp("lo"); err != nil {
			fmt.Fprintln(os.Stderr, "netlab:", err)
			return 1
		}
		return m.Run()
	}
	code, err := runInside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "netlab:", err)
		return 1
	}
	return code
}

// Inside reports whether this process is in a namespace of its own, where tests run: Main starts
// the program again to get there.
func Inside() bool {
	_, inside := os.LookupEnv(insideVariable)
	return inside && (len(os.Args) < 2 || os.Args[1] != enterWord)
}

// become makes this process another program in a namespace.
func become(namespace string, argv []string) error {
	// Only this thread enters, and it becomes the program.
	runtime.LockOSThread()
	file, err := os.Open(namespace) //nolint:gosec // of the lab that started this
	if err != nil {
		return err
	}
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", namespace, err)
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, argv, os.Environ()) //nolint:gosec // whatever the test wants
}

// runInside runs this program once more, inside.
func runInside() (code int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	again := exec.Command(program, os.Args[1:]...) //nolint:gosec,noctx // itself
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.Env = append(os.Environ(), insideVariable+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		// The same user inside, because some servers refuse to run as root, but with the right to
		// make networks.
		again.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		again.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
	}
	runtime.LockOSThread() // Pdeathsig is about the thread that started it
	if err := again.Start(); err != nil {
		return 0, fmt.Errorf("this test needs network namespaces, and the kernel gives it none: %w; run it as root (in a container: with "+
			"CAP_SYS_ADMIN and CAP_NET_ADMIN), or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces, "+
			"kernel.apparmor_restrict_unprivileged_userns=0)", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = again.Process.Signal(s) // it has ended, then
		}
	}()
	err = again.Wait()
	signal.Stop(signals)
	close(signals)
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return ended.ExitCode(), nil
	case err != nil:
		return 0, fmt.Errorf("the tests ended: %w", err)
	}
	return 0, nil
}

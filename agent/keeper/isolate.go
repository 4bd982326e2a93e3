package keeper

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// softFiles is an engine's soft limit of open files. A Hadoop worker's containers have the same
	// limit.
	softFiles = 64 << 10
	// softStack is the limit of login sessions: without a limit, the kernel uses another memory
	// layout.
	softStack = 8 << 20
)

// isolate drops the state that this process has inherited, and makes it ignore signals that would
// end it.
func isolate() error {
	// Not signal.Ignore, which the engine would inherit: a signal that is caught has its default
	// again after an exec. Nothing reads them.
	signal.Notify(make(chan os.Signal, 1))
	if err := closeInherited(); err != nil {
		return err
	}
	unix.Umask(0o022)
	return protect()
}

// protect keeps the user's other processes from taking over this one, because the agent trusts the
// record that it writes.
func protect() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the keeper: %w", err)
	}
	return nil
}

// closeInherited closes every descriptor above 2 that came with the exec: those of this process
// alone are close-on-exec.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return fmt.Errorf("close descriptors: %w", err)
		}
		return nil
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd) // it was open a moment ago
		}
	}
	return nil
}

// startClean starts a process with no signal blocked, without capabilities that its user would not
// have anyway, with no keys but its user's, and with the limits of a login session as far as the
// hard limits allow. The agent may have had others.
func startClean(program string, args []string, attributes *os.ProcAttr) (*os.Process, error) {
	// Masks, capabilities and keyrings are a thread's. This thread keeps the changes, which does
	// no harm here.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return nil, fmt.Errorf("signal mask: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("ambient capabilities: %w", err)
	}
	// The session's keys are those of the user who started the agent. Without keyrings, or if a
	// filter forbids them, there are none.
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	softenLimits()
	return os.StartProcess(program, args, attributes) //nolint:wrapcheck // names the program
}

// softenLimits sets the soft limits of this process, which its child inherits. A limit that cannot
// be set stays.
func softenLimits() {
	const hard = ^uint64(0)
	for _, limit := range []struct {
		resource int
		soft     uint64
	}{
		{unix.RLIMIT_CPU, hard},
		{unix.RLIMIT_FSIZE, hard},
		{unix.RLIMIT_DATA, hard},
		{unix.RLIMIT_AS, hard},
		{unix.RLIMIT_CORE, 0}, // that of a JVM fills disks; a user who wants one raises it
		{unix.RLIMIT_STACK, softStack},
		{unix.RLIMIT_NOFILE, softFiles},
	} {
		var now syscall.Rlimit
		if syscall.Getrlimit(limit.resource, &now) == nil {
			now.Cur = min(limit.soft, now.Max)
			// of syscall, which then gives it to a child too
			_ = syscall.Setrlimit(limit.resource, &now)
		}
	}
}

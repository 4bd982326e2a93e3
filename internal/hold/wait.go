package hold

import (
	"encoding/binary"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitUnbegun is the exit code of a process whose command never began. Its parent has ended, or has
// received the error.
const exitUnbegun = 127

// Wait returns at once in a process that was not started to wait. Otherwise it waits for the
// release of the command, and becomes the command. Call it before anything else.
func Wait() {
	first, status, path, held := parse(os.Getenv(variable))
	if !held {
		return
	}
	unix.CloseOnExec(first)
	unix.CloseOnExec(status)
	asBefore()
	become(first, status, path)
	os.Exit(exitUnbegun) //nolint:forbidigo // nothing of the program may run
}

// parse parses the variable that Environment has written. It checks that the descriptors are pipes,
// because the variable may have another origin.
func parse(text string) (first, status int, path string, held bool) {
	words := strings.SplitN(text, ",", 3)
	if len(words) != 3 || words[2] == "" {
		return 0, 0, "", false
	}
	first, err := strconv.Atoi(words[0])
	status, statusErr := strconv.Atoi(words[1])
	return first, status, words[2], err == nil && statusErr == nil && isPipe(first) && isPipe(status)
}

func isPipe(fd int) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFIFO
}

// asBefore gives signals the meaning that they would have for the command. Go's runtime keeps
// SIGHUP and SIGINT ignored if they were ignored at the start. A shell that ignores SIGINT for a
// command also ignores SIGQUIT.
func asBefore() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
		return
	}
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT) // otherwise the runtime prints its goroutines
	go func() {
		<-quit
		os.Exit(128 + int(syscall.SIGQUIT)) //nolint:forbidigo // as the signal would end it
	}()
}

// become waits and then replaces this program by the command. It returns if the command is not
// released, or cannot be executed.
func become(first, status int, path string) {
	var word [1]byte
	for {
		n, err := unix.Read(first, word[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 || word[0] != letGo {
			return
		}
		break
	}
	environment := without(os.Environ())
	err := syscall.Exec(path, os.Args, environment) //nolint:gosec // is what it is for
	errno := syscall.EINVAL                         // such as for a zero byte in an argument
	errors.As(err, &errno)
	_, _ = unix.Write(status, binary.NativeEndian.AppendUint32(nil, uint32(errno)))
}

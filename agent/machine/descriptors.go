package machine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fewDescriptors is how few file descriptors may be left until the agent takes no new engine: a
// call, the process at its other end, a pidfd of the engine, and the files of a measurement.
const fewDescriptors = 16

// CheckDescriptors says that too few file descriptors are left for another engine; empty: they are
// not.
func CheckDescriptors() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return "" // no kernel fails at that
	}
	open, err := openDescriptors()
	switch {
	case errors.Is(err, unix.EMFILE):
		return descriptorProblem(limit.Cur, limit.Cur)
	case err != nil: // that is another problem, which others find
		return ""
	}
	return descriptorProblem(open, limit.Cur)
}

func descriptorProblem(open, limit uint64) string {
	if open+fewDescriptors <= limit {
		return ""
	}
	return fmt.Sprintf("the agent has %d of %d file descriptors open: want a larger LimitNOFILE= of its unit, or ulimit -n", open, limit)
}

// openDescriptors is how many this process has open.
func openDescriptors() (uint64, error) {
	const folder = "/proc/self/fd"
	info, err := os.Stat(folder)
	if err != nil {
		return 0, err //nolint:wrapcheck // names the folder
	}
	if size := info.Size(); size > 0 { // since Linux 6.2
		return uint64(size), nil
	}
	dir, err := os.Open(folder)
	if err != nil {
		return 0, err //nolint:wrapcheck // names the folder
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return uint64(len(names)), err
}

package keeper

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// userVariable names the user that a keeper is to become, in its environment. An agent that runs as
// root starts a keeper as root, and the keeper changes its user itself. If the agent did that
// between fork and exec, the user could stop the child there, while the agent shares its memory and
// waits for it.
const userVariable = "BURSAR_KEEPER_USER"

// As is a variable for the environment of a keeper that is to become a user.
func As(uid, gid uint32, groups []uint32) string {
	words := []string{number(uid), number(gid)}
	for _, group := range groups {
		words = append(words, number(group))
	}
	return userVariable + "=" + strings.Join(words, ",")
}

func number(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// become changes the user of this process if its environment says so, and starts the program
// again: the new process image belongs to the user like any other. It returns only if there is
// nothing to change or something went wrong.
func become() error {
	text, named := os.LookupEnv(userVariable)
	if !named {
		return nil
	}
	var ids []int
	for word := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return fmt.Errorf("%s: %q: want uid,gid and groups: %w", userVariable, text, err)
		}
		ids = append(ids, int(id))
	}
	if len(ids) < 2 {
		return fmt.Errorf("%s: %q: want uid,gid and groups", userVariable, text)
	}
	if err := syscall.Setgroups(ids[2:]); err != nil {
		return fmt.Errorf("set the groups of the user: %w", err)
	}
	if err := syscall.Setgid(ids[1]); err != nil {
		return fmt.Errorf("set the group of the user: %w", err)
	}
	if err := syscall.Setuid(ids[0]); err != nil {
		return fmt.Errorf("become the user: %w", err)
	}
	if err := os.Unsetenv(userVariable); err != nil {
		return err //nolint:wrapcheck // of a constant
	}
	if readsOutput() {
		runtime.LockOSThread() // the thread that has lost the right is the one that goes on
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("give up new privileges: %w", err)
		}
	}
	return fmt.Errorf("start as the user: %w", syscall.Exec("/proc/self/exe", os.Args, os.Environ())) //nolint:gosec // this program
}

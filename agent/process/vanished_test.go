package process

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Processes that have ended each time they are looked at, because each has started another one, are
// not taken for none.
func TestStopNamesProcessesThatAreNeverThere(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, sleeper+` & wait`)
	inner := c.saysPID(t, o)
	c.reap()
	open := o.pidfdOpen
	o.pidfdOpen = func(pid, flags int) (int, error) {
		if pid == int(inner.PID) {
			return -1, unix.ESRCH
		}
		return open(pid, flags)
	}
	e := Engine{Root: c.ref, User: new(uint32(unix.Getuid()))}
	err := o.Stop(t.Context(), e, 0)
	if err == nil || !strings.Contains(err.Error(), "faster than they can be ended") || !strings.Contains(err.Error(), strconv.Itoa(int(inner.PID))) {
		t.Errorf("got %v; want an error that names process %d", err, inner.PID)
	}
}

package keeper

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/processtable"
)

// stopRounds is how often processes are looked for and stopped before they are killed. A process
// that is stopped starts no other one, so that two or three rounds find all.
const stopRounds = 20

// KillBelow kills all that descends from a process, until nothing of it runs, or the time is over.
// The process itself goes on. It reports whether nothing is left: processes of other users, such as
// those of sudo, stay.
func KillBelow(pid int, patience time.Duration) bool {
	look := time.NewTicker(treeEvery)
	defer look.Stop()
	for until := time.Now().Add(patience); ; <-look.C {
		all := stopBelow(pid)
		if len(all) == 0 {
			return true
		}
		for _, process := range all {
			_ = unix.Kill(process, unix.SIGKILL) // it may have ended
		}
		if time.Now().After(until) {
			return false
		}
	}
}

// stopBelow stops all that descends from a process, and returns the pids.
func stopBelow(pid int) []int {
	stopped := make(map[int]bool)
	for range stopRounds {
		table, fresh := processtable.Read(), false
		var all []int
		for other, p := range table {
			if p.Ended || !table.Descends(other, pid) {
				continue
			}
			all = append(all, other)
			if !stopped[other] {
				_ = unix.Kill(other, unix.SIGSTOP) // it may have ended
				stopped[other], fresh = true, true
			}
		}
		if !fresh {
			return all
		}
	}
	all := make([]int, 0, len(stopped))
	for other := range stopped {
		all = append(all, other)
	}
	return all
}

package keeper

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/processtable"
)

const (
	// stopRounds is how often processes are looked for and stopped before they are killed. A
	// process that is stopped starts no other one, so that two or three rounds find all, unless
	// they fork and exit faster than they are found.
	stopRounds = 100
	// mostBelow bounds how many processes one round finds.
	mostBelow = 1 << 15
)

// KillBelow kills all descendants of a process, until none runs or the time is over. The process
// itself runs on. It reports whether none is left: processes of other users, such as those of sudo,
// stay.
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
		all, fresh := below(pid, 0), false
		for _, other := range all {
			if !stopped[other] {
				_ = unix.Kill(other, unix.SIGSTOP) // it may have ended
				stopped[other], fresh = true, true
			}
		}
		if !fresh {
			return all
		}
	}
	return slices.Collect(maps.Keys(stopped))
}

// below lists the descendants of a process that have not ended, without one of them and those below
// that one. It reads the children of each process from the kernel, which takes microseconds if
// there are few. If the kernel does not keep them (without CONFIG_PROC_CHILDREN), it reads the
// whole process table.
func below(pid, without int) (all []int) {
	known := map[int]bool{pid: true, without: true}
	for queue := []int{pid}; len(queue) > 0 && len(all) < mostBelow; queue = queue[1:] {
		list, err := children(queue[0])
		if err != nil {
			return belowInTable(pid, without)
		}
		for _, child := range list {
			if known[child] {
				continue
			}
			known[child] = true
			if p, there := processtable.Look(child); there && p.Parent == queue[0] && (!p.Ended || hasThreads(child)) {
				all, queue = append(all, child), append(queue, child)
			}
		}
	}
	return all
}

// hasThreads reports whether threads of a process live on whose first one has ended.
func hasThreads(pid int) bool {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	return err == nil && len(threads) > 1
}

// children lists the children of each thread of a process. A process that has ended has none.
func children(pid int) (list []int, err error) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, _ := os.ReadDir(tasks) // if it fails, the process has ended
	for _, thread := range threads {
		content, err := os.ReadFile(tasks + "/" + thread.Name() + "/children") //nolint:gosec // below /proc
		if err != nil {
			if _, gone := os.Lstat(tasks + "/" + thread.Name()); gone != nil {
				continue
			}
			return nil, err //nolint:wrapcheck // no caller tells it
		}
		for word := range strings.FieldsSeq(string(content)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list, nil
}

func belowInTable(pid, without int) (all []int) {
	table := processtable.Read()
	for other, p := range table {
		if !p.Ended && other != without && table.Descends(other, pid) && (without == 0 || !table.Descends(other, without)) {
			all = append(all, other)
		}
	}
	return all
}

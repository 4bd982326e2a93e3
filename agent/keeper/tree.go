package keeper

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// treePatience is how long the keeper looks for processes of an abandoned engine.
	treePatience = 2 * time.Second
	// treeEvery is the time between two looks.
	treeEvery = 5 * time.Millisecond
)

// inherit makes the keeper the parent of all processes that the engine's leave behind from now on.
// So it can name them, in any group and session.
func inherit() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // else it names fewer
}

// killTree kills all that descends from the keeper or is in the engine's session, until nothing of
// it runs, or treePatience is over. The engine has ended and is a zombie, so that its number is its
// session's alone. The keeper reaps nothing: a number that is killed is no other process's.
func (e *engine) killTree() {
	look := time.NewTicker(treeEvery)
	defer look.Stop()
	for until := time.Now().Add(treePatience); ; <-look.C {
		table := processes()
		left := false
		for pid, p := range table {
			if p.ended || p.session != e.process.Pid && !descends(table, pid, os.Getpid()) {
				continue
			}
			left = true
			// A group is within a session, and all of these sessions are the engine's.
			_ = unix.Kill(-p.group, unix.SIGKILL) // it may have ended
		}
		if !left || time.Now().After(until) {
			return
		}
	}
}

// relative is a process as the kernel shows it.
type relative struct {
	parent, group, session int
	ended                  bool
}

// processes are those of this machine.
func processes() map[int]relative {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	table := make(map[int]relative, len(entries))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 4 {
			continue
		}
		number := func(field int) int {
			n, _ := strconv.Atoi(string(fields[field])) // the kernel writes numbers
			return n
		}
		table[pid] = relative{number(1), number(2), number(3), fields[0][0] == 'Z' || fields[0][0] == 'X'}
	}
	return table
}

// descends reports whether a process has another one above it.
func descends(table map[int]relative, pid, from int) bool {
	for range len(table) { // entries of different moments may form a circle
		pid = table[pid].parent
		if pid == from {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}

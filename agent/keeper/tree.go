package keeper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/processtable"
)

const (
	// treePatience is how long the keeper looks for processes of an abandoned engine.
	treePatience = 2 * time.Second
	// treeEvery is the time between two looks.
	treeEvery = 5 * time.Millisecond
)

// inherit makes the keeper the parent of all processes that the engine's processes leave behind
// from now on. So it can find them, in any group and session, and sees how they end.
func inherit() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // else it names fewer
}

// killTree kills all descendants of the keeper and all processes of the engine's session, until
// none runs or treePatience is over. The engine is a zombie, so no other session can have its
// number. The keeper reaps no process, so no pid is reused.
func (e *engine) killTree() {
	look := time.NewTicker(treeEvery)
	defer look.Stop()
	for until := time.Now().Add(treePatience); ; <-look.C {
		table := processtable.Read()
		left := false
		for pid, p := range table {
			if p.Ended || p.Session != e.process.Pid && !table.Descends(pid, os.Getpid()) {
				continue
			}
			left = true
			// A group is within a session, and all of these sessions are the engine's.
			_ = unix.Kill(-p.Group, unix.SIGKILL) // it may have ended
		}
		if !left || time.Now().After(until) {
			return
		}
	}
}

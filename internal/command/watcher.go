package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/processtable"
)

const (
	// watcherName is the name that this program gives itself as a watcher.
	watcherName = "bursar: command"
	// The files that a watcher is started with, besides the usual three.
	controlFile, reportFile = 3, 4
	// strikeEvery is the time between two rounds in which processes are killed. It doubles every
	// 32 rounds, up to strikeAtLast: a process may hang in the kernel.
	strikeEvery, strikeAtLast = time.Millisecond, time.Second
	// chases is how often a round looks at the newest process of the machine. Processes that fork
	// and exit are gone when the process table has been read.
	chases = 500
)

// A watcher is this program, started again between this process and a command. All that descends
// from the command has the watcher as its parent once its own parents have ended, whatever session
// it is in (prctl(2), PR_SET_CHILD_SUBREAPER): nothing gets away from a watcher. This process
// cannot do that itself, since it also starts engines, which are to outlive it.

// order is an order to a watcher, as JSON in its control file. When that file ends, also by the
// end of the process that has written it, the watcher kills all processes.
type order struct {
	Args        []string            `json:"args"`
	Env         []string            `json:"env"`
	Dir         string              `json:"dir"`
	Credential  *syscall.Credential `json:"credential"`
	KeepsRights bool                `json:"keeps_rights"`
}

// report is the answer of a watcher, once.
type report struct {
	// Failed says why the command was not started; empty: it was. Errno is the kernel's error; 0:
	// none.
	Failed string        `json:"failed"`
	Errno  syscall.Errno `json:"errno"`
	// Status is how it ended.
	Status syscall.WaitStatus `json:"status"`
}

// A watcher does nothing that the rest of the program is for. No main function has to know of it,
// nor has that of a test.
func init() { //nolint:gochecknoinits // see above
	if len(os.Args) == 1 && os.Args[0] == watcherName {
		syscall.Exit(watch()) // with the race detector, os.Exit would wait for a second
	}
}

// watcher kills all descendants of this process.
type watcher struct {
	self, session int

	// mu is held while processes are killed and while they are reaped: the number of a child stays
	// its own until it is reaped.
	mu sync.Mutex
	// ended gets how the command ended.
	ended chan syscall.WaitStatus
	// empty is closed when no descendant is left.
	empty chan struct{}
}

// watch is the whole life of a watcher.
func watch() int {
	// The command is killed when the thread ends that has started it.
	runtime.LockOSThread()
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	control, answers := os.NewFile(controlFile, "control"), os.NewFile(reportFile, "report")
	answer := func(r report) {
		_ = json.NewEncoder(answers).Encode(r) //nolint:errchkjson // the process that reads it may have ended
		_ = answers.Close()
	}
	decoder := json.NewDecoder(control)
	var o order
	if err := decoder.Decode(&o); err != nil {
		return 1 // the process that writes it has ended
	}
	w := &watcher{self: os.Getpid(), ended: make(chan syscall.WaitStatus, 1), empty: make(chan struct{})}
	w.session, _ = unix.Getsid(0)
	over, killed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, control)
	}()
	// Also while the command is started: once it has its user, and before it is the program, that
	// user can stop it with a signal, and this thread waits for it.
	go func() {
		defer close(killed)
		select {
		case <-over:
		case <-told:
		}
		w.killAll()
	}()
	pid, err := start(o)
	if err != nil {
		failed := report{Failed: err.Error()}
		failed.Errno, _ = errors.AsType[syscall.Errno](err)
		answer(failed)
		return 1
	}
	for fd := range 3 {
		_ = unix.Close(fd) // the output ends with the processes that may write it
	}
	go w.reap(pid)
	select {
	case status := <-w.ended:
		answer(report{Status: status})
		<-killed
	case <-killed:
		select {
		case status := <-w.ended:
			answer(report{Status: status})
		default:
		}
	}
	return 0
}

// start starts the command, with the rights of this thread, which it lessens.
func start(o order) (pid int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("become the parent of what it leaves behind: %w", err)
	}
	if err := closeOnExec(); err != nil {
		return 0, err
	}
	if !o.KeepsRights {
		if err := confine(); err != nil {
			return 0, err
		}
	}
	pid, err = syscall.ForkExec(o.Args[0], o.Args, &syscall.ProcAttr{ //nolint:gosec // it is the configuration's to say
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: o.Credential, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, &os.PathError{Op: "fork/exec", Path: o.Args[0], Err: err}
	}
	return pid, nil
}

// reap waits for the end of each process, until none is left.
func (w *watcher) reap(command int) {
	defer close(w.empty)
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return // ECHILD: no child is left, so nothing that descends from one
		}
		w.mu.Lock()
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid == command {
				w.ended <- status
			}
			if pid <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		w.mu.Unlock()
	}
}

// killAll kills until nothing is left.
func (w *watcher) killAll() {
	for round := 0; ; round++ {
		select {
		case <-w.empty:
			return
		default:
		}
		w.mu.Lock()
		w.strike()
		if round > 0 {
			w.chase()
		}
		w.mu.Unlock()
		select {
		case <-w.empty:
			return
		case <-time.After(min(strikeEvery<<min(round/32, 10), strikeAtLast)):
		}
	}
}

// strike kills all that descends from this process and is found.
func (w *watcher) strike() {
	table := processtable.Read()
	for pid, p := range table {
		if table.Descends(pid, w.self) {
			w.kill(pid, p)
		}
	}
}

// chase kills the newest processes, if they descend from this one.
func (w *watcher) chase() {
	for range chases {
		text, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return
		}
		pid, _ := strconv.Atoi(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, ' ')+1:])))
		p, there := processtable.Look(pid)
		if !there {
			continue
		}
		if p.Parent == w.self {
			w.kill(pid, p)
		} else if above, there := processtable.Look(p.Parent); there && above.Parent == w.self {
			w.kill(p.Parent, above)
			w.kill(pid, p)
		}
	}
}

// kill kills a process that descends from this one, with its process group. All of the group
// descends from this process, too: a group is within one session, and the sessions of the others
// are not this one's. The kernel kills a group at once: no member of it can fork meanwhile.
func (w *watcher) kill(pid int, p processtable.Process) {
	if p.Session != w.session && p.Group > 1 {
		_ = unix.Kill(-p.Group, unix.SIGKILL) // it may have ended
	}
	if p.Parent == w.self {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

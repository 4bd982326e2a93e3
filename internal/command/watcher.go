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
	// watcherName is this program's argument 0 as a watcher.
	watcherName = "bursar: command"
	// The files that a watcher is started with, in addition to the standard three.
	controlFile, reportFile = 3, 4
	// strikeEvery is the time between two rounds of killing. It doubles every 32 rounds, up to
	// strikeAtLast, because a process may hang in the kernel.
	strikeEvery, strikeAtLast = time.Millisecond, time.Second
	// chases is how often a round looks at the newest process of the machine. Processes that fork
	// and exit have gone by the time the process table is read.
	chases = 500
)

// A watcher is this program, started again between this process and a command. It is a subreaper
// (prctl(2), PR_SET_CHILD_SUBREAPER): it becomes the parent of all descendants of the command whose
// own parents have ended, in whatever session, so that none escapes. This process cannot be the
// subreaper itself, because it also starts engines, which must outlive it.

// order tells a watcher which command to run, as JSON in its control file. When that file ends,
// including by the end of the process that writes it, the watcher kills all processes.
type order struct {
	Args        []string            `json:"args"`
	Env         []string            `json:"env"`
	Dir         string              `json:"dir"`
	Credential  *syscall.Credential `json:"credential"`
	KeepsRights bool                `json:"keeps_rights"`
}

// report is the watcher's single answer.
type report struct {
	// Failed is the reason why the command was not started; empty: it was started. Errno is the
	// kernel's error; 0: none.
	Failed string        `json:"failed"`
	Errno  syscall.Errno `json:"errno"`
	// Status is the command's exit status.
	Status syscall.WaitStatus `json:"status"`
}

// A watcher runs nothing else of the program. With init, no main function has to know of it, nor
// has that of a test.
func init() { //nolint:gochecknoinits // see above
	if len(os.Args) == 1 && os.Args[0] == watcherName {
		syscall.Exit(watch()) // with the race detector, os.Exit would wait for a second
	}
}

// watcher kills all descendants of this process.
type watcher struct {
	self, session int

	// mu is held during killing and during reaping: the pid of a child is not reused until it is
	// reaped.
	mu sync.Mutex
	// ended receives the exit status of the command.
	ended chan syscall.WaitStatus
	// empty is closed when no descendant is left.
	empty chan struct{}
}

// watch runs the watcher.
func watch() int {
	// The kernel kills the command when the thread that started it ends.
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
	// This must also work during the start of the command: between getting its user and becoming
	// the program, that user can stop it with a signal, and this thread waits for it.
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

// start starts the command with reduced rights of this thread.
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

// reap reaps each ended process, until none is left.
func (w *watcher) reap(command int) {
	defer close(w.empty)
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return // ECHILD: no child is left, and so no descendant
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

// killAll kills until no descendant is left.
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

// strike kills all descendants of this process in the process table.
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

// kill kills a descendant of this process together with its process group. All members of the group
// are descendants, too: a group is inside one session, and the descendants' sessions are not this
// process's session. The kernel kills a group at once: no member can fork meanwhile.
func (w *watcher) kill(pid int, p processtable.Process) {
	if p.Session != w.session && p.Group > 1 {
		_ = unix.Kill(-p.Group, unix.SIGKILL) // it may have ended
	}
	if p.Parent == w.self {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

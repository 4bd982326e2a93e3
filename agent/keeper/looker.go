package keeper

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/hold"
	"github.com/bursar/bursar/internal/processtable"
)

const (
	// helperPatience is how much later than it should a helper may tell that a look has ended, or
	// that the next one begins, until it is killed.
	helperPatience = 2 * time.Second
	// helperPause is the time between the end of a helper that has failed and the start of the
	// next. It doubles with each, up to mostHelperPause.
	helperPause     = time.Second
	mostHelperPause = time.Minute
	// helperEnd is how long the end of a helper that was killed is waited for when the engine has
	// ended. A file system that does not answer may hold it for ever.
	helperEnd = time.Second
)

// helper is the program that looks whether the engine is ready. It is a child of the keeper, with a
// session of its own. If it hangs or fails, the keeper kills it with all that it has started, and
// starts it again until the time of the check is over.
type helper struct {
	id    string
	spec  HelperSpec
	until time.Time

	over chan struct{} // closed by stop
	done chan struct{} // closed when run ends
	// died is closed when the helper that runs has been waited for; then failed says how it ended.
	// run makes it anew for each one, when none runs.
	died   chan struct{}
	failed bool

	mu    sync.Mutex
	pid   int  // guarded by mu; 0: none runs
	ended bool // guarded by mu; over is closed
}

// newHelper is to be called before the output of the engine is copied.
func newHelper(spec Spec, logs ...*logFile) *helper {
	h := &helper{
		id: spec.ID, over: make(chan struct{}), done: make(chan struct{}),
		spec: HelperSpec{Look: *spec.Look, Environment: spec.Environment, WorkingDirectory: spec.WorkingDirectory, LogDirectory: spec.Log.Directory},
	}
	for _, log := range logs {
		var stat unix.Stat_t
		if unix.Fstat(log.fd, &stat) == nil { // else there is none yet
			h.spec.Logs = append(h.spec.Logs, LogStart{log.name, stat.Ino, stat.Size})
		}
	}
	return h
}

// run starts helpers until one has ended well, the time is over, or stop was called.
func (h *helper) run() {
	defer close(h.done)
	h.until = time.Now().Add(h.spec.Look.Within)
	for pause := helperPause; h.runOnce(); pause = min(2*pause, mostHelperPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-h.over:
			timer.Stop()
			return
		}
	}
}

// runOnce starts a helper and returns when it has ended. It reports whether another one is to be
// started.
func (h *helper) runOnce() (again bool) {
	left := time.Until(h.until)
	if left <= 0 {
		return false
	}
	toHelper, looks, err := h.start(left)
	if err != nil {
		h.say("the helper cannot be started: " + err.Error())
		return true
	}
	if toHelper == nil {
		return false
	}
	defer toHelper.Close()
	defer looks.Close()
	if h.follow(looks) {
		h.say("a look did not end within " + h.spec.Look.Limit.String())
		h.kill()
	}
	select {
	case <-h.died:
		return h.failed
	case <-h.over:
		return false
	}
}

// start starts a helper and sends it its spec. It returns no files if stop was called.
func (h *helper) start(left time.Duration) (toHelper, looks *os.File, err error) {
	spec := h.spec
	spec.Look.Within = left
	line, err := Encode(spec)
	if err != nil {
		return nil, nil, err
	}
	input, toHelper, err := os.Pipe()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // says all
	}
	defer input.Close()
	looks, output, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, toHelper.Close())
	}
	defer output.Close()
	attributes := &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=" + usualPath}, Files: []*os.File{input, output, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil, nil, errors.Join(toHelper.Close(), looks.Close())
	}
	process, err := startClean(hold.Self, []string{"bursar-keeper", LookMode, h.id}, attributes)
	if err != nil {
		return nil, nil, errors.Join(err, toHelper.Close(), looks.Close())
	}
	h.pid, h.died = process.Pid, make(chan struct{})
	_ = process.Release()                       // the reaper waits for it
	go func() { _, _ = toHelper.Write(line) }() // it ends when the helper has, or when the pipe is closed
	return toHelper, looks, nil
}

// follow reads the byte that the helper writes at the beginning and at the end of each look. It
// returns true if none came for too long, and false if the helper has closed the pipe.
func (h *helper) follow(looks *os.File) (hangs bool) {
	longest := h.spec.Look.Limit // until the first look begins
	var beat [1]byte
	for {
		_ = looks.SetReadDeadline(time.Now().Add(longest + helperPatience)) // a pipe has deadlines
		if _, err := looks.Read(beat[:]); err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
		if longest = h.spec.Look.Interval; beat[0] == LookBegins {
			longest = h.spec.Look.Limit
		}
	}
}

// say writes a reason into the record. There is at most one for each helper that is started.
func (h *helper) say(reason string) {
	if line, err := EncodeLooked(Looked{Reason: reason, Time: time.Now().UTC()}); err == nil {
		_, _ = os.Stderr.Write(line) // no process is left to tell
	}
}

// waited notes that a child has ended. It reports whether that was the helper.
func (h *helper) waited(d death) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pid == 0 || d.pid != h.pid {
		return false
	}
	h.pid, h.failed = 0, d.exit.Code == nil || *d.exit.Code != 0
	if h.failed {
		killSession(d.pid)
	}
	close(h.died)
	return true
}

// killSession kills the processes of a helper that could not clean up: the kernel has made them the
// keeper's children. A process that has left the helper's session cannot be told from one of the
// engine, and ends with that.
func killSession(session int) {
	for range stopRounds {
		left := false
		for _, other := range below(os.Getpid(), 0) {
			if p, there := processtable.Look(other); there && !p.Ended && p.Session == session {
				left = true
				_ = unix.Kill(other, unix.SIGKILL) // it may have ended
			}
		}
		if !left {
			return
		}
	}
}

// kill kills the helper with all that it has started.
func (h *helper) kill() {
	h.mu.Lock()
	pid := h.pid
	h.mu.Unlock()
	if pid != 0 {
		KillBelow(pid, treePatience)
		_ = unix.Kill(pid, unix.SIGKILL) // the reaper has not waited for it, or it is nobody's
	}
}

// stop kills the helper, and lets no other one start.
func (h *helper) stop() {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	h.ended = true
	close(h.over)
	h.mu.Unlock()
	h.kill()
}

// next sends when the keeper should look again whether the helper is alone. Nil: no helper runs,
// and none will start.
func (h *helper) next() <-chan time.Time {
	if h == nil {
		return nil
	}
	select {
	case <-h.done:
		return nil
	default:
		return time.After(helperPause)
	}
}

// lives reports whether a helper has not been waited for.
func (h *helper) lives() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pid != 0
}

// alone reports whether a helper lives, and no other process below the keeper but those that the
// helper has started.
func (h *helper) alone() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	pid := h.pid
	h.mu.Unlock()
	if pid == 0 {
		return false
	}
	return len(below(os.Getpid(), pid)) == 0
}

package keeper

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// chunk is how much output is read at a time. A pipe holds 64 KiB.
const chunk = 32 << 10

// engine is the engine that the keeper supervises.
type engine struct {
	process        *os.Process
	out, err       *os.File // where its output is read
	stdout, stderr *logFile
	tail           tail // of stderr; of its copier until that has ended
	copying        sync.WaitGroup

	// stderrLines and ownCgroup are as the Spec says. killsBefore is how many processes of its
	// cgroup had been killed before it started.
	stderrLines int
	ownCgroup   bool
	killsBefore int64
	// use is what the kernel says at its end. The mark of a process begins with that of the process
	// that has started it: a mark that is not above that of the keeper says nothing.
	use    Use
	ownRSS int64
}

// keep copies the engine's output, ends it if no agent knows of it, and writes down how it ended.
// It returns when it has ended.
func (e *engine) keep(known <-chan bool) {
	e.copying.Go(func() { copyTo(e.out, e.stdout, nil) })
	e.copying.Go(func() { copyTo(e.err, e.stderr, &e.tail) })
	ended := make(chan Exit, 1)
	go func() { ended <- e.wait() }()
	var exit Exit
	select {
	case ok := <-known:
		if !ok {
			e.abandon(ended)
			return
		}
		exit = <-ended
		e.record(exit)
	case exit = <-ended:
		// It stays a zombie until the agent has decided, so that its pid is its own until then.
		e.record(exit)
		if !<-known {
			e.killTree()
		}
	}
	_, _ = e.process.Wait() // it has ended
}

// abandon ends an engine that no agent knows of, with all that it has started, as far as the keeper
// can name it: what is in the engine's session, and what has the keeper above it. A process that
// left the session, and whose parents had ended before, is neither.
func (e *engine) abandon(ended <-chan Exit) {
	inherit()
	e.kill(unix.SIGTERM)
	grace := time.NewTimer(abandonGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		e.kill(unix.SIGKILL)
		<-ended
	}
	e.killTree()
	e.drain()
	_, _ = e.process.Wait() // it has ended
}

// kill signals the engine's process group, which is its own.
func (e *engine) kill(signal syscall.Signal) {
	_ = unix.Kill(-e.process.Pid, signal) // it may have ended
}

// wait returns when the engine has ended, and leaves it a zombie.
func (e *engine) wait() Exit {
	for {
		var info siginfo
		var used unix.Rusage
		err := unix.Waitid(unix.P_PID, e.process.Pid, info.asUnix(), unix.WEXITED|unix.WNOWAIT, &used)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // it is no child: there is nothing to wait for
			return Exit{Signal: int32(unix.SIGKILL)}
		default:
			e.use = useOf(&used, e.ownRSS)
			return info.exit()
		}
	}
}

// copyTo copies until the input ends, or its deadline has come. It never waits for room on the
// disk.
func copyTo(from *os.File, to *logFile, end *tail) {
	defer from.Close()
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		to.write(buffer[:n])
		if end != nil {
			end.write(buffer[:n])
		}
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}

// drain ends the copying: at the end of the output, or after drainTime if another process holds
// the pipes.
func (e *engine) drain() {
	until := time.Now().Add(drainTime)
	_ = e.out.SetReadDeadline(until) // a pipe has deadlines
	_ = e.err.SetReadDeadline(until)
	e.copying.Wait()
	e.stdout.close()
	e.stderr.close()
}

// record appends how the engine ended to descriptor 2.
func (e *engine) record(exit Exit) {
	r := Record{Exit: exit, Time: time.Now().UTC()}
	if e.ownCgroup && exit.killed() {
		kills, known := oomKills("/")
		r.OutOfMemory = known && kills > e.killsBefore
	}
	e.drain()
	r.Stderr, r.DroppedBytes = e.tail.lines(e.stderrLines), e.stdout.dropped+e.stderr.dropped
	before, err := Encode(useLine{&e.use})
	line, recordErr := Encode(r)
	if err == nil && recordErr == nil { // they can be encoded
		_, _ = os.Stderr.Write(append(before, line...)) // no process is left to tell
	}
}

// killed reports whether SIGKILL ended it, or a shell says so of its child.
func (e Exit) killed() bool {
	return e.Signal == int32(unix.SIGKILL) || e.Code != nil && *e.Code == 128+int32(unix.SIGKILL)
}

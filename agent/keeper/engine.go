package keeper

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/hold"
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

	// gate holds the process until the engine is confirmed; nil if it runs from the start. program
	// is the program that it executes then.
	gate    *hold.Gate
	program program
	// startTime is when it started, in clock ticks after boot.
	startTime uint64

	// helper checks whether the engine is ready; nil if the Spec has no check.
	helper *helper

	// stderrLines and ownCgroup come from the Spec. killsBefore is the number of processes of the
	// engine's cgroup that were killed before the engine started.
	stderrLines int
	ownCgroup   bool
	killsBefore int64
	ended       Record // as far as it is known
	// ownRSS is the mark of the keeper itself. The mark of a process begins with that of the
	// process that has started it: a mark that is not above that of the keeper says nothing.
	ownRSS int64
}

// keep copies the engine's output, ends the engine if no agent knows of it, and records how it
// ended. It returns when the engine's last process has ended.
func (e *engine) keep(known <-chan bool) {
	e.copying.Go(func() { copyTo(e.out, e.stdout, nil) })
	e.copying.Go(func() { copyTo(e.err, e.stderr, &e.tail) })
	if !<-known {
		e.abandon()
		return
	}
	begun := true
	if e.gate != nil {
		started := e.begin()
		begun = started.Error == ""
		_ = answer(started) // an agent that is gone does not want to know
	}
	if e.helper != nil && begun {
		go e.helper.run() // it ends with this process at the latest
	}
	e.await()
	e.drain()
	e.ended.Stderr, e.ended.DroppedBytes = e.tail.lines(e.stderrLines), e.stdout.dropped+e.stderr.dropped
	e.write(e.ended)
}

// abandon ends an engine that no agent knows of, with all its processes. The keeper has waited for
// none of them yet, so all pids are still the engine's.
func (e *engine) abandon() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.wait()
	}()
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

// wait returns when the main process has ended, and leaves it a zombie.
func (e *engine) wait() {
	for {
		err := unix.Waitid(unix.P_PID, e.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return // if it is no child, there is nothing to wait for
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
	e.stdout.end()
	e.stderr.end()
}

// write appends a record to descriptor 2, after a line with the use.
func (e *engine) write(r Record) {
	before, err := Encode(useLine{&e.ended.Use})
	line, recordErr := Encode(r)
	if err == nil && recordErr == nil { // they can be encoded
		_, _ = os.Stderr.Write(append(before, line...)) // no process is left to tell
	}
}

// killed reports whether SIGKILL ended it, or a shell says so of its child.
func (e Exit) killed() bool {
	return e.Signal == int32(unix.SIGKILL) || e.Code != nil && *e.Code == 128+int32(unix.SIGKILL)
}

package keeper

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/reading"
	"github.com/bursar/bursar/internal/hold"
)

const (
	// abandonGrace is the time between SIGTERM and SIGKILL for an engine that no agent knows of.
	abandonGrace = 10 * time.Second
	// drainTime is how long the output of an engine that has ended is still copied: another
	// program may have got its pipes, and hold them for ever.
	drainTime = time.Second
	// leftAfter is how long processes live on after the main one until the record says so. Those
	// of a pipeline, or helpers that see the end of their parent, end in a moment.
	leftAfter = time.Second
	// gcPercent keeps the heap small: once the engine runs, the program allocates next to nothing.
	gcPercent = 20
)

// Main is the program, and returns its exit code. It takes over the whole process.
func Main() int {
	hold.Wait()
	if err := become(); err != nil {
		return refuse(err)
	}
	if readsOutput() {
		return serveOutput()
	}
	debug.SetGCPercent(gcPercent)
	inherit()
	// One for each stream. One for each processor of a large machine would bring as many caches to
	// every keeper.
	runtime.GOMAXPROCS(2)
	if err := isolate(); err != nil {
		return refuse(err)
	}
	agent, err := pollable(0, "agent")
	if err != nil {
		return refuse(err)
	}
	lines := bufio.NewReader(agent)
	e, err := hear(lines)
	if err != nil {
		return refuse(err)
	}
	if e == nil {
		return 1 // that has been answered
	}
	known := make(chan bool, 1)
	go func() {
		line, err := readLine(lines, len(Confirmed)+1)
		known <- err == nil && string(bytes.TrimSpace(line)) == Confirmed
	}()
	debug.FreeOSMemory() // the spec may have been some megabytes
	e.keep(known)
	return 0
}

// readsOutput reports whether this process is no keeper, but reads the output of an engine.
func readsOutput() bool { return len(os.Args) == 3 && os.Args[1] == reading.Mode }

// serveOutput makes this process the helper that reads an engine's output for an agent. Its user
// may end it.
func serveOutput() int {
	runtime.GOMAXPROCS(1)
	if errors.Join(closeInherited(), protect()) != nil {
		return 1
	}
	reading.Serve(0, 1)
	return 0
}

// hear reads the spec, starts the engine and says so. If the engine cannot be started, it says
// that and returns none.
func hear(lines *bufio.Reader) (*engine, error) {
	line, err := readLine(lines, MaxSpec)
	if err != nil {
		return nil, err
	}
	spec, err := DecodeSpec(line)
	if err != nil {
		return nil, err
	}
	if alone(1) {
		return nil, errAlone
	}
	kills, _ := oomKills("/")
	e, started := start(spec)
	if e != nil && e.gate != nil {
		_ = say(started) // there is a second answer
	} else {
		_ = answer(started) // an agent that is gone has left 0, too
	}
	if e == nil {
		return nil, nil //nolint:nilnil // there is none, and that was said
	}
	if spec.Look != nil {
		e.helper = newHelper(spec, e.stdout, e.stderr)
	}
	e.ownRSS = ownRSS()
	e.killsBefore, e.stderrLines, e.ownCgroup = kills, spec.StderrLines, spec.OwnCgroup
	return e, nil
}

var errAlone = errors.New("the agent has ended")

// alone reports whether the agent has ended, so that nothing reads the answer. An engine that is
// started all the same would run next to the one that the next agent is asked for, if only until
// it is ended again.
func alone(fd int32) bool {
	fds := []unix.PollFd{{Fd: fd}} // poll reports without being asked that the other end is closed
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// refuse reports an error in the agent's input.
func refuse(err error) int {
	_ = answer(Started{Error: err.Error()})
	return 1
}

// answer tells the agent and closes the pipe. Descriptor 1 stays taken, so that no file becomes
// it.
func answer(s Started) error {
	err := say(s)
	null, openErr := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if openErr != nil {
		return errors.Join(err, openErr, os.Stdout.Close())
	}
	return errors.Join(err, unix.Dup3(null, 1, unix.O_CLOEXEC), unix.Close(null))
}

// say tells the agent.
func say(s Started) error {
	line, err := Encode(s)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(line)
	return err //nolint:wrapcheck // nobody is told
}

// pollable makes a pipe one whose reads take no thread.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err //nolint:wrapcheck // refuse tells it as it is
	}
	return os.NewFile(uintptr(fd), name), nil
}

var errLong = errors.New("a line is too long")

// readLine reads up to a line break. If the input ends before one, that is an error.
func readLine(from *bufio.Reader, longest int) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > longest {
			return nil, errLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err //nolint:wrapcheck // refuse tells it as it is
		}
	}
}

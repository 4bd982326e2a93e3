package reading

import (
	"bytes"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A helper that follows looks for new output so soon after it has found some, and so late when
	// it has not found any for long.
	minPause = 10 * time.Millisecond
	maxPause = 200 * time.Millisecond
	// lockEvery is how often a helper looks whether the keeper lives. On a file system of a
	// network that is a call to its server.
	lockEvery = time.Second
	// pipeBytes is how much output may wait in the pipe, if the kernel allows that.
	pipeBytes = 256 << 10
)

// Serve is the helper: it reads a Request from a descriptor and streams frames to another one. It
// returns when the output has ended, or when the agent has closed one of them.
func Serve(in, out int) {
	line, ok := readLine(in)
	if !ok {
		return // the agent has ended
	}
	_, _ = unix.FcntlInt(uintptr(out), unix.F_SETPIPE_SZ, pipeBytes)
	s := &server{in: in, out: out, pause: minPause}
	request, err := decodeRequest(line)
	if err != nil {
		s.fail(wrong(Invalid, "%v", err))
		return
	}
	reader, err := Open(request)
	if err != nil {
		s.fail(err)
		return
	}
	defer reader.Close()
	s.serve(reader)
}

// readLine reads a line byte by byte: the bytes behind it are the agent's word.
func readLine(fd int) ([]byte, bool) {
	var line []byte
	var b [1]byte
	for len(line) < MaxRequest {
		n, err := unix.Read(fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			return nil, false
		case b[0] == '\n':
			return line, true
		default:
			line = append(line, b[0])
		}
	}
	return line, true // it is refused as one that is cut
}

type server struct {
	in, out int
	pause   time.Duration
	// ended says that nothing more will be written.
	ended  bool
	locked time.Time // when the lock was looked at
	// gapFrom and gapTo are bytes that are gone, about which the agent was not told yet.
	gapFrom, gapTo int64
}

func (s *server) serve(r *Reader) {
	counted := int64(0)
	if r.Counted() {
		counted = 1
	}
	s.gapFrom, s.gapTo = r.At(), r.At()
	if !s.send(FrameStart, r.At(), counted, nil) {
		return
	}
	frame := make([]byte, HeaderSize+MaxData)
	for {
		part, err := r.Next(frame[HeaderSize:])
		switch {
		case err == nil && len(part.Data) == 0:
			if part.Offset != s.gapTo {
				s.gapFrom = part.Offset
			}
			s.gapTo = part.To
		case err == nil:
			if !s.tellGap() {
				return
			}
			PutHeader(frame, FrameData, part.Offset, int64(len(part.Data)))
			if !s.write(frame[:HeaderSize+len(part.Data)]) {
				return
			}
			s.gapFrom, s.gapTo, s.pause = part.To, part.To, minPause
		case errors.Is(err, io.EOF) || errors.Is(err, errNothing) && s.ended:
			if s.tellGap() {
				s.send(FrameEnd, r.At(), 0, nil)
			}
			return
		case errors.Is(err, errNothing):
			if !s.tellGap() || !s.wait(r) {
				return
			}
		default:
			if s.tellGap() {
				s.fail(err)
			}
			return
		}
	}
}

func (s *server) tellGap() bool {
	if s.gapFrom == s.gapTo {
		return true
	}
	from := s.gapFrom
	s.gapFrom = s.gapTo
	return s.send(FrameGap, from, s.gapTo, nil)
}

// wait waits until there may be more. It returns false if the agent has gone.
func (s *server) wait(r *Reader) bool {
	fds := []unix.PollFd{{Fd: int32(s.in), Events: unix.POLLIN}, {Fd: int32(s.out)}} //nolint:gosec // descriptors
	n, err := unix.Poll(fds, int(s.pause.Milliseconds()))
	s.pause = min(2*s.pause, maxPause)
	if err != nil && !errors.Is(err, unix.EINTR) || n > 0 && fds[1].Revents != 0 {
		return false
	}
	if n > 0 && fds[0].Revents != 0 {
		var said [16]byte
		got, err := unix.Read(s.in, said[:])
		if got <= 0 && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return false
		}
		s.ended = s.ended || bytes.IndexByte(said[:max(0, got)], EngineEnded) >= 0
	}
	if now := time.Now(); now.Sub(s.locked) >= lockEvery {
		s.locked = now
		s.ended = s.ended || !r.KeeperLives()
	}
	return true
}

func (s *server) fail(err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Internal, err.Error()}
	}
	text := e.Text[:min(len(e.Text), MaxText)]
	s.send(FrameError, int64(e.Code), int64(len(text)), []byte(text))
}

func (s *server) send(kind FrameKind, a, b int64, data []byte) bool {
	frame := make([]byte, HeaderSize, HeaderSize+len(data))
	PutHeader(frame, kind, a, b)
	return s.write(append(frame, data...))
}

// write waits for room in the pipe: a reader that does not read holds up its own helper.
func (s *server) write(p []byte) bool {
	for len(p) > 0 {
		n, err := unix.Write(s.out, p)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		p = p[max(0, n):]
	}
	return true
}

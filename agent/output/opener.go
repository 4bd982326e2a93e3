package output

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/output/reading"
	"github.com/bursar/bursar/internal/osuser"
)

const (
	// openTimeout bounds how long Open waits for a helper: a home directory on a slow network
	// takes most of it.
	openTimeout = 15 * time.Second
	// endGrace is how long a helper has to end by itself when its reader is closed. Its user may
	// have stopped it with a signal.
	endGrace = time.Second
)

// The streams of an engine.
const (
	Stdout = reading.Stdout
	Stderr = reading.Stderr
)

// Request describes a reader.
type Request struct {
	// Caller is the one whose readers are counted.
	Caller string
	// Entry is the engine's, and User its account as it is now.
	Entry Entry
	User  osuser.User
	// Stream is Stdout or Stderr.
	Stream string
	// From, TailLines, TailBytes, Since and Follow are those of a reading.Request.
	From      int64
	TailLines int
	TailBytes int64
	Since     time.Time
	Follow    bool
}

// Opener starts helpers. It must not be copied after its first use.
type Opener struct {
	// Spawner starts a helper's process, and Keeper is its program. Neither may change.
	Spawner launch.Spawner
	Keeper  string
	// Limits are asked for at each Open; nil: there are none.
	Limits func() Limits

	seats seats
	ends  sync.WaitGroup
}

// Open starts a helper and waits until it has opened the log files. The end of ctx ends the
// Reader. The error is an *Error, a *BusyError or an *AccountError, or says that there is no
// helper.
func (h *Opener) Open(ctx context.Context, r Request) (*Reader, error) {
	if r.User.UID != r.Entry.UID {
		return nil, &AccountError{cmp.Or(r.User.Name, r.Entry.User), r.Entry.UID, r.User.UID}
	}
	request := reading.Request{
		ID: r.Entry.ID, Folder: r.Entry.Folder, Stream: r.Stream,
		From: r.From, TailLines: r.TailLines, TailBytes: r.TailBytes, Since: r.Since, Follow: r.Follow,
	}
	if err := request.Check(); err != nil {
		return nil, &Error{Code: Invalid, Text: err.Error()}
	}
	line, err := json.Marshal(request)
	if err != nil || len(line) >= reading.MaxRequest {
		return nil, &Error{Code: Invalid, Text: "the request is too long"}
	}
	var limits Limits
	if h.Limits != nil {
		limits = h.Limits()
	}
	if err := h.seats.take(r.Caller, limits); err != nil {
		return nil, err
	}
	reader, err := h.start(ctx, r.User)
	if err != nil {
		h.seats.leave(r.Caller)
		return nil, err
	}
	h.ends.Go(func() {
		reader.helper.await(reader.closing)
		h.seats.leave(r.Caller)
	})
	if err := reader.begin(append(line, '\n')); err != nil {
		_ = reader.Close() // it was only read from
		return nil, err
	}
	return reader, nil
}

// Wait returns when the helpers of all closed Readers have ended.
func (h *Opener) Wait() { h.ends.Wait() }

// start starts a helper that has no request yet.
func (h *Opener) start(ctx context.Context, user osuser.User) (*Reader, error) {
	fail := func(err error) (*Reader, error) {
		return nil, fmt.Errorf("start the helper that reads output: %w", err)
	}
	input, control, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer input.Close()
	data, output, err := os.Pipe()
	if err != nil {
		return fail(errors.Join(err, control.Close()))
	}
	defer output.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fail(errors.Join(err, control.Close(), data.Close()))
	}
	defer null.Close()
	starting, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	spawned, err := h.Spawner.Spawn(starting, launch.Spawn{
		ID: "output-" + rand.Text(), User: user, Stdin: input, Stdout: output, Record: null, Keeper: h.Keeper, Mode: reading.Mode,
	})
	if err != nil {
		return fail(errors.Join(err, control.Close(), data.Close()))
	}
	return newReader(ctx, openHelper(spawned.PID), control, data), nil
}

// helper is a process, by a descriptor: its number may soon be another one's.
type helper struct {
	fd   int // -1: it has ended, or the kernel has no pidfds; it ends with its pipes
	file *os.File
}

func openHelper(pid int32) helper {
	fd, err := unix.PidfdOpen(int(pid), unix.PIDFD_NONBLOCK)
	if err != nil {
		return helper{fd: -1}
	}
	return helper{fd, os.NewFile(uintptr(fd), "helper")} // so that to wait for it takes no thread
}

// await waits until the process has ended, and kills it if it has not in good time after closing
// was closed.
func (h helper) await(closing <-chan struct{}) {
	<-closing
	if h.fd < 0 {
		return
	}
	defer h.file.Close()
	if !h.ended(endGrace) {
		_ = unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0) // it may just have ended
		h.ended(0)
	}
}

// ended reports whether the process has ended, and waits for that; 0: for any time, as the kernel
// does not let go of a process whose file system hangs.
func (h helper) ended(within time.Duration) bool {
	until := time.Time{}
	if within > 0 {
		until = time.Now().Add(within)
	}
	ended := false
	conn, err := h.file.SyscallConn()
	if err == nil {
		err = h.file.SetReadDeadline(until)
	}
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
			n, err := unix.Poll(fds, 0)
			ended = err == nil && n > 0
			return ended
		})
	}
	return ended || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// refusal is the error of a process that could not become a helper: it answers as a keeper does.
func refusal(text []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if json.Unmarshal(line, &said) != nil || said.Error == "" {
		return errHelper
	}
	return fmt.Errorf("the helper that reads output: %s", printable(said.Error))
}

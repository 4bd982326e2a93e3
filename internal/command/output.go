package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/spelling"
)

const (
	// MaxErrors is the length to which standard error is truncated, in bytes.
	MaxErrors = 512
	// maxErrorLines is the number of its lines that are kept.
	maxErrorLines = 3
	// lastBytes is the size of the part that is searched for these lines.
	lastBytes = 8 << 10
)

// output collects the output of a process.
type output struct {
	read, write *os.File
	// full is closed when the output exceeds the limit.
	full chan struct{}
	// done is closed when the output is complete; data and err then stay unchanged.
	done chan struct{}
	data []byte
	err  error
}

func newOutput() (*output, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe for its output: %w", err)
	}
	return &output{read: read, write: write, full: make(chan struct{}), done: make(chan struct{})}, nil
}

// collect starts to read up to most bytes.
func (o *output) collect(most int64) {
	go func() {
		defer close(o.done)
		data, err := io.ReadAll(io.LimitReader(o.read, most+1))
		o.data = data[:min(int64(len(data)), most)]
		switch {
		case int64(len(data)) > most:
			o.err = &TooMuchError{most}
			close(o.full)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			o.err = err
		}
		// otherwise an escaped process holds the pipe; the program's own output is complete
	}()
}

// collectLast starts to read without a limit, and keeps the last part.
func (o *output) collectLast() {
	go func() {
		defer close(o.done)
		chunk := make([]byte, lastBytes)
		for {
			n, err := o.read.Read(chunk)
			o.data = append(o.data, chunk[:n]...)
			o.data = o.data[max(0, len(o.data)-lastBytes):]
			if err != nil {
				return
			}
		}
	}()
}

// hurry sets a deadline for the rest of the reading.
func (o *output) hurry() { _ = o.read.SetReadDeadline(time.Now().Add(drainTime)) }

// close frees the pipe.
func (o *output) close() {
	_ = o.write.Close()
	_ = o.read.Close()
}

// clean returns the last lines of a text on one line, without terminal control characters.
func clean(text []byte) string {
	lines := bytes.Split(text, []byte("\n"))
	var last []string
	for i := len(lines) - 1; i >= 0 && len(last) < maxErrorLines; i-- {
		if line := spelling.Line(string(lines[i]), MaxErrors/maxErrorLines-len(" / ")); line != "" {
			last = append([]string{line}, last...)
		}
	}
	return strings.Join(last, " / ")
}

// closeEachOnExec does the same as close_range, file by file.
func closeEachOnExec() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("files of this process: %w", err)
	}
	for _, file := range files {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

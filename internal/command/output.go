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
	// MaxErrors is how much is kept of what a program prints on its standard error, in bytes.
	MaxErrors = 512
	// maxErrorLines is how many lines of it are kept.
	maxErrorLines = 3
	// lastBytes is what these lines are looked for in.
	lastBytes = 8 << 10
)

// output collects what a process prints.
type output struct {
	read, write *os.File
	// full is closed when it was too much.
	full chan struct{}
	// done is closed when nothing more comes; data and err do not change any more then.
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

// collect begins to read, up to a number of bytes.
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
		// else a process that got away holds the pipe; what the program itself has printed is here
	}()
}

// collectLast begins to read without an end, and keeps the last of it.
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

// hurry bounds the time of what is still read: a pipe has deadlines.
func (o *output) hurry() { _ = o.read.SetReadDeadline(time.Now().Add(drainTime)) }

// close frees the pipe.
func (o *output) close() {
	_ = o.write.Close()
	_ = o.read.Close()
}

// clean is the last lines of a text on one line, without what a terminal would act on.
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

// closeEachOnExec does one by one what close_range does at once.
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

package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/output/reading"
)

// Part is output, or a gap in it.
type Part struct {
	// Offset is that of the first byte, To that of the first byte behind it.
	Offset, To int64
	// Data is the output, at most 64 KiB, until the next call. It is empty if the bytes are gone.
	Data []byte
}

// Gap reports whether the bytes are gone.
func (p Part) Gap() bool { return len(p.Data) == 0 }

// Reader reads a stream of an engine.
type Reader struct {
	ctx     context.Context //nolint:containedctx // its end is the Reader's
	stop    func() bool
	helper  helper
	control *os.File // closed: the helper ends
	data    *os.File
	frames  *bufio.Reader
	skip    int // bytes of frames that were handed out

	at      int64
	counted bool
	err     error // of the last frame

	close   sync.Once
	closing chan struct{}
}

var errHelper = errors.New("the helper that reads output says something else than a helper does: want a bursar-keeper of the agent's own version, and a user who leaves it alone")

func newReader(ctx context.Context, h helper, control, data *os.File) *Reader {
	r := &Reader{
		ctx: ctx, helper: h, control: control, data: data,
		frames: bufio.NewReaderSize(data, 2*(reading.HeaderSize+reading.MaxData)), closing: make(chan struct{}),
	}
	r.stop = context.AfterFunc(ctx, func() { _ = r.Close() }) // Next says why
	return r
}

// begin sends the request and waits until the helper has opened the files.
func (r *Reader) begin(line []byte) error {
	_ = r.control.SetWriteDeadline(time.Now().Add(openTimeout))
	_ = r.data.SetReadDeadline(time.Now().Add(openTimeout))
	_, _ = r.control.Write(line) // a helper that has ended has said why
	kind, a, b, err := r.header()
	switch {
	case err != nil:
		return err
	case kind == reading.FrameError:
		return r.failure(a, b)
	case kind != reading.FrameStart || a < 0 || b < 0 || b > 1:
		return errHelper
	}
	r.at, r.counted = a, b == 1
	_ = r.data.SetReadDeadline(time.Time{})
	return nil
}

// At is the offset of the next byte.
func (r *Reader) At() int64 { return r.at }

// Counted reports whether a keeper has counted the bytes. Otherwise the keeper was of an older
// version, and offsets count from the oldest file that was there at Open.
func (r *Reader) Counted() bool { return r.counted }

// EngineEnded says that the engine and its keeper have ended, so that Next returns io.EOF once all
// output was read. It is needed only if the keeper was killed, or of an older version.
func (r *Reader) EngineEnded() {
	_ = r.control.SetWriteDeadline(time.Now().Add(endGrace)) // a helper may be stopped
	_, _ = r.control.Write([]byte{reading.EngineEnded})      // a helper that has ended knows
}

// Close ends the helper. It does not wait for that.
func (r *Reader) Close() error {
	var err error
	r.close.Do(func() {
		if r.stop != nil {
			r.stop()
		}
		err = errors.Join(r.control.Close(), r.data.Close())
		close(r.closing)
	})
	return err
}

// Next waits for output and returns the next piece of it, or a gap. The error is io.EOF at the
// end, that of the context, an *Error, or another one if the helper was ended or is none.
func (r *Reader) Next() (Part, error) {
	if r.err != nil {
		return Part{}, r.err
	}
	part, err := r.next()
	r.err = err
	return part, err
}

func (r *Reader) next() (Part, error) {
	_, _ = r.frames.Discard(r.skip) // was peeked
	r.skip = 0
	kind, a, b, err := r.header()
	if err != nil {
		return Part{}, err
	}
	switch kind {
	case reading.FrameData:
		if a != r.at || b <= 0 || b > reading.MaxData {
			return Part{}, errHelper
		}
		data, err := r.frames.Peek(int(b))
		if err != nil {
			return Part{}, r.broken(err)
		}
		r.skip, r.at = len(data), a+b
		return Part{Offset: a, To: r.at, Data: data}, nil
	case reading.FrameGap:
		if a != r.at || b <= a || b > maxOffset {
			return Part{}, errHelper
		}
		r.at = b
		return Part{Offset: a, To: b}, nil
	case reading.FrameEnd:
		return Part{}, io.EOF
	case reading.FrameError:
		return Part{}, r.failure(a, b)
	case reading.FrameStart:
	}
	return Part{}, errHelper
}

// maxOffset bounds offsets, so that nothing overflows.
const maxOffset = int64(1) << 62

func (r *Reader) header() (kind reading.FrameKind, a, b int64, err error) {
	text, err := r.frames.Peek(reading.HeaderSize)
	if err != nil {
		return 0, 0, 0, r.broken(err)
	}
	if text[0] == '{' { // the answer of a keeper
		line, _ := r.frames.Peek(r.frames.Buffered())
		return 0, 0, 0, refusal(line)
	}
	kind, a, b = reading.Header(text)
	_, err = r.frames.Discard(reading.HeaderSize)
	return kind, a, b, err //nolint:wrapcheck // was peeked
}

// failure reads the text of an error.
func (r *Reader) failure(code, length int64) error {
	if code < 0 || code > 255 || !reading.Code(code).Known() || length < 0 || length > reading.MaxText {
		return errHelper
	}
	text, err := r.frames.Peek(int(length))
	if err != nil {
		return r.broken(err)
	}
	return &Error{Code: reading.Code(code), Text: printable(string(text))}
}

// broken is the error of a helper that sends nothing more.
func (r *Reader) broken(err error) error {
	switch {
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the helper that reads output does not answer within %s: its user may have stopped it, or the file system hangs", openTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the helper that reads output has ended: its user may have killed it")
	}
	return fmt.Errorf("read output from the helper: %w", err)
}

// printable removes characters that a terminal would act on: the user may have written it.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
}

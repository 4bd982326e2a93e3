package admission

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"connectrpc.com/connect"
)

// Body bounds the decompressed body of a request. It decompresses the body itself, whatever the
// protocol, up to the limit and the caller's bytes, so that no handler ever decompresses anything.
func Body(r *http.Request, b Bounds) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	var from io.Reader
	switch {
	case IsFramed(r):
		from = newEnvelopes(r.Body, b, framesCompressed(r.Header))
	case r.Header.Get("Content-Encoding") == "gzip":
		r.Header.Del("Content-Encoding")
		r.Header.Del("Content-Length")
		r.ContentLength = -1
		from = &boundedReader{Bounds: b, from: &gzipReader{from: r.Body}}
	default:
		from = &boundedReader{Bounds: b, from: r.Body}
	}
	r.Body = &body{Reader: from, Closer: r.Body}
}

// body is the bounded body that a handler reads.
type body struct {
	io.Reader
	io.Closer
}

// Bounds are those of a request's messages. A request of all procedures but one has one message.
type Bounds struct {
	// Limit is the size of the largest message, in bytes.
	Limit int64
	// Intake counts the bytes that are held.
	Intake *Intake
	// TooLarge returns the error that refuses a larger message.
	TooLarge func() error
	// Whole is called when a message has come and before its end is passed on. An error refuses it.
	Whole func(size int64) error
	// Single says that there is one message, and that Whole is called only when the body has ended:
	// from then on nothing waits for the network.
	Single bool
	// Unending says that there are any number of messages, of which one is held at a time.
	Unending bool
}

// IsFramed reports whether each message of a body has a head: a byte of flags, and four of length.
// As package connect does, it ignores the case of the media type. Otherwise a body that connect
// takes for another kind would be decompressed outside of the bounds.
func IsFramed(r *http.Request) bool {
	kind := strings.TrimSpace(strings.ToLower(r.Header.Get("Content-Type")))
	return strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect+")
}

// framesCompressed reports whether messages may be compressed with gzip, the only known
// compression.
func framesCompressed(h http.Header) bool {
	return h.Get("Grpc-Encoding") == "gzip" || h.Get("Connect-Content-Encoding") == "gzip"
}

// boundedReader reads one message. If the message exceeds a bound, this and all later reads fail.
type boundedReader struct {
	Bounds

	from   io.Reader
	read   int64
	failed error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	if int64(len(p)) > b.Limit-b.read+1 {
		p = p[:b.Limit-b.read+1]
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	if b.read > b.Limit {
		b.failed = b.TooLarge()
	} else if n > 0 {
		b.failed = b.Intake.Add(n)
	}
	if b.failed == nil && errors.Is(err, io.EOF) {
		b.failed = b.Whole(b.read)
	}
	if b.failed != nil {
		return 0, b.failed
	}
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}

// inflaters are reused: each has tables of some 40 KiB.
var inflaters = sync.Pool{New: func() any { return new(gzip.Reader) }} //nolint:gochecknoglobals // a pool

// gzipReader decompresses what it reads.
type gzipReader struct {
	from io.Reader
	gzip *gzip.Reader // nil before the first read, and after the end
	err  error
}

func (i *gzipReader) Read(p []byte) (int, error) {
	if i.err != nil {
		return 0, i.err
	}
	if i.gzip == nil {
		i.gzip, _ = inflaters.Get().(*gzip.Reader)
		if err := i.gzip.Reset(i.from); err != nil {
			return 0, i.end(err)
		}
	}
	n, err := i.gzip.Read(p)
	if err != nil {
		return n, i.end(err)
	}
	return n, nil
}

// end returns the inflater to the pool, and converts an error in the compressed data.
func (i *gzipReader) end(err error) error {
	inflaters.Put(i.gzip)
	i.gzip, i.err = nil, err
	if _, known := errors.AsType[*connect.Error](err); !known && !errors.Is(err, io.EOF) {
		i.err = connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("decompress: %w", err))
	}
	return i.err
}

const (
	headSize       = 5
	flagCompressed = 1
	// maxRest bounds the bytes after a single message: some protocols have an end of the stream.
	maxRest = 64
)

// envelopes reads messages that each have a head, and passes them on decompressed.
type envelopes struct {
	Bounds

	from       io.Reader
	compressed bool
	head       bytes.Reader
	storage    [headSize]byte // of head
	message    io.Reader      // nil: between messages
}

func newEnvelopes(from io.Reader, b Bounds, compressed bool) *envelopes {
	e := &envelopes{Bounds: b, from: from, compressed: compressed}
	if b.Single {
		e.Whole = func(size int64) error {
			if err := e.readRest(); err != nil {
				return err
			}
			return b.Whole(size)
		}
	}
	return e
}

// readRest reads the bytes after a single message, so that the whole body has come.
func (e *envelopes) readRest() error {
	rest, err := io.ReadAll(io.LimitReader(e.from, maxRest+1))
	if err == nil && len(rest) > maxRest {
		err = connect.NewError(connect.CodeUnimplemented, errors.New("more than one message: want a single one"))
	}
	e.from = bytes.NewReader(rest)
	return err //nolint:wrapcheck // as the body would say it
}

func (e *envelopes) Read(p []byte) (int, error) {
	if e.message == nil {
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	if e.head.Len() > 0 {
		return e.head.Read(p) //nolint:wrapcheck // it cannot fail
	}
	n, err := e.message.Read(p)
	if errors.Is(err, io.EOF) {
		e.message, err = nil, nil
		if n == 0 {
			return e.Read(p)
		}
	}
	return n, err //nolint:wrapcheck // it has its code
}

// next reads the head of the next message. It also reads the message if it is compressed, because
// the decompressed length stands before it.
func (e *envelopes) next() error {
	if _, err := io.ReadFull(e.from, e.storage[:]); err != nil {
		return err //nolint:wrapcheck // io.EOF must stay as it is
	}
	if e.Unending {
		e.Intake.End() // the handler has taken the previous message
	}
	size := int64(binary.BigEndian.Uint32(e.storage[1:]))
	if size > e.Limit {
		return e.TooLarge()
	}
	e.message = &boundedReader{Bounds: e.Bounds, from: &exactReader{from: e.from, left: size}}
	if e.storage[0]&flagCompressed != 0 && e.compressed && size > 0 {
		inflated := &boundedReader{Bounds: e.Bounds, from: &gzipReader{from: &exactReader{from: e.from, left: size}}}
		text, err := io.ReadAll(inflated)
		if err != nil {
			return err //nolint:wrapcheck // it has its code
		}
		e.storage[0] &^= flagCompressed
		binary.BigEndian.PutUint32(e.storage[1:], uint32(len(text))) //nolint:gosec // within the limit
		e.message = bytes.NewReader(text)
	}
	e.head.Reset(e.storage[:])
	return nil
}

// exactReader reads exactly left bytes; fewer are an error.
type exactReader struct {
	from io.Reader
	left int64
}

func (e *exactReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.from.Read(p)
	e.left -= int64(n)
	switch {
	case e.left == 0:
		return n, io.EOF // at once: a reader that knows the size does not read again
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, err //nolint:wrapcheck // as it is
}

package outputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// firstPause is the time between a failed call and the next one. It doubles up to longestPause.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// WriteError says that the output could not be written here.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "the output is lost: " + e.Err.Error() }

// Unwrap returns the error of the writer.
func (e *WriteError) Unwrap() error { return e.Err }

// UncountedError says that a connection broke, and that the reader cannot go on where it was: the
// bytes of the output were not counted, so others may be at that offset now.
type UncountedError struct {
	Offset int64
	Err    error // of the connection
}

func (e *UncountedError) Error() string {
	return fmt.Sprintf("the output breaks off at offset %d: its bytes were not counted, so others may be at that offset now: read it again from its start (%s)", e.Offset, e.Err)
}

// errRecounted says that an answer counts the output in another way than those before it.
var errRecounted = errors.New("the server counts it from another byte than before")

// Reader copies one stream of an engine's output.
type Reader struct {
	Client *client.Client
	// Request says where to begin.
	Request *bursarv1.LogsRequest
	To      io.Writer
	// Gap is told of bytes that are gone.
	Gap func(from, to int64)
	// Uncounted is told, once, that offsets count from the oldest file that was there.
	Uncounted func()
	// Lost is told, once in an outage, why there is no output at the moment. Each answer ends an
	// outage.
	Lost func(err error)
	// MayComeBack reports whether another call may have an answer. Unset: if nobody has answered.
	MayComeBack func(err error) bool
	// Patience is how long an outage may last; zero: for ever.
	Patience time.Duration
	// Over, if it is closed, says that nothing is written any more. From then on an outage may last
	// LastPatience.
	Over         <-chan struct{}
	LastPatience time.Duration

	// next is the offset of the next byte; known says that it is known.
	next  int64
	known bool
	// taken: a piece has come, so next is a place in the output as it was counted then.
	taken bool
	// total counts the bytes that were written.
	total     int64
	uncounted bool
}

// Total returns how many bytes were written.
func (r *Reader) Total() int64 { return r.total }

// Copy copies until the output ends. The error is that of the last call, a *WriteError, an
// *UncountedError, or the context's.
func (r *Reader) Copy(ctx context.Context) error {
	var since time.Time // of the outage; zero: there is none
	told := false
	wait := firstPause
	if start, ok := r.Request.GetStart().(*bursarv1.LogsRequest_Offset); ok {
		r.next, r.known = start.Offset, true
	}
	for {
		answered, ended, err := r.call(ctx)
		if answered {
			since, told, wait = time.Time{}, false, firstPause
		}
		_, lost := errors.AsType[*WriteError](err)
		switch {
		case ended:
			return nil
		case ctx.Err() != nil:
			return ctx.Err() //nolint:wrapcheck // the caller's own
		case lost || !r.mayComeBack(err):
			return err
		case r.uncounted && r.taken:
			return &UncountedError{r.next, err}
		}
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		if !told && (now.Sub(since) >= unseen || connect.IsWireError(err)) {
			told = true
			r.Lost(err)
		}
		if most := r.patience(); most > 0 && now.Sub(since) > most {
			return err
		}
		if !pause.For(wait, ctx.Done(), nil) {
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
		wait = min(2*wait, longestPause)
	}
}

// unseen is how long a connection may be lost before somebody is told.
const unseen = 2 * time.Second

// patience is how long an outage may last now; zero: for ever.
func (r *Reader) patience() time.Duration {
	select {
	case <-r.Over:
		if r.Patience == 0 || r.LastPatience < r.Patience {
			return r.LastPatience
		}
	default:
	}
	return r.Patience
}

func (r *Reader) mayComeBack(err error) bool {
	if r.MayComeBack != nil {
		return r.MayComeBack(err)
	}
	return MayComeBack(err)
}

// MayComeBack reports whether a call has failed in a way that may end by itself: nobody has
// answered, none leads, the host's agent is away, or too much is read at the moment.
func MayComeBack(err error) bool {
	switch connect.CodeOf(err) { //nolint:exhaustive // the others are answers
	case connect.CodeUnavailable, connect.CodeAborted, connect.CodeDeadlineExceeded:
		return true
	case connect.CodeResourceExhausted:
		return connect.IsWireError(err)
	}
	return false
}

// call reads one stream to its end. ended: all of the output has come.
func (r *Reader) call(ctx context.Context) (answered, ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req := proto.CloneOf(r.Request)
	if r.known {
		req.Start = &bursarv1.LogsRequest_Offset{Offset: r.next}
	}
	stream, err := r.Client.Engines().Logs(ctx, req)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		answered = true
		if ended, err = r.take(stream.Msg()); ended || err != nil {
			return answered, ended, err
		}
	}
	if err = stream.Err(); err == nil {
		err = connect.NewError(connect.CodeUnavailable, errors.New("the server has ended the output without its end"))
	}
	return answered, false, err
}

// take takes one piece.
func (r *Reader) take(msg *bursarv1.LogsResponse) (ended bool, err error) {
	if msg.GetUncounted() && !r.uncounted {
		if r.uncounted = true; r.taken {
			return false, &UncountedError{r.next, errRecounted}
		}
		if r.Uncounted != nil {
			r.Uncounted()
		}
	}
	data, next := msg.GetData(), msg.GetNextOffset()
	from := next - int64(len(data))
	switch msg.GetPiece().(type) {
	case *bursarv1.LogsResponse_End:
		r.miss(next)
		return true, nil
	case *bursarv1.LogsResponse_Gap:
		from = next - msg.GetGap()
	case *bursarv1.LogsResponse_Data:
	default: // of a later version, or a keep-alive
		return false, nil
	}
	r.taken = true
	switch {
	case from < 0 || next < from:
		return false, connect.NewError(connect.CodeInternal, fmt.Errorf("the server counts the output wrongly: %d bytes before byte %d", next-from, next))
	case !r.known:
		r.next, r.known = from, true
	case next <= r.next && len(data) > 0:
		return false, nil // they have come before
	case from < r.next && len(data) > 0:
		data = data[r.next-from:]
	default:
		r.miss(from)
	}
	if msg.GetGap() > 0 {
		r.miss(next)
		return false, nil
	}
	if len(data) == 0 {
		return false, nil
	}
	n, err := r.To.Write(data)
	r.total += int64(n)
	r.next = next
	if err != nil {
		return false, &WriteError{err}
	}
	return false, nil
}

// miss tells of the bytes before an offset that have not come.
func (r *Reader) miss(upTo int64) {
	if r.known && upTo > r.next {
		if r.Gap != nil {
			r.Gap(r.next, upTo)
		}
		r.next = upTo
	}
}

package logs

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/output"
	"github.com/bursar/bursar/agent/refusal"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// keepAlive is how often a message without a piece is sent if there is no output. It finds out
// whether the reader is still there.
const keepAlive = 15 * time.Second

// Send reads output for a caller, from the place that the request says to its end or that of ctx.
// send takes the pieces, one at a time, each until it returns; the data is not the callee's after
// that. The error is that of send, or has a code.
func (l *Logs) Send(ctx context.Context, caller string, request *bursarv1.LogsRequest, send func(*bursarv1.LogsResponse) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reader, closed, err := l.open(ctx, caller, request)
	if err != nil {
		return err
	}
	defer closed()
	out := &outlet{send: send, next: reader.At(), uncounted: !reader.Counted()}
	var alive sync.WaitGroup
	defer alive.Wait()
	defer cancel(nil)
	alive.Go(func() { out.keepAlive(ctx, cancel) })
	for {
		part, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return out.put(&bursarv1.LogsResponse{NextOffset: reader.At(), Piece: &bursarv1.LogsResponse_End{End: &bursarv1.LogsEnd{}}})
		case err != nil && context.Cause(ctx) != nil:
			return context.Cause(ctx) //nolint:wrapcheck // the caller's, or that of send
		case err != nil:
			return withCode(err)
		}
		message := &bursarv1.LogsResponse{NextOffset: part.To, Piece: &bursarv1.LogsResponse_Data{Data: part.Data}}
		if part.Gap() {
			message.Piece = &bursarv1.LogsResponse_Gap{Gap: part.To - part.Offset}
		}
		if err := out.put(message); err != nil {
			return err
		}
	}
}

// outlet takes pieces and keep-alives, one at a time.
type outlet struct {
	uncounted bool

	mu   sync.Mutex
	send func(*bursarv1.LogsResponse) error
	next int64     // guarded by mu
	last time.Time // guarded by mu: of the last message
}

func (o *outlet) put(message *bursarv1.LogsResponse) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	message.Uncounted = o.uncounted
	o.next, o.last = message.GetNextOffset(), time.Now()
	return o.send(message)
}

// keepAlive sends messages without a piece, and ends ctx if one cannot be sent.
func (o *outlet) keepAlive(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !o.mu.TryLock() {
			continue // a piece is on its way
		}
		var err error
		if time.Since(o.last) >= keepAlive/2 {
			err = o.send(&bursarv1.LogsResponse{NextOffset: o.next, Uncounted: o.uncounted})
		}
		o.mu.Unlock()
		if err != nil {
			cancel(err)
			return
		}
	}
}

// requestOf is the request in the words of package output. Coordinators have checked it, callers on
// this host have not been.
func requestOf(request *bursarv1.LogsRequest) (output.Request, error) {
	r := output.Request{Follow: request.GetFollow()}
	switch request.GetStream() {
	case bursarv1.OutputStream_OUTPUT_STREAM_STDOUT:
		r.Stream = output.Stdout
	case bursarv1.OutputStream_OUTPUT_STREAM_STDERR:
		r.Stream = output.Stderr
	case bursarv1.OutputStream_OUTPUT_STREAM_UNSPECIFIED:
		fallthrough
	default:
		return r, refusal.Invalid("stream", request.GetStream().String(), "OUTPUT_STREAM_STDOUT or OUTPUT_STREAM_STDERR")
	}
	switch start := request.GetStart().(type) {
	case *bursarv1.LogsRequest_Offset:
		r.From = start.Offset
	case *bursarv1.LogsRequest_TailLines:
		if r.TailLines = int(start.TailLines); r.TailLines == 0 {
			r.Since = fromNowOn()
		}
	case *bursarv1.LogsRequest_TailBytes:
		if r.TailBytes = start.TailBytes; r.TailBytes == 0 {
			r.Since = fromNowOn()
		}
	case *bursarv1.LogsRequest_Since:
		r.Since = start.Since.AsTime()
	}
	return r, nil
}

// fromNowOn is later than anything was written: such output begins at its end.
func fromNowOn() time.Time { return time.Now().Add(24 * time.Hour) }

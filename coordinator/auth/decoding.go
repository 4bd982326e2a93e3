package auth

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/admission"
)

// decodesAlone is the size from which requests are decoded a few at a time.
const decodesAlone = 8 << 10

// decoding lets a few large requests be decoded at a time, and of each caller half as many: whoever
// sends many makes their own wait, and of others' at most one another. A request has its place only
// while it costs memory and computing, never while the network is waited for.
type decoding struct {
	slots chan struct{} // has one element for each request that is being decoded
	each  int           // how many one caller's may be

	mu    sync.Mutex
	lines map[string]*line // guarded by mu; by whose account, of those who have a request that is decoded or waits for that
}

// line is of one caller's requests.
type line struct {
	slots chan struct{}
	users int // guarded by the lock of decoding
}

func newDecoding(slots int) *decoding {
	return &decoding{slots: make(chan struct{}, slots), each: max(1, slots/2), lines: make(map[string]*line)}
}

// lineOf joins a caller's line. It is to be left.
func (d *decoding) lineOf(caller admission.Caller) *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[caller.ID]
	if l == nil {
		l = &line{slots: make(chan struct{}, d.each)}
		d.lines[caller.ID] = l
	}
	l.users++
	return l
}

func (d *decoding) leave(caller admission.Caller, l *line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(d.lines, caller.ID)
	}
}

// take waits for a place, first among the caller's own requests.
func (d *decoding) take(ctx context.Context, caller admission.Caller) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err //nolint:wrapcheck // as it is
	}
	l := d.lineOf(caller)
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		d.leave(caller, l)
		return nil, ctx.Err()
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		<-l.slots
		d.leave(caller, l)
		return nil, ctx.Err()
	}
	return func() {
		<-d.slots
		<-l.slots
		d.leave(caller, l)
	}, nil
}

// decode is a request's place among those that are decoded. It has one from when all of a large
// request has come until that was found valid, or anything is answered: what does not keep to the
// contract's bounds is let go before the next one is decoded.
type decode struct {
	decoding *decoding
	caller   admission.Caller

	mu   sync.Mutex
	done func() // guarded by mu; nil: it has no place
}

type decodeKey struct{}

func (d *decode) begin(ctx context.Context, size int64) error {
	if size < decodesAlone {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done != nil {
		return nil
	}
	done, err := d.decoding.take(ctx, d.caller)
	d.done = done
	return err
}

func (d *decode) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done != nil {
		d.done()
		d.done = nil
	}
}

// decoded says that a call's request has been decoded.
func decoded(ctx context.Context) {
	if d, ok := ctx.Value(decodeKey{}).(*decode); ok {
		d.end()
	}
}

// received is a stream whose request has been decoded once it is received.
type received struct {
	connect.StreamingHandlerConn

	ctx context.Context //nolint:containedctx // lives as long as the call
}

// Receive implements connect.StreamingHandlerConn.
func (r *received) Receive(message any) error {
	defer decoded(r.ctx)
	return r.StreamingHandlerConn.Receive(message) //nolint:wrapcheck // io.EOF must stay as it is
}

// decodedWriter ends a request's decoding before anything is answered: the answer may wait for
// whoever is to read it.
type decodedWriter struct {
	http.ResponseWriter

	decode *decode
}

func (w *decodedWriter) Write(p []byte) (int, error) {
	w.decode.end()
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // as it is
}

// Flush sends what was written.
func (w *decodedWriter) Flush() {
	w.decode.end()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write finds out
}

// Unwrap lets http.ResponseController through.
func (w *decodedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

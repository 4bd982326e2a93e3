package auth

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/admission"
)

const (
	// decodesAlone is the size from which requests are decoded a few at a time.
	decodesAlone = 8 << 10
	// buffered is how much of an answer net/http takes without waiting for the reader: less than
	// what it has for one connection.
	buffered = 2 << 10
)

// decoding lets a few large requests be decoded at a time, and half as many of one caller. So a
// caller who sends many waits behind its own requests, and other callers wait for one of them at
// most. A request has its place only while it costs memory and computing, never while it waits for
// the network.
type decoding struct {
	slots chan struct{} // has one element for each request that is being decoded
	each  int           // how many one caller's may be

	mu sync.Mutex
	// callers are those with a request that is decoded or waits for that, by account; guarded by
	// mu.
	callers map[string]*callerSlots
}

// callerSlots are for one caller's requests.
type callerSlots struct {
	slots chan struct{}
	users int // guarded by the lock of decoding
}

func newDecoding(slots int) *decoding {
	return &decoding{slots: make(chan struct{}, slots), each: max(1, slots/2), callers: make(map[string]*callerSlots)}
}

// join enters a caller's slots. Its caller must call leave.
func (d *decoding) join(caller admission.Caller) *callerSlots {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.callers[caller.ID]
	if s == nil {
		s = &callerSlots{slots: make(chan struct{}, d.each)}
		d.callers[caller.ID] = s
	}
	s.users++
	return s
}

func (d *decoding) leave(caller admission.Caller, s *callerSlots) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(d.callers, caller.ID)
	}
}

// acquire waits for a place, first among the caller's own requests.
func (d *decoding) acquire(ctx context.Context, caller admission.Caller) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err //nolint:wrapcheck // as it is
	}
	s := d.join(caller)
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		d.leave(caller, s)
		return nil, ctx.Err()
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		<-s.slots
		d.leave(caller, s)
		return nil, ctx.Err()
	}
	return func() {
		<-d.slots
		<-s.slots
		d.leave(caller, s)
	}, nil
}

// decodeSlot is a request's place among those that are decoded. It has one from when all of a
// large request has come until that was found valid, or anything is answered: what does not keep
// to the contract's bounds is let go before the next one is decoded.
type decodeSlot struct {
	decoding *decoding
	caller   admission.Caller

	mu   sync.Mutex
	free func() // guarded by mu; nil: it has no place
}

type decodeSlotKey struct{}

func (d *decodeSlot) acquire(ctx context.Context, size int64) error {
	if size < decodesAlone {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free != nil {
		return nil
	}
	done, err := d.decoding.acquire(ctx, d.caller)
	d.free = done
	return err
}

func (d *decodeSlot) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free != nil {
		d.free()
		d.free = nil
	}
}

// releaseDecodeSlot says that a call's request has been decoded.
func releaseDecodeSlot(ctx context.Context) {
	if d, ok := ctx.Value(decodeSlotKey{}).(*decodeSlot); ok {
		d.release()
	}
}

// decodedStream is a stream whose request is decoded once it is received. Its caller's streams
// share what they may send.
type decodedStream struct {
	connect.StreamingHandlerConn

	ctx context.Context //nolint:containedctx // lives as long as the call
}

// Send implements connect.StreamingHandlerConn.
func (r *decodedStream) Send(message any) error {
	if err := CallerOf(r.ctx).send(r.ctx); err != nil {
		return err
	}
	return r.StreamingHandlerConn.Send(message) //nolint:wrapcheck // as it is
}

// Receive implements connect.StreamingHandlerConn.
func (r *decodedStream) Receive(message any) error {
	defer releaseDecodeSlot(r.ctx)
	defer Parked(r.ctx)
	return r.StreamingHandlerConn.Receive(message) //nolint:wrapcheck // io.EOF must stay as it is
}

// decodedWriter ends a request's decoding before anything is answered, because the answer may wait
// for its reader. For the same reason it ends the work on the request before it sends something
// that does not fit into the buffers of net/http.
type decodedWriter struct {
	http.ResponseWriter

	slot *decodeSlot
	work *workSlot // nil: none is counted
}

func (w *decodedWriter) Write(p []byte) (int, error) {
	w.slot.release()
	if len(p) > buffered {
		w.work.release()
	}
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // as it is
}

// Flush sends what was written.
func (w *decodedWriter) Flush() {
	w.slot.release()
	w.work.release()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write finds out
}

// Unwrap lets http.ResponseController through.
func (w *decodedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

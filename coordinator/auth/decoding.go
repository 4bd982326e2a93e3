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
	// buffered is how much of an answer net/http takes without waiting for the client: less than
	// its buffers for one connection.
	buffered = 2 << 10
)

// decoding lets a few large requests be decoded at a time, and half as many of one caller. So a
// caller with many requests waits behind its own, and other callers wait for at most one of them. A
// request holds a slot only while it needs memory and a processor, never while it waits for the
// network.
type decoding struct {
	slots chan struct{} // one element for each request that is being decoded
	each  int           // how many of these may be of one caller

	mu sync.Mutex
	// callers are the callers with a request that is being decoded or waits for it, by account;
	// guarded by mu.
	callers map[string]*callerSlots
}

// callerSlots are the slots of one caller.
type callerSlots struct {
	slots chan struct{}
	users int // guarded by the lock of decoding
}

func newDecoding(slots int) *decoding {
	return &decoding{slots: make(chan struct{}, slots), each: max(1, slots/2), callers: make(map[string]*callerSlots)}
}

// join returns a caller's slots, and counts a user of them. leave must follow.
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

// acquire waits for a slot, first among the caller's own requests.
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

// decodeSlot is the decoding slot of one request. A large request holds it from the end of its body
// until the message was found valid, or the answer begins. So a request that violates the bounds of
// the contract is freed before the next one is decoded.
type decodeSlot struct {
	decoding *decoding
	caller   admission.Caller

	mu   sync.Mutex
	free func() // guarded by mu; nil: it has no slot
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

// releaseDecodeSlot gives back the decoding slot of a call, whose request has been decoded.
func releaseDecodeSlot(ctx context.Context) {
	if d, ok := ctx.Value(decodeSlotKey{}).(*decodeSlot); ok {
		d.release()
	}
}

// decodedStream gives back the decoding slot when the request of a stream was received. It also
// bounds the rate of messages of the caller's streams together.
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

// decodedWriter gives back a request's decoding slot before the answer begins, because the answer
// may wait for its client. For the same reason it gives back the work slot before it sends
// something that does not fit into the buffers of net/http.
type decodedWriter struct {
	http.ResponseWriter

	slot *decodeSlot
	work *workSlot // nil: not counted
}

func (w *decodedWriter) Write(p []byte) (int, error) {
	w.slot.release()
	if len(p) > buffered {
		w.work.release()
	}
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // as it is
}

// Flush sends the bytes that were written.
func (w *decodedWriter) Flush() {
	w.slot.release()
	w.work.release()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write returns the error
}

// Unwrap is for http.ResponseController.
func (w *decodedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

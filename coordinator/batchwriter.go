package coordinator

import (
	"context"
	"net/http"
	"sync"
)

// batchBytes is how much of a batch the writer buffers. The buffer lives until a slow reader takes
// it or is cut off.
const batchBytes = 16 << 10

// batchWriter writes the answers of a stream. Connect sends each message with a flush of its own;
// the messages of a batch are sent together. It belongs to the goroutine of the call.
type batchWriter struct {
	http.ResponseWriter

	batching bool
	held     *[]byte // the buffered messages; nil outside of a batch
	err      error   // why the rest of a batch cannot be written
}

type batchWriterKey struct{}

var batchBuffers = sync.Pool{New: func() any { //nolint:gochecknoglobals // buffers have no state
	held := make([]byte, 0, batchBytes)
	return &held
}}

// withBatches lets the handler of a stream send messages together.
func withBatches(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		batches := &batchWriter{ResponseWriter: w}
		next.ServeHTTP(batches, r.WithContext(context.WithValue(r.Context(), batchWriterKey{}, batches)))
	})
}

// sendTogether runs send and sends its messages in one piece, or in several pieces if they are
// large. Without withBatches each message is sent alone.
func sendTogether(ctx context.Context, send func() error) error {
	w, ok := ctx.Value(batchWriterKey{}).(*batchWriter)
	if !ok {
		return send()
	}
	w.begin()
	err := send()
	if flushed := w.end(); err == nil {
		err = flushed
	}
	return err
}

func (w *batchWriter) begin() {
	w.batching, w.err = true, nil
	w.held, _ = batchBuffers.Get().(*[]byte)
}

// end sends the buffer and ends the batch.
func (w *batchWriter) end() error {
	w.pass()
	w.batching = false
	batchBuffers.Put(w.held)
	w.held = nil
	w.Flush()
	return w.err
}

// pass writes the buffer.
func (w *batchWriter) pass() {
	if w.err == nil && len(*w.held) > 0 {
		_, w.err = w.ResponseWriter.Write(*w.held)
	}
	*w.held = (*w.held)[:0]
}

// Write writes p, or buffers it within a batch.
func (w *batchWriter) Write(p []byte) (int, error) {
	if !w.batching {
		return w.ResponseWriter.Write(p) //nolint:wrapcheck // as it is
	}
	if len(*w.held)+len(p) > batchBytes {
		w.pass()
	}
	if w.err != nil {
		return 0, w.err
	}
	if len(p) > batchBytes {
		return w.ResponseWriter.Write(p) //nolint:wrapcheck // as it is
	}
	*w.held = append(*w.held, p...)
	return len(p), nil
}

// Flush flushes the response. Within a batch it does nothing.
func (w *batchWriter) Flush() {
	if !w.batching {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write finds out
	}
}

// Unwrap gives http.ResponseController the underlying writer.
func (w *batchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

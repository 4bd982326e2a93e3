package admission

import (
	"net/http"
	"time"
)

// Writer gives each write of an answer a deadline: a client that takes no bytes for so long is
// gone, whatever its connection looks like. Bytes that were written and not flushed are sent when
// the call has ended, so their deadline stays. Between the messages of a stream there is no
// deadline: HTTP/2 ends a stream whose deadline has passed, even if there is no write in progress.
type Writer struct {
	http.ResponseWriter

	// Control controls the ResponseWriter. An in-process connection may not support deadlines.
	Control *http.ResponseController
	most    time.Duration
}

// NewWriter returns a writer with the deadline most for each write.
func NewWriter(w http.ResponseWriter, most time.Duration) *Writer {
	return &Writer{ResponseWriter: w, Control: http.NewResponseController(w), most: most}
}

func (w *Writer) Write(p []byte) (int, error) {
	_ = w.Control.SetWriteDeadline(time.Now().Add(w.most))
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // unchanged
}

// Flush sends the bytes that were written.
func (w *Writer) Flush() {
	_ = w.Control.SetWriteDeadline(time.Now().Add(w.most))
	if w.Control.Flush() == nil { // otherwise the next write returns the error
		_ = w.Control.SetWriteDeadline(time.Time{})
	}
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Send flushes the answer of an HTTP/2 call and waits for it: flow control lets the client delay
// the answer, and until then the answer takes memory and should count. The end of the answer gets a
// deadline, too.
func Send(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		Started(r.Context()) // the call waits for its client, and needs no processor
		control := http.NewResponseController(w)
		_ = control.Flush() // it fails if the caller has gone
		_ = control.SetWriteDeadline(time.Now().Add(endTime))
	}
}

// endTime bounds the end of an answer after all earlier bytes were sent.
const endTime = 5 * time.Second

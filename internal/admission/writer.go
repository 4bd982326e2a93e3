package admission

import (
	"net/http"
	"time"
)

// Writer gives each write of an answer a deadline: a reader who takes nothing for so long is gone,
// whatever its connection looks like. What was written and not flushed is sent when the call has
// ended, so its deadline stays. Between the messages of a stream there is no deadline: HTTP/2 ends
// a stream whose deadline has passed, even if nothing is being written.
type Writer struct {
	http.ResponseWriter

	// Control is of the ResponseWriter. An in-process connection may know no deadlines.
	Control *http.ResponseController
	most    time.Duration
}

// NewWriter returns a writer whose writes may each take so long.
func NewWriter(w http.ResponseWriter, most time.Duration) *Writer {
	return &Writer{ResponseWriter: w, Control: http.NewResponseController(w), most: most}
}

func (w *Writer) Write(p []byte) (int, error) {
	_ = w.Control.SetWriteDeadline(time.Now().Add(w.most))
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // as it is
}

// Flush sends what was written.
func (w *Writer) Flush() {
	_ = w.Control.SetWriteDeadline(time.Now().Add(w.most))
	if w.Control.Flush() == nil { // otherwise the next write finds out
		_ = w.Control.SetWriteDeadline(time.Time{})
	}
}

// Unwrap lets http.ResponseController through.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Send sends what the handler of a call of HTTP/2 has left to be sent, and waits for it: its
// reader says when that may be, and until then it takes memory and should count. What ends the
// answer then has a deadline, too.
func Send(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		Started(r.Context()) // it waits for its reader, and no more for a processor
		control := http.NewResponseController(w)
		_ = control.Flush() // the caller has gone
		_ = control.SetWriteDeadline(time.Now().Add(endTime))
	}
}

// endTime is how long the end of an answer may take once all before it was sent.
const endTime = 5 * time.Second

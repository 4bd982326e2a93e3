package agent

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// timedBody lifts the deadline for reading once the request is there, so that the connection can wait for the answer as
// long as that takes. (http.Server's own ReadTimeout would cut off a request that waits.)
type timedBody struct {
	io.ReadCloser

	control *http.ResponseController
	header  http.Header
	intake  *intake
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if refused := b.intake.take(n); refused != nil {
		b.header.Set("Connection", "close") // the rest is not read
		return 0, refused
	}
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // every connection here has deadlines
	case err != nil:
		b.header.Set("Connection", "close") // nobody knows where the next request would begin
	}
	return n, err //nolint:wrapcheck // as the body would say it
}

// timedWriter gives each write a deadline of its own.
type timedWriter struct {
	http.ResponseWriter

	control *http.ResponseController
}

func (w *timedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // every connection here has deadlines
	return w.ResponseWriter.Write(p)                             //nolint:wrapcheck // as the writer would say it
}

// Flush sends what was written.
func (w *timedWriter) Flush() {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // every connection here has deadlines
	_ = w.control.Flush()                                        // the next write finds out
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

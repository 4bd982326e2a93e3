package socket

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

// timedBody removes the read deadline once the request has come, so that the connection can wait
// for the answer as long as that takes. (http.Server's own ReadTimeout would cut off a request that
// waits.)
type timedBody struct {
	io.ReadCloser

	request *http.Request
	control *http.ResponseController
	header  http.Header
	intake  *admission.Intake
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if refused := b.intake.Add(n); refused != nil {
		admission.CloseAfter(b.header, b.request) // the rest is not read
		return 0, refused
	}
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // every connection here has deadlines
	case err != nil:
		admission.CloseAfter(b.header, b.request)
	}
	return n, err //nolint:wrapcheck // unchanged
}

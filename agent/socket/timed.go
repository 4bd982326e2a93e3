package socket

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

// timedBody removes the deadline for reading once the request is there, so that the connection can
// wait for the answer as long as that takes. (http.Server's own ReadTimeout would cut off a
// request that waits.)
type timedBody struct {
	io.ReadCloser

	control *http.ResponseController
	header  http.Header
	intake  *admission.Intake
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if refused := b.intake.Add(n); refused != nil {
		b.header.Set("Connection", "close") // the rest is not read
		return 0, refused
	}
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // every connection here has deadlines
	case err != nil:
		b.header.Set("Connection", "close") // it is not known where the next request would begin
	}
	return n, err //nolint:wrapcheck // as the body would say it
}

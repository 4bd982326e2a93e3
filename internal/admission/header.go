package admission

import (
	"io"
	"net/http"
)

const (
	// valueBytes is the size of a value without its texts. Measured: a name takes some 90 bytes of
	// the map, and each value 16 of a list and two small allocations.
	valueBytes = 128
	// trailerBytes is the largest size of the trailers that a header announces. HTTP/2 bounds them
	// as it does a header, and HTTP/1 by a buffer of 4 KiB, in which 1,000 values have room.
	trailerBytes = 128 << 10
	// UsualHeader is the size of a header that does not count: 1 KiB of texts in 24 values, or a
	// large token in a few.
	UsualHeader = 1<<10 + 24*valueBytes
)

// HeaderBytes returns the size of a request's header in memory, in bytes.
func HeaderBytes(r *http.Request) (n int) {
	n = len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			n += valueBytes + len(name) + len(value)
		}
	}
	if r.Trailer != nil {
		n += trailerBytes
	}
	// an announced name is kept twice: as the announcement, and with its value
	for name := range r.Trailer {
		n += valueBytes + len(name)
	}
	return n
}

// Header counts the bytes of a request's header beyond a usual one, or refuses them. A call keeps
// its header while it is in flight.
func (i *Intake) Header(r *http.Request) error {
	if more := HeaderBytes(r) - UsualHeader; more > 0 {
		return i.Add(more)
	}
	return nil
}

// WithoutTrailers returns the body of a request that drops the trailers. With HTTP/1 a request
// keeps trailers even if it has not announced them. The request must be the server's own, not a
// copy.
func WithoutTrailers(r *http.Request) io.ReadCloser {
	return &withoutTrailers{ReadCloser: r.Body, request: r}
}

type withoutTrailers struct {
	io.ReadCloser

	request *http.Request
}

func (b *withoutTrailers) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.request.Trailer = nil
	}
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}

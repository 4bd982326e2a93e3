package admission

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The library that handles requests ignores the case of a body's media type. The bounds of the
// body must ignore it too.
func TestMessagesAreBoundedHoweverTheirKindIsSpelled(t *testing.T) {
	errTooLarge := errors.New("too large")
	var message bytes.Buffer
	w := gzip.NewWriter(&message)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sent := binary.BigEndian.AppendUint32([]byte{flagCompressed}, uint32(message.Len()))
	sent = append(sent, message.Bytes()...)
	for _, kind := range []string{
		"application/grpc", "Application/GRPC+proto", "application/gRPC-Web+proto", " APPLICATION/connect+json; charset=utf-8",
	} {
		c := New(Limits{}, Options{Refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "Refusals."}, []string{"reason"})})
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(sent))
		r.Header = http.Header{"Content-Type": {kind}, "Grpc-Encoding": {"gzip"}, "Connect-Content-Encoding": {"gzip"}}
		Body(r, Bounds{
			Limit: int64(len(sent)), Intake: c.Intake(Caller{ID: "a"}),
			TooLarge: func() error { return errTooLarge }, Whole: func(int64) error { return nil },
		})
		if text, err := io.ReadAll(r.Body); !errors.Is(err, errTooLarge) {
			t.Errorf("%q: %d bytes were read, %v: want it refused for what it becomes", kind, len(text), err)
		}
	}
}

package auth

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

// An answer without a reader does not block the decoding of other requests.
func TestNothingIsAnsweredWhileARequestIsDecoded(t *testing.T) {
	decoding := newDecoding(1)
	d := &decodeSlot{decoding: decoding, caller: admission.Caller{ID: "a"}}
	for name, answer := range map[string]func(http.ResponseWriter){
		"write": func(w http.ResponseWriter) { _, _ = w.Write([]byte("refused")) },
		"flush": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		if err := d.acquire(t.Context(), decodesAlone); err != nil {
			t.Fatal(err)
		}
		answer(&decodedWriter{ResponseWriter: looking{t, decoding, name}, slot: d})
	}
	if len(decoding.callers) > 0 {
		t.Errorf("%d lines of callers are left", len(decoding.callers))
	}
}

// looking is an answer during which nothing may be decoded.
type looking struct {
	t        *testing.T
	decoding *decoding
	what     string
}

func (l looking) Header() http.Header { return http.Header{} }
func (l looking) WriteHeader(int)     {}
func (l looking) Flush()              { _, _ = l.Write(nil) }

func (l looking) Write(p []byte) (int, error) {
	if len(l.decoding.slots) > 0 {
		l.t.Errorf("%s: a request has its place while its answer is sent", l.what)
	}
	return len(p), nil
}

// One caller's requests get half of the places, and a canceled request frees its place.
func TestACallerHasHalfOfThePlacesForDecoding(t *testing.T) {
	decoding := newDecoding(4)
	alice, bob := admission.Caller{ID: "alice"}, admission.Caller{ID: "bob"}
	take := func(caller admission.Caller, within time.Duration) (func(), error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return decoding.acquire(ctx, caller)
	}
	var done []func()
	for _, caller := range []admission.Caller{alice, alice, bob, bob} {
		end, err := take(caller, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, end)
		if _, err := take(alice, 0); err == nil {
			t.Fatal("a place was taken without time")
		}
		if len(done) < 2 {
			continue
		}
		if _, err := take(alice, time.Millisecond); err == nil {
			t.Fatal("a third request of one caller is decoded")
		}
	}
	if _, err := take(admission.Caller{ID: "carol"}, time.Millisecond); err == nil {
		t.Fatal("a fifth request is decoded")
	}
	for _, end := range done {
		end()
	}
	if len(decoding.callers) > 0 || len(decoding.slots) > 0 {
		t.Errorf("%d lines and %d places are taken", len(decoding.callers), len(decoding.slots))
	}
}

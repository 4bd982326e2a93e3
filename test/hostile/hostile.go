// Package hostile has the answers of a server that wants to fill the memory of its callers, or to
// keep them waiting for ever. Each handler goes on until its caller hangs up. They may be used by
// many goroutines.
package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Answers are handlers by what they do to a call of a unary procedure.
func Answers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"an endless answer": func(w http.ResponseWriter, _ *http.Request) { begin(w, "application/proto", http.StatusOK); endless(w) },
		"an endless error": func(w http.ResponseWriter, _ *http.Request) {
			begin(w, "application/json", http.StatusTeapot)
			endless(w)
		},
		"an endless page": func(w http.ResponseWriter, _ *http.Request) { begin(w, "text/html", http.StatusOK); endless(w) },
		"an answer that unpacks": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			begin(w, "application/proto", http.StatusOK)
			_, _ = w.Write(bomb())
		},
		"an error that unpacks": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			begin(w, "application/json", http.StatusTeapot)
			_, _ = w.Write(bomb())
		},
		"endless headers":  headers,
		"a byte at a time": trickle,
	}
}

// Streams are handlers by what they do to a call that is answered with a stream, but for one that
// goes on.
func Streams() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"a message of 4 GiB": func(w http.ResponseWriter, _ *http.Request) {
			begin(w, "application/connect+proto", http.StatusOK)
			_, _ = w.Write([]byte{0, 0xff, 0xff, 0xff, 0xff})
			endless(w)
		},
		"a message that unpacks": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connect-Content-Encoding", "gzip")
			begin(w, "application/connect+proto", http.StatusOK)
			packed := bomb()
			_, _ = w.Write([]byte{1, byte(len(packed) >> 24), byte(len(packed) >> 16), byte(len(packed) >> 8), byte(len(packed))}) //nolint:gosec // by and by
			_, _ = w.Write(packed)
		},
		"an end that does not end": func(w http.ResponseWriter, _ *http.Request) {
			begin(w, "application/connect+proto", http.StatusOK)
			_, _ = w.Write([]byte{2, 0xff, 0xff, 0xff, 0xff})
			endless(w)
		},
	}
}

// Endless sends empty messages as fast as they are taken.
func Endless(w http.ResponseWriter, _ *http.Request) {
	begin(w, "application/connect+proto", http.StatusOK)
	for messages := make([]byte, 5*1000); ; {
		if _, err := w.Write(messages); err != nil {
			return
		}
	}
}

func begin(w http.ResponseWriter, kind string, status int) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
}

// endless writes until the other end has gone.
func endless(w io.Writer) {
	piece := bytes.Repeat([]byte{' '}, 1<<16)
	for {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// headers sends headers without end, or 1 MiB of them over HTTP/2, whose server knows how many it
// has.
func headers(w http.ResponseWriter, _ *http.Request) {
	hijacker, can := w.(http.Hijacker)
	if !can {
		for i := range 16 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1<<16))
		}
		begin(w, "application/proto", http.StatusOK)
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nX: ")
	endless(conn)
}

// trickle sends a byte every 10 ms.
func trickle(w http.ResponseWriter, r *http.Request) {
	begin(w, "application/proto", http.StatusOK)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_, _ = w.Write([]byte{' '})
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// bomb is 1 MiB that unpacks to 1 GiB: as many members, each of 1 MiB.
var bomb = sync.OnceValue(func() []byte { //nolint:gochecknoglobals // it never changes
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		panic(err) // a buffer takes everything
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return bytes.Repeat(member.Bytes(), 1<<10)
})

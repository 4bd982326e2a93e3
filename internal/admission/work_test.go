package admission

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/test/pipes"
)

// toldOf records its calls.
type toldOf struct{ events []string }

func (t *toldOf) Begin() { t.events = append(t.events, "begin") }
func (t *toldOf) End()   { t.events = append(t.events, "end") }

// wants compares the calls since the last time, and counts several ends as one.
func (t *toldOf) wants(tb testing.TB, when string, want ...string) {
	tb.Helper()
	synctest.Wait()
	if got := slices.Compact(t.events); !slices.Equal(got, want) {
		tb.Errorf("%s it is told %q; want %q", when, got, want)
	}
	t.events = nil
}

// Work on a connection begins with the first bytes of a request. The first request decides which
// receiver is told of that.
func TestAConnectionSaysWhenItIsWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConnections(ConnectionLimits{
			Unknown: 8, Address: 8, Known: 8, Caller: 8, First: time.Minute, Nameless: time.Minute,
		}, ConnectionOptions{Refused: func() {}, Log: slog.New(slog.DiscardHandler)})
		told, answers := new(toldOf), make(chan struct{})
		server := &http.Server{
			ConnState: c.State, ConnContext: c.Context,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer c.Begin(r.Context())()
				if c.Work(r.Context()) == nil && !c.KeepWork(r.Context(), told) {
					t.Error("the connection is not counted")
				}
				_, _ = io.Copy(io.Discard, r.Body)
				<-answers
			}),
		}
		listener := pipes.Listen()
		served := make(chan error, 1)
		go func() { served <- server.Serve(c.Listen(listener)) }()
		conn := listener.Dial()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		send := func(text string) {
			t.Helper()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
		}
		calls := func() int64 {
			synctest.Wait()
			for _, list := range c.unknown.of {
				counted, _ := list.Front().Value.(*Connection)
				return counted.calls.Load()
			}
			return -1
		}
		send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		told.wants(t, "at the first request")
		answers <- struct{}{}
		for range 2 {
			told.wants(t, "when the answer is sent", "end")
			if calls() != 0 {
				t.Errorf("%d calls are under way between two; want none", calls())
			}
			send("POST / HTTP/1.1\r\nHost: x\r\n")
			told.wants(t, "at half a header", "begin")
			if calls() != 1 {
				t.Errorf("%d calls are under way at half a header; want 1", calls())
			}
			send("Content-Length: 2\r\n\r\n")
			told.wants(t, "at the rest of the header")
			send("{}")
			told.wants(t, "at its body")
			answers <- struct{}{}
		}
		told.wants(t, "when the last answer is sent", "end")
		_ = conn.Close()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		told.wants(t, "when it is closed", "end")
	})
}

// Requests that arrive before earlier ones were answered are handled like others: reads of net/http
// during a handler are no reason to wait.
func TestRequestsThatComeTooEarlyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConnections(ConnectionLimits{
			Unknown: 8, Address: 8, Known: 8, Caller: 8, First: time.Minute, Nameless: time.Minute,
		}, ConnectionOptions{Refused: func() {}, Log: slog.New(slog.DiscardHandler)})
		told, answered := new(toldOf), 0
		server := &http.Server{
			ConnState: c.State, ConnContext: c.Context,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				defer c.Begin(r.Context())()
				c.KeepWork(r.Context(), told)
				time.Sleep(time.Second)
				answered++
			}),
		}
		listener := pipes.Listen()
		served := make(chan error, 1)
		go func() { served <- server.Serve(c.Listen(listener)) }()
		conn := listener.Dial()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		go func() { _, _ = io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200)) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if answered != 200 {
			t.Errorf("%d of 200 are answered", answered)
		}
		_ = conn.Close()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

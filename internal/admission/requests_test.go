package admission

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections within the process.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.ended); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// toldOf writes down what it is told.
type toldOf struct{ events []string }

func (t *toldOf) Begin() { t.events = append(t.events, "begin") }
func (t *toldOf) End()   { t.events = append(t.events, "end") }

// wants compares what was told since the last time, several ends as one.
func (t *toldOf) wants(tb testing.TB, when string, want ...string) {
	tb.Helper()
	synctest.Wait()
	if got := slices.Compact(t.events); !slices.Equal(got, want) {
		tb.Errorf("%s it is told %q; want %q", when, got, want)
	}
	t.events = nil
}

func TestAConnectionSaysWhenItIsWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConnections(ConnectionLimits{
			Unknown: 8, Address: 8, Known: 8, Caller: 8, First: time.Minute, Nameless: time.Minute,
		}, ConnectionOptions{Refused: func() {}, Log: slog.New(slog.DiscardHandler)})
		told, answers := new(toldOf), make(chan bool)
		server := &http.Server{
			ConnState: c.State,
			ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
				ctx = c.Context(ctx, conn)
				c.Tell(ctx, told)
				return ctx
			},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer c.Begin(r.Context())()
				_, _ = io.Copy(io.Discard, r.Body)
				if !<-answers {
					c.Tell(r.Context(), nil)
				}
			}),
		}
		listener := newPipes()
		served := make(chan error, 1)
		go func() { served <- server.Serve(c.Listen(listener)) }()
		conn := listener.dial()
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
		told.wants(t, "before anything has come", "end")
		for range 2 {
			send("POST / HTTP/1.1\r\nHost: x\r\n")
			told.wants(t, "at half a header, and before it waits for the rest", "begin", "end")
			if calls() != 1 {
				t.Errorf("%d calls are under way at half a header; want 1", calls())
			}
			send("Content-Length: 2\r\n\r\n")
			told.wants(t, "at the rest of the header", "begin")
			send("{}")
			told.wants(t, "at its body")
			answers <- true
			told.wants(t, "when the answer is sent, and before it waits for the next request", "end")
			if calls() != 0 {
				t.Errorf("%d calls are under way between two; want none", calls())
			}
		}
		send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		told.wants(t, "at a header", "begin")
		answers <- false
		told.wants(t, "from when nobody is to be told")
		_ = conn.Close()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		told.wants(t, "when it is closed")
	})
}

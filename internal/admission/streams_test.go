package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stubborn is an HTTP/2 server whose handlers end only when the test says so, and not when their
// stream is reset.
type stubborn struct {
	address string
	begun   chan struct{}
	under   atomic.Int64
	most    atomic.Int64
	end     chan struct{}
	closed  chan struct{} // one element for each connection that is closed
}

func newStubborn(t *testing.T, streams int) *stubborn {
	t.Helper()
	s := &stubborn{begun: make(chan struct{}, 4096), end: make(chan struct{}), closed: make(chan struct{}, 10)}
	c := NewConnections(ConnectionLimits{Unknown: 100, Address: 100, Known: 100, Caller: 100, Streams: streams, First: time.Minute, Nameless: time.Minute}, ConnectionOptions{
		Refused: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.closed <- struct{}{}
			}
		},
		Protocols: protocols, ConnContext: c.Context, ReadHeaderTimeout: time.Minute, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			r, ended := c.Start(r)
			defer ended()
			now := s.under.Add(1)
			defer s.under.Add(-1)
			most := s.most.Load()
			for now > most && !s.most.CompareAndSwap(most, now) {
				most = s.most.Load()
			}
			Started(r.Context())
			s.begun <- struct{}{}
			<-s.end
		}),
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(c.Listen(listener)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	s.address = listener.Addr().String()
	return s
}

// resets are streams that are reset right after their beginning.
func resets(t *testing.T, from, number uint32) []byte {
	t.Helper()
	var out, header bytes.Buffer
	framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&header)
	encoder.SetMaxDynamicTableSize(0)
	for i := range number {
		header.Reset()
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				t.Fatal(err)
			}
		}
		id := 2*(from+i) + 1
		if err := errors.Join(
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(), EndHeaders: true}),
			framer.WriteData(id, true, []byte("{}")),
			framer.WriteRSTStream(id, http2.ErrCodeCancel),
		); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// A reset stream counts until its handler has ended. Until then the next streams are not read: they
// are not queued, and the connection, which several callers may share, is not ended.
func TestAStreamThatWasResetCountsUntilItsHandlerHasEnded(t *testing.T) {
	const streams, number = 8, 200
	s := newStubborn(t, streams)
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var begin bytes.Buffer
	begin.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&begin, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(begin.Bytes(), resets(t, 0, number)...)); err != nil {
		t.Fatal(err)
	}
	for range streams {
		<-s.begun
	}
	// The other handlers end as soon as they begin. Some never do, because their stream was reset
	// before net/http knew that a handler had ended.
	close(s.end)
	if err := http2.NewFramer(conn, nil).WritePing(false, [8]byte{1}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal("the connection was ended: ", err)
		}
		if ping, is := frame.(*http2.PingFrame); is && ping.IsAck() {
			break // all that was sent before it was read
		}
	}
	if most := s.most.Load(); most > streams {
		t.Errorf("%d handlers at a time, want %d", most, streams)
	}
}

// A peer that has gone may have left unread frames. Its handlers end.
func TestAConnectionThatIsNotReadEndsWithItsPeer(t *testing.T) {
	const streams, number = 8, 200
	s := newStubborn(t, streams)
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	var begin bytes.Buffer
	begin.WriteString(http2.ClientPreface)
	if err := http2.NewFramer(&begin, conn).WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(begin.Bytes(), resets(t, 0, number)...)); err != nil {
		t.Fatal(err)
	}
	for range streams {
		<-s.begun
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.closed
	if len(s.begun) > 1 { // one stream begins after a time if no other ends
		t.Errorf("%d more streams have begun", len(s.begun))
	}
	close(s.end)
}

package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission/frames"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// refusalDelay is how long the server reads nothing from a connection after it refused a
	// request of it, so that a caller that repeats its request at once costs little.
	refusalDelay = 50 * time.Millisecond
	// roomTime is how long the next stream waits for the end of an earlier one, if the connection
	// has as many handlers as it may have.
	roomTime = time.Second
	// writeSlow is how long a write takes if the peer does not read. Then the server reads one
	// frame each writePause: it answers most frames with another one, and would have to hold these
	// answers.
	writeSlow, writePause = 10 * time.Millisecond, time.Second
)

// streams decides when the server reads from one HTTP/2 connection. A reader that waits holds
// nothing but the connection, and the wait never ends the connection.
type streams struct {
	scanner frames.Scanner // used only by the goroutine that reads
	gate    *gate

	room     chan struct{} // one element: a handler has ended while crowded
	crowded  atomic.Bool   // the reader waits for the end of a handler
	paused   atomic.Int64  // no reads before this time, in Unix nanoseconds
	written  chan struct{} // one element: a write has ended while unsent
	writing  atomic.Int64  // when the current write began, in Unix nanoseconds; 0: there is none
	unsent   atomic.Bool   // the reader waits for the end of a write
	secured  *tls.Conn     // nil: the connection has no TLS
	security atomic.Pointer[tls.ConnectionState]
}

func newStreams(t *turns) streams {
	return streams{gate: newGate(t), room: make(chan struct{}, 1), written: make(chan struct{}, 1)}
}

// wait ends the turn of the connection, and waits until the server may read from it again.
func (conn *Connection) wait() {
	s := &conn.streams
	if !s.scanner.IsHTTP2() {
		return
	}
	s.gate.leave()
	if until := s.paused.Load(); until != 0 {
		pause.For(min(refusalDelay, time.Duration(until-time.Now().UnixNano())), s.gate.ended, nil)
		s.paused.CompareAndSwap(until, 0)
		conn.endIfGone()
	}
	if began := s.writing.Load(); began != 0 && time.Duration(time.Now().UnixNano()-began) > writeSlow {
		s.unsent.Store(true)
		if s.writing.Load() == began {
			if !await(s.written, s.gate.ended, writePause) {
				conn.endIfGone()
			}
		}
		s.unsent.Store(false)
	}
}

// await waits for an element, the end, or at most most. It reports whether an element came.
func await(c <-chan struct{}, ended <-chan struct{}, most time.Duration) (in bool) {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-ended:
	case <-late.C:
	}
	return false
}

// tell wakes a goroutine that waits for c.
func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// came processes the bytes that were read. With HTTP/2 it returns when the server may handle them.
func (conn *Connection) came(p []byte) {
	s := &conn.streams
	begun, light := s.scanner.Scan(p)
	if !s.scanner.IsHTTP2() {
		return
	}
	if begun > 0 && conn.handlersFull() {
		s.crowded.Store(true)
		for late := time.Now().Add(roomTime); conn.handlersFull(); {
			if !await(s.room, s.gate.ended, time.Until(late)) {
				conn.endIfGone()
				break
			}
		}
		s.crowded.Store(false)
	}
	if caller := conn.counts.Load(); caller.counted() {
		s.gate.enter(caller.ID, begun, light)
	}
}

// endIfGone closes a connection whose peer has closed it. The server notices that only after it has
// read all earlier bytes.
func (conn *Connection) endIfGone() {
	socket, ok := conn.Conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor
		n, err := unix.Poll(state, 0)
		gone = err == nil && n > 0 && state[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	if err == nil && gone {
		conn.end()
	}
}

// handlersFull reports whether the connection has as many handlers as it may have. Beyond that,
// net/http would queue up to four times as many requests.
func (conn *Connection) handlersFull() bool {
	limit := conn.owner.limits.Streams
	return limit > 0 && conn.calls.Load() >= int64(limit)
}

// Read reads from the connection.
func (conn *Connection) Read(p []byte) (int, error) {
	conn.wait()
	n, err := conn.Conn.Read(p)
	if n > 0 {
		conn.beginWork()
		if conn.secured == nil {
			conn.came(p[:n])
		}
	}
	return n, err //nolint:wrapcheck // unchanged
}

// Write writes to the connection.
func (conn *Connection) Write(p []byte) (int, error) {
	conn.writing.Store(time.Now().UnixNano())
	n, err := conn.Conn.Write(p)
	conn.writing.Store(0)
	conn.gate.sent.Add(int64(n))
	if conn.unsent.Load() {
		tell(conn.written)
	}
	return n, err //nolint:wrapcheck // unchanged
}

// securedConn is a connection with TLS. It is not a *tls.Conn, so that net/http reads HTTP/2 from
// it as from a connection without TLS. The first read does the handshake. Start gives requests the
// state of TLS.
type securedConn struct {
	net.Conn // the *tls.Conn, without its other methods

	counted *Connection
}

// NetConn returns the connection below TLS.
func (c *securedConn) NetConn() net.Conn { return c.counted }

// CloseWrite closes the writing side of TLS.
func (c *securedConn) CloseWrite() error {
	return c.counted.secured.CloseWrite() //nolint:wrapcheck // unchanged
}

// Read reads from the connection.
func (c *securedConn) Read(p []byte) (int, error) {
	c.counted.wait()
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.counted.came(p[:n])
	}
	if wrong, ok := errors.AsType[tls.RecordHeaderError](err); ok && wrong.Conn != nil && !bytes.Contains(wrong.RecordHeader[:], []byte{0}) {
		// like net/http; the bytes may not be HTTP
		_, _ = io.WriteString(wrong.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	return n, err //nolint:wrapcheck // unchanged
}

type securedListener struct {
	net.Listener

	connections *Connections
	config      *tls.Config
}

// ListenSecured counts the connections that a listener accepts, and adds TLS to them.
func (c *Connections) ListenSecured(l net.Listener, config *tls.Config) net.Listener {
	return &securedListener{l, c, config}
}

// Accept returns the next connection.
func (l *securedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server decides on it
	}
	counted := l.connections.add(conn)
	counted.secured = tls.Server(counted, l.config)
	return &securedConn{counted.secured, counted}, nil
}

// state returns the state of TLS; nil if the connection has no TLS.
func (conn *Connection) state() *tls.ConnectionState {
	if conn.secured == nil {
		return nil
	}
	state := conn.security.Load()
	if state == nil {
		state = new(conn.secured.ConnectionState())
		conn.security.Store(state)
	}
	return state
}

type startKey struct{}

// start belongs to one HTTP/2 request.
type start struct {
	gate *gate
	once sync.Once
	let  atomic.Bool // LetThrough was called
}

func (s *start) started() { s.once.Do(s.gate.started) }

// Start is Begin for the server's own request. It returns the request with the context that Started
// and LetThrough need.
func (c *Connections) Start(r *http.Request) (with *http.Request, ended func()) {
	ctx := r.Context()
	end := c.Begin(ctx)
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if !ok {
		return r, end
	}
	if state := conn.state(); state != nil {
		r.TLS = state
	}
	if r.ProtoMajor != 2 {
		return r, end
	}
	s := &start{gate: conn.gate}
	return r.WithContext(context.WithValue(ctx, startKey{}, s)), func() {
		if s.let.Load() && ctx.Err() == nil { // the stream was not reset
			s.gate.answered.Add(1)
		}
		s.started()
		end()
	}
}

// Started says that a request waits for something, or is within its caller's limits. Then the next
// stream of its owner may begin.
func Started(ctx context.Context) {
	if s, ok := ctx.Value(startKey{}).(*start); ok {
		s.started()
	}
}

// LetThrough is Started for a request that was permitted and counted. Once it is answered, its
// frames count no longer.
func LetThrough(ctx context.Context) {
	if s, ok := ctx.Value(startKey{}).(*start); ok {
		s.let.Store(true)
		s.gate.let.Store(true)
		s.started()
	}
}

// DelayRefusal delays a caller whose request is refused. Over HTTP/2 the answer goes out at once,
// and the server reads nothing from the connection for refusalDelay: a refusal that waits in its
// handler would take memory. Over HTTP/1 the connection's goroutine waits here. A connection that
// several callers share must not wait for one of them.
func (c *Connections) DelayRefusal(r *http.Request) {
	conn, ok := r.Context().Value(connectionKey{}).(*Connection)
	switch {
	case r.ProtoMajor != 2:
		pause.For(refusalDelay, r.Context().Done(), nil)
	case ok:
		conn.paused.Store(time.Now().Add(refusalDelay).UnixNano())
	}
}

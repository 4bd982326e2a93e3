// Package standin answers in the place of a server whose start waits for something: /healthz says
// that the process runs, /readyz why it is not ready, and every other call is answered with
// UNAVAILABLE, so that clients try again or go elsewhere.
//
// It knows no identities, so anybody may read its answers: a reason must not have paths of this
// machine or words of other servers. One caller holds few of its connections: the caller's next one
// takes the place of the oldest.
//
// The server gets the listener once it can answer, so that nobody else can take the port meanwhile.
// A Server's methods may be called concurrently, except Close and its Reserved's Take.
package standin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

const (
	// connections is how many may be open at a time, and callerConnections how many of one caller.
	// One too many ends the oldest of a caller: of the same one, or of the one that has the most.
	connections, callerConnections = 64, 16
	// patience is how long one connection may take, and headerPatience until its request has come.
	// None is kept for another request.
	patience, headerPatience = 5 * time.Second, 2 * time.Second
	// answering is how long the end of the service waits for answers under way.
	answering = time.Second
	// maxHeader is the most of a request that is read, in bytes.
	maxHeader = 8 << 10
)

// Server stands in for a server that waits.
type Server struct {
	listener *lent
	http     *http.Server
	reason   atomic.Pointer[string]
	open     sync.WaitGroup // connections
	done     chan struct{}  // closed when no connections are taken any more
}

// Options say how a Server answers.
type Options struct {
	// TLS is its configuration. Nil: it answers without TLS.
	TLS *tls.Config
	// Reason is why the server is not ready, until Says.
	Reason string
	// OwnerOf names the caller that a connection counts on, if that is known; otherwise a
	// connection counts on its remote address. Nil: it is never known.
	OwnerOf func(net.Conn) admission.Caller
	// Log takes a line about callers with too many connections, once a minute for each.
	Log *slog.Logger
}

// Listen begins to serve on an address.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	var config net.ListenConfig
	made, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	inner, ok := made.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listen on %s: no TCP", address), made.Close())
	}
	s := &Server{listener: &lent{TCPListener: inner}, done: make(chan struct{})}
	s.Says(o.Reason)
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.answer), MaxHeaderBytes: maxHeader,
		ConnState:         s.count,
		ReadHeaderTimeout: headerPatience, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
	}
	s.http.SetKeepAlivesEnabled(false)
	// Nothing tells it of requests, so First bounds whole connections, also those of HTTP/2.
	counted := admission.NewConnections(
		admission.ConnectionLimits{Unknown: connections, Address: callerConnections, First: patience},
		admission.ConnectionOptions{OwnerOf: o.OwnerOf, Refused: func() {}, Log: o.Log},
	)
	listener := counted.Listen(s.listener)
	if o.TLS != nil {
		listener = tls.NewListener(listener, o.TLS)
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener)
	}()
	return s, nil
}

// Says changes the reason why the server is not ready.
func (s *Server) Says(reason string) { s.reason.Store(&reason) }

// Address is where it serves.
func (s *Server) Address() string { return s.listener.Addr().String() }

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	reason := *s.reason.Load()
	switch r.URL.Path {
	case "/healthz":
		fmt.Fprintln(w, "ok")
	case "/readyz":
		http.Error(w, "starting: "+reason, http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, `{"code":"unavailable","message":"this coordinator is starting, and serves later"}`)
	}
}

// Close ends the service and closes the listener.
func (s *Server) Close() error {
	listener, err := s.handOver()
	if err != nil {
		return err
	}
	return listener.Close() //nolint:wrapcheck // names the address
}

// handOver ends the service and returns the listener. Connections that are open are answered first,
// except those that say nothing. http.Server.Shutdown would drop requests that arrive after its
// call.
func (s *Server) handOver() (net.Listener, error) {
	err := s.listener.Close() // it waits for no connection to end
	<-s.done
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.open.Wait()
	}()
	patient := time.NewTimer(answering)
	defer patient.Stop()
	select {
	case <-answered:
	case <-patient.C:
	}
	err = errors.Join(err, s.http.Close())
	<-answered
	if err = errors.Join(err, s.listener.SetDeadline(time.Time{})); err != nil {
		return nil, errors.Join(fmt.Errorf("end the stand-in: %w", err), s.listener.TCPListener.Close())
	}
	return s.listener.TCPListener, nil
}

// count counts the connections that are open.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed:
		s.open.Done()
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

// Reserve returns the listener that the server in whose place this one stands will use.
func (s *Server) Reserve() *Reserved { return &Reserved{from: s} }

// Reserved is a listener that the stand-in uses until Take. If it is closed before, the stand-in
// goes on. It is for one goroutine until Take has returned.
type Reserved struct {
	from  *Server
	taken net.Listener // nil: not yet
}

// Take ends the stand-in's service: the next connection is Accept's. After an error the stand-in
// has ended, and the listener is closed.
func (r *Reserved) Take() error {
	listener, err := r.from.handOver()
	if err != nil {
		listener = closed{r.from.listener.Addr()}
	}
	r.taken = listener
	return err
}

// Taken reports whether Take was called.
func (r *Reserved) Taken() bool { return r.taken != nil }

// Accept implements net.Listener.
func (r *Reserved) Accept() (net.Conn, error) {
	if r.taken == nil {
		return nil, net.ErrClosed
	}
	return r.taken.Accept() //nolint:wrapcheck // a listener's
}

// Addr implements net.Listener.
func (r *Reserved) Addr() net.Addr { return r.from.listener.Addr() }

// Close implements net.Listener.
func (r *Reserved) Close() error {
	if r.taken == nil {
		return nil
	}
	return r.taken.Close() //nolint:wrapcheck // a listener's
}

// closed is a listener that was closed.
type closed struct{ address net.Addr }

func (closed) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closed) Close() error              { return nil }
func (c closed) Addr() net.Addr          { return c.address }

// lent is a listener that stays open when its user closes it.
type lent struct {
	*net.TCPListener

	closed atomic.Bool
}

// Accept implements net.Listener.
func (l *lent) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil && l.closed.Load() {
		return nil, net.ErrClosed
	}
	return conn, err //nolint:wrapcheck // a listener's; a connection that has come meanwhile is answered
}

// Close makes Accept return.
func (l *lent) Close() error {
	l.closed.Store(true)
	return l.SetDeadline(time.Now()) //nolint:wrapcheck // names the address
}

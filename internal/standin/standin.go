// Package standin answers in the place of a server whose start waits for something: /healthz says
// that the process runs, /readyz why it is not ready, and every other call is answered with
// UNAVAILABLE, so that clients try again or go elsewhere.
//
// The server gets the listener when its start goes on, so that nobody else can take the port
// meanwhile. A Server's methods may be called concurrently, except HandOver and Close.
package standin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// connections is how many are answered at a time: more wait.
	connections = 64
	// patience is how long one connection may take. None is kept for another request.
	patience = 5 * time.Second
	// maxHeader is the most of a request that is read, in bytes.
	maxHeader = 8 << 10
)

// Server stands in for a server that waits.
type Server struct {
	listener *lent
	http     *http.Server
	reason   atomic.Pointer[string]
	done     chan struct{} // closed when nothing is served any more
}

// Listen begins to serve on an address, with TLS if there is a configuration of it.
func Listen(ctx context.Context, address string, secure *tls.Config, reason string) (*Server, error) {
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
	s.Says(reason)
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.answer), MaxHeaderBytes: maxHeader,
		ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
	}
	s.http.SetKeepAlivesEnabled(false)
	listener := netutil.LimitListener(s.listener, connections)
	if secure != nil {
		listener = tls.NewListener(listener, secure)
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
		_ = json.NewEncoder(w).Encode(map[string]string{"code": "unavailable", "message": "this coordinator is starting, and serves later"})
	}
}

// HandOver ends the service and returns the listener.
func (s *Server) HandOver() (net.Listener, error) {
	err := s.http.Close()
	<-s.done
	if err = errors.Join(err, s.listener.SetDeadline(time.Time{})); err != nil {
		return nil, errors.Join(fmt.Errorf("end the stand-in: %w", err), s.listener.TCPListener.Close())
	}
	return s.listener.TCPListener, nil
}

// Close ends the service and closes the listener.
func (s *Server) Close() error {
	listener, err := s.HandOver()
	if err != nil {
		return err
	}
	return listener.Close() //nolint:wrapcheck // names the address
}

// lent is a listener that stays open when its user closes it.
type lent struct {
	*net.TCPListener

	closed atomic.Bool
}

// Accept implements net.Listener.
func (l *lent) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if l.closed.Load() {
		if err == nil {
			_ = conn.Close()
		}
		return nil, net.ErrClosed
	}
	return conn, err //nolint:wrapcheck // a listener's
}

// Close makes Accept return.
func (l *lent) Close() error {
	l.closed.Store(true)
	return l.SetDeadline(time.Now()) //nolint:wrapcheck // names the address
}

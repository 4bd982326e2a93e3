package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
)

const (
	// receiveBuffer is how many bytes an HTTP/2 connection may send before the server reads them.
	receiveBuffer = 64 << 10
	// headerTimeout and bodyTimeout bound the arrival of a request's header and body; idleTimeout
	// the pause between requests.
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout bounds each write: the connection of a peer that does not read is closed.
	writeTimeout = 30 * time.Second
	// shutdownQuick is how long calls in flight have to end when the agent does; shutdownLong is
	// how long until they are cut off.
	shutdownQuick = time.Second
	shutdownLong  = 5 * time.Second
)

// Options configure a Server.
type Options struct {
	HostID string
	// Trusted are the users who may act as anyone, by names and uids. Root and the user of this
	// process always may.
	Trusted []string
	// Limits bound the requests of one user. Settings maps the reason of a refusal to the setting
	// of its limit. Refused counts refusals, by reason.
	Limits   admission.Limits
	Settings map[string]string
	Refused  *prometheus.CounterVec
	// Where returns the current addresses.
	Where func() Where
	// Given is the socket that a service manager has opened; nil: there is none.
	Given net.Listener
	// Refuse makes the error of an unusable setting.
	Refuse Refuse
	// View returns how a process sees others, by its pid in the process table Proc.
	View View
	Proc string
	// Identify returns the process that has a pid now.
	Identify Identify
	// Handler returns the API's handler for the socket or for TCP. Calls that wait for resources
	// end with stopping.
	Handler func(stopping context.Context, socket bool) http.Handler
	Log     *slog.Logger
}

// Where has the addresses of the API.
type Where struct {
	// Path is the Unix socket's; Mode and Group define which users may connect. An empty Group
	// means this process's.
	Path  string
	Mode  fs.FileMode
	Group string
	// Loopback is a TCP address to listen on; empty: none.
	Loopback string
}

// Server is the local API: the Unix socket, and TCP on loopback if that is configured. Make it
// with New.
type Server struct {
	// Peers finds the callers, Admitted counts their requests.
	Peers    *Peers
	Admitted *admission.Controller

	options     Options
	connections *admission.Connections
	local       *Caller       // the caller of all calls over TCP
	lookups     chan struct{} // one element during the look-up of a caller over TCP
	endpoint    endpoint
	listeners   []net.Listener
	handlers    sync.WaitGroup

	// stopping ends first, and with it the calls that wait for resources; calls ends the others.
	stopping, calls        context.Context //nolint:containedctx // live as long as the server
	stopWaiting, stopCalls context.CancelFunc
}

// New returns a server that does not serve yet.
func New(o Options) *Server {
	s := &Server{
		Peers:    newPeers(o.HostID, uint32(os.Geteuid()), o.Trusted), //nolint:gosec // a uid
		Admitted: admission.New(o.Limits, admission.Options{Refused: o.Refused, Settings: o.Settings, Log: o.Log}),
		options:  o,
		connections: admission.NewConnections(connectionLimits(o.Limits), admission.ConnectionOptions{
			Refused: o.Refused.WithLabelValues("connections").Inc, Log: o.Log,
		}),
		lookups: make(chan struct{}, 1), endpoint: endpoint{options: o},
	}
	s.local = s.Peers.loopback()
	s.stopping, s.stopWaiting = context.WithCancel(context.Background())
	s.calls, s.stopCalls = context.WithCancel(context.Background())
	return s
}

// SetLimits replaces the limits of all users.
func (s *Server) SetLimits(limits admission.Limits) {
	s.Admitted.SetLimits(limits)
	s.connections.SetCaller(connectionLimits(limits).Caller)
}

// Listen opens the listeners. The errors are *InUseError, those of Options.Refuse, and the
// system's.
func (s *Server) Listen(ctx context.Context) error {
	socket, err := s.endpoint.open(ctx)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	s.listeners = append(s.listeners, s.ofPeers(socket))
	if address := s.options.Where().Loopback; address != "" {
		var config net.ListenConfig
		loopback, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return errors.Join(fmt.Errorf("agent: %w", err), socket.Close())
		}
		s.options.Log.Warn("anyone who can connect on loopback may act as any user", "address", loopback.Addr().String())
		s.listeners = append(s.listeners, &loopbackListener{Listener: loopback, server: s})
	}
	return nil
}

// Check makes the Unix socket again if it is missing, and returns the reason if that fails;
// otherwise empty.
func (s *Server) Check(ctx context.Context) (problem string) { return s.endpoint.check(ctx) }

// Serve serves until ctx ends, then lets the calls in flight end.
func (s *Server) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, listener := range s.listeners {
		server := s.HTTP(i == 0)
		answer := func(listener net.Listener) {
			group.Go(func() error {
				if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !s.endpoint.replaced(listener) {
					return fmt.Errorf("agent: serve %s: %w", listener.Addr(), err)
				}
				return nil
			})
		}
		answer(listener)
		if i == 0 {
			s.endpoint.serveBy(func(another net.Listener) { answer(s.ofPeers(another)) })
		}
		group.Go(func() error {
			<-ctx.Done()
			s.endpoint.serveBy(nil)
			s.stopWaiting()
			quick := time.AfterFunc(shutdownQuick, s.stopCalls)
			defer quick.Stop()
			deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLong)
			defer cancel()
			if err := server.Shutdown(deadline); err != nil {
				s.options.Log.Warn("calls were cut off", "error", err)
				return server.Close()
			}
			return nil
		})
	}
	err := group.Wait()
	s.stopWaiting()
	s.stopCalls()
	s.handlers.Wait()
	return err
}

// ofPeers accepts connections with the user that the kernel reports.
func (s *Server) ofPeers(socket net.Listener) net.Listener {
	return newPeerListener(socket, s)
}

// HTTP returns the server of one listener. Only the socket serves the pages about the agent itself.
func (s *Server) HTTP(socket bool) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for gRPC clients
	handler := s.options.Handler(s.stopping, socket)
	if !socket {
		// Pages in a browser do not act for the user that is trusted here.
		handler = http.NewCrossOriginProtection().Handler(handler)
	}
	return &http.Server{
		Handler:           s.limited(handler),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10,
		Protocols: protocols, HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: s.options.Limits.Calls, MaxReadFrameSize: 16 << 10,
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer,
		},
		BaseContext: func(net.Listener) context.Context { return s.calls },
		ConnContext: s.connContext,
		ErrorLog:    slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
}

// peerKey is the key of the credentials of a connection's peer.
type peerKey struct{}

// connContext returns the context of a connection, with its user.
func (s *Server) connContext(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*peerConn); ok {
		ctx, conn = WithProcess(ctx, c.process), c.Connection
		if c.peer != nil {
			ctx = context.WithValue(ctx, peerKey{}, c.peer)
		} else {
			ctx = WithCaller(ctx, c.local)
		}
	}
	return s.connections.Context(ctx, conn)
}

// identified looks up the caller of a request, with its current rights. If they cannot be
// determined, it returns a caller with the account of the request, and the error.
func (s *Server) identified(r *http.Request) (*http.Request, *Caller, error) {
	c := CallerOf(r.Context()) // of a connection over TCP
	var err error
	if peer, ok := r.Context().Value(peerKey{}).(*unix.Ucred); ok {
		if c, err = s.Peers.Caller(r.Context(), peer.Uid); err != nil {
			err = connect.NewError(connect.CodeUnavailable, err)
		}
	}
	if c == nil {
		c = s.local
	}
	return r.WithContext(WithCaller(r.Context(), c)), c, err
}

// limited bounds the arrival of a request and each write of its answer. It does not bound the time
// of a call, because requests may wait. It also bounds the requests of one user.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		r, over := s.connections.Start(r)
		defer over()
		answer := admission.NewWriter(w, writeTimeout)
		body := admission.WithoutTrailers(r)
		r, c, unsure := s.identified(r)
		taken := s.Admitted.Intake(c.Counted())
		defer taken.End()
		if r.Body != nil && r.Body != http.NoBody {
			// Every connection here has deadlines.
			_ = answer.Control.SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = &timedBody{ReadCloser: body, request: r, control: answer.Control, header: w.Header(), intake: taken}
		}
		begin := s.Admitted.Begin
		if keepsGrant(r.URL.Path) {
			begin = s.Admitted.BeginFollowUp
		}
		ended, err := begin(c.Counted())
		if err == nil {
			defer ended()
			if err = unsure; err == nil {
				err = taken.Header(r)
			}
		}
		if err != nil {
			s.connections.DelayRefusal(r)
			admission.Refuse(answer, r, err)
			return
		}
		admission.LetThrough(r.Context()) //nolint:contextcheck // it is the request's
		if name := compression(r); name != "" && refuseCompressed(answer, r, name) {
			return
		}
		next.ServeHTTP(answer, r)
		admission.Send(answer, r)
	})
}

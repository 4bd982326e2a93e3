package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// maxMessage is the largest message that is read. Requests to an agent are some hundred bytes.
	maxMessage = 1 << 20
	// maxDecoded is what the parts of one may take in memory, in bytes.
	maxDecoded = 16 * maxMessage
	// receiveBuffer is how much a connection of HTTP/2 may send that nobody has asked for yet, in bytes.
	receiveBuffer = 64 << 10
	// headerTimeout and bodyTimeout bound how long a connection may take to say what it wants; idleTimeout how long one may
	// say nothing between requests.
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout bounds each write: a peer that does not read is let go.
	writeTimeout = 30 * time.Second
	// shutdownQuick is how long calls under way have to end when the agent does; shutdownLong how long until they are cut off.
	shutdownQuick = time.Second
	shutdownLong  = 5 * time.Second
)

// server is the local API: the Unix socket, and TCP on loopback where that is configured.
type server struct {
	agent     *Agent
	listeners []net.Listener
	handlers  sync.WaitGroup

	// stopping ends first, and with it the calls that wait for resources; calls ends the others.
	stopping, calls        context.Context //nolint:containedctx // live as long as the server
	stopWaiting, stopCalls context.CancelFunc
}

// listen opens the listeners.
func (a *Agent) listen(ctx context.Context) (*server, error) {
	s := &server{agent: a}
	s.stopping, s.stopWaiting = context.WithCancel(context.WithoutCancel(ctx))
	s.calls, s.stopCalls = context.WithCancel(context.WithoutCancel(ctx))
	socket, err := a.socket.open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	s.listeners = append(s.listeners, s.ofPeers(socket))
	if a.settings().LoopbackListen != "" {
		var config net.ListenConfig
		loopback, err := config.Listen(ctx, "tcp", a.settings().LoopbackListen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("agent: %w", err), socket.Close())
		}
		a.log.Warn("whoever can connect on loopback may act as anyone", "address", loopback.Addr().String())
		s.listeners = append(s.listeners, &loopbackListener{Listener: loopback, agent: a})
	}
	return s, nil
}

// serve answers until ctx ends, then lets the calls under way end.
func (s *server) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, listener := range s.listeners {
		server := s.newServer(i == 0)
		answer := func(listener net.Listener) {
			group.Go(func() error {
				if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !s.agent.socket.replaced(listener) {
					return fmt.Errorf("agent: serve %s: %w", listener.Addr(), err)
				}
				return nil
			})
		}
		answer(listener)
		if i == 0 {
			s.agent.socket.serveBy(func(another net.Listener) { answer(s.ofPeers(another)) })
		}
		group.Go(func() error {
			<-ctx.Done()
			s.agent.socket.serveBy(nil)
			s.stopWaiting()
			quick := time.AfterFunc(shutdownQuick, s.stopCalls)
			defer quick.Stop()
			deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLong)
			defer cancel()
			if err := server.Shutdown(deadline); err != nil {
				s.agent.log.Warn("calls were cut off", "error", err)
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

// ofPeers accepts connections of which the kernel says whose they are.
func (s *server) ofPeers(socket net.Listener) net.Listener {
	return &peerListener{Listener: socket, peers: s.agent.peers, meter: s.agent.deps.Meter, connections: s.agent.connections, log: s.agent.log}
}

// newServer returns the server of one listener. What shows the inside of the agent is on the socket only.
func (s *server) newServer(socket bool) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for gRPC clients
	var handler http.Handler = s.mux(socket)
	if !socket {
		handler = http.NewCrossOriginProtection().Handler(handler) // a browser's pages are not whoever is trusted here
	}
	return &http.Server{
		Handler:           s.guard(handler),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10,
		Protocols: protocols, HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 256, MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer,
		},
		BaseContext: func(net.Listener) context.Context { return s.calls },
		ConnContext: s.connContext,
		ErrorLog:    slog.NewLogLogger(s.agent.log.Handler(), slog.LevelDebug),
	}
}

// uidKey has the user of a connection.
type uidKey struct{}

// connContext says whose connection it is.
func (s *server) connContext(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*peerConn); ok {
		ctx, conn = context.WithValue(ctx, peerProcessKey{}, c.process), c.Connection
		if c.uid != nil {
			ctx = context.WithValue(ctx, uidKey{}, *c.uid)
		}
	}
	return s.agent.connections.Context(ctx, conn)
}

// identified says who makes a request, and what they may by now.
func (s *server) identified(r *http.Request) (*http.Request, *caller) {
	c := s.agent.local
	if uid, ok := r.Context().Value(uidKey{}).(uint32); ok {
		c = s.agent.peers.caller(r.Context(), uid)
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c)), c
}

func (s *server) mux(socket bool) *http.ServeMux {
	mux := http.NewServeMux()
	small := connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxMessage),
		connect.WithCompression("gzip", nil, nil), // within a machine it costs more than it saves; and a few bytes could become many
	)
	options := connect.WithHandlerOptions(
		connect.WithCodec(convert.Binary{MaxDecoded: maxDecoded}), connect.WithCodec(convert.StrictJSON{MaxDecoded: maxDecoded}), small,
		connect.WithInterceptors(s.agent.deps.Tracing.Servers(nil)...), connect.WithInterceptors(s.agent.metrics.interceptor(), sized()), connect.WithRecover(s.recovered),
	)
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(&service{agent: s.agent, stopping: s.stopping}, options))
	mux.Handle(grpchealth.NewHandler(checker{s.agent}, small))
	services := []string{bursarv1connect.AllocationServiceName, grpchealth.HealthV1ServiceName}
	if socket { // over TCP nobody knows whose engine it would be
		mux.Handle(bursarv1connect.NewEngineServiceHandler(engines{s.agent}, options))
		services = append(services, bursarv1connect.EngineServiceName)
	}
	reflector := grpcreflect.NewStaticReflector(services...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, small))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, small))
	if !socket {
		return mux
	}
	mux.HandleFunc("GET /healthz", s.agent.serveHealthz)
	mux.HandleFunc("GET /readyz", s.agent.serveReadyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(admission.Share(s.agent.deps.Metrics.Gather)), promhttp.HandlerOpts{DisableCompression: true}))
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc(path, trustedOnly(handler))
	}
	return mux
}

// trustedOnly keeps the agent's memory from those who may not act as anyone.
func trustedOnly(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c := callerOf(r.Context()); c == nil || !c.trusted {
			http.Error(w, "for trusted callers only", http.StatusForbidden)
			return
		}
		handler(w, r)
	}
}

func (s *server) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.agent.log.Error("a call has failed in a way that should not be", "procedure", spec.Procedure, "cause", fmt.Sprint(cause))
	return connect.NewError(connect.CodeInternal, errors.New("the agent failed to handle the call; its log says more"))
}

// guard bounds how long a request may take to arrive, and each part of an answer to leave; how long an answer takes to be
// found is not bounded, as it may be that of a request that waits. It bounds how many come of one user, too.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		defer s.agent.connections.Begin(r.Context())()
		answer := admission.NewWriter(w, writeTimeout)
		body := admission.WithoutTrailers(r)
		r, c := s.identified(r)
		taken := s.agent.admitted.Intake(c.counted())
		defer taken.End()
		if r.Body != nil && r.Body != http.NoBody {
			_ = answer.Control.SetReadDeadline(time.Now().Add(bodyTimeout)) // every connection here has deadlines
			r.Body = &timedBody{ReadCloser: body, control: answer.Control, header: w.Header(), intake: taken}
		}
		begin := s.agent.admitted.Begin
		if settles(r.URL.Path) {
			begin = s.agent.admitted.Settle
		}
		ended, err := begin(c.counted())
		if err == nil {
			defer ended()
			err = taken.Header(r)
		}
		if err != nil {
			s.agent.admitted.Hold(r.Context(), c.counted()) //nolint:contextcheck // it is the request's
			admission.Refuse(answer, r, err)
			return
		}
		if name := compression(r); name != "" && refuseCompressed(answer, r, name) {
			return
		}
		next.ServeHTTP(answer, r)
		admission.Send(answer, r)
	})
}

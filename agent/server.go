package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bursar/bursar/agent/callers"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// maxMessage is the largest message that is read. Requests to an agent are some hundred bytes.
	maxMessage = 1 << 20
	// maxDecoded bounds the memory for the parts of one message, in bytes.
	maxDecoded = 16 * maxMessage
)

// SocketInUseError says that another process serves on the path of the agent's socket.
type SocketInUseError = socket.InUseError

// routes makes the handlers of the agent's local API.
type routes struct {
	agent    *Agent
	stopping context.Context //nolint:containedctx // calls that wait for resources end with it
}

// newSocket returns the server of the local API.
func (a *Agent) newSocket(refused *prometheus.CounterVec) *socket.Server {
	s := a.settings()
	return socket.New(socket.Options{
		HostID: s.HostID, Trusted: s.TrustedUsers, Limits: s.Callers.limits(), Settings: callerSettings(), Refused: refused,
		Where: func() socket.Where {
			s := a.settings()
			return socket.Where{Path: s.Socket, Mode: s.socketMode, Group: s.SocketGroup, Loopback: s.LoopbackListen}
		},
		Given: a.deps.Socket, Refuse: refuseSetting, View: a.deps.Meter.View, Identify: a.deps.Meter.Identify, Proc: a.deps.Proc,
		Handler: func(stopping context.Context, local bool) http.Handler {
			return (&routes{agent: a, stopping: stopping}).handler(local)
		},
		Log: a.log,
	})
}

func refuseSetting(field, value, want string) error { return &ConfigError{field, value, want} }

// handler serves the API. It serves EngineService, health, metrics and profiles only on the socket.
func (s *routes) handler(local bool) http.Handler {
	mux := http.NewServeMux()
	small := connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxMessage),
		// Within a machine, compression costs more than it saves; and a few bytes could become
		// many.
		connect.WithCompression("gzip", nil, nil),
	)
	options := connect.WithHandlerOptions(
		connect.WithCodec(convert.Binary{MaxDecoded: maxDecoded}), connect.WithCodec(convert.StrictJSON{MaxDecoded: maxDecoded}), small,
		connect.WithInterceptors(s.agent.deps.Tracing.Servers(nil)...), connect.WithInterceptors(s.agent.metrics.interceptor(), callers.Sized()), connect.WithRecover(s.recovered),
	)
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(s.agent.callers.Allocations(s.stopping), options))
	mux.Handle(grpchealth.NewHandler(checker{s.agent}, small))
	services := []string{bursarv1connect.AllocationServiceName, grpchealth.HealthV1ServiceName}
	if local { // over TCP nobody knows whose engine it would be
		mux.Handle(bursarv1connect.NewEngineServiceHandler(s.agent.callers.EngineService(s.stopping), options))
		services = append(services, bursarv1connect.EngineServiceName)
	}
	reflector := grpcreflect.NewStaticReflector(services...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, small))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, small))
	if !local {
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

// trustedOnly refuses callers that may not act as any user: profiles show the agent's memory.
func trustedOnly(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c := socket.CallerOf(r.Context()); c == nil || !c.Trusted {
			http.Error(w, "for trusted callers only", http.StatusForbidden)
			return
		}
		handler(w, r)
	}
}

func (s *routes) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.agent.log.Error("a call has failed in a way that should not be", "procedure", spec.Procedure, "cause", fmt.Sprint(cause))
	return connect.NewError(connect.CodeInternal, errors.New("the agent failed to handle the call; its log says more"))
}

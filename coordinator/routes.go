package coordinator

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/validate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// compressFrom is the size of an answer, in bytes, from which it is compressed for clients that
// accept it. One allocation is about 300 bytes: its compression would cost more than all the rest
// of an Allocate, and would not save a network packet.
const compressFrom = 4 << 10

// routes puts all services behind one handler.
func (s *Server) routes(labels *label.Preprocessor, version string, localMayLaunch []string) http.Handler {
	auditor := auth.NewAuditor(auth.AuditorOptions{Audit: s.audit, Timeouts: &s.timeouts, Code: rpcError, Advise: withAdvice})
	forwarder := forward.New(forward.Options{Peers: s.peers, Leading: s.loop.Leading, Stopping: s.stopping})
	options := []connect.HandlerOption{
		connect.WithInterceptors(s.tracing.Servers(s.trust.traces)...),
		connect.WithInterceptors(errorMapper{}, auditor, sized(), newValidator(), s.limits, forwarder),
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			limit := s.limits.Largest(spec.Procedure)
			return []connect.HandlerOption{
				connect.WithReadMaxBytes(int(limit)),
				connect.WithCodec(convert.Binary{MaxDecoded: auth.DecodedBytes(limit)}), connect.WithCodec(convert.StrictJSON{MaxDecoded: auth.DecodedBytes(limit)}),
			}
		}),
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			from := compressFrom
			if spec.Procedure == bursarv1connect.EngineServiceLogsProcedure {
				from = 2 * outputs.MaxPiece // never: it would cost four fifths of the work
			}
			return []connect.HandlerOption{connect.WithCompressMinBytes(from)}
		}),
	}
	small := connect.WithReadMaxBytes(auth.ProbeBytes)
	mux := http.NewServeMux()
	mount := func(path string, handler http.Handler) { mux.Handle(path, handler) }

	service := &allocationService{loop: s.loop, store: s.store, labels: labels, waits: newWaitStreams(), hub: s.hub}
	path, allocations := bursarv1connect.NewAllocationServiceHandler(service, options...)
	mount(path, allocations)
	mount(bursarv1connect.AllocationServiceWatchProcedure, withBatches(allocations))
	hostPath, hosts := bursarv1connect.NewHostServiceHandler(&hostService{
		loop: s.loop, seen: s.seen, bounds: s.trust.boundsOf, hub: s.hub, launcher: s.launcher, signals: s.signals, readers: s.readers,
	}, options...)
	mount(hostPath, hosts)
	enginePath, engines := bursarv1connect.NewEngineServiceHandler(&engineService{
		allocations: service, launcher: s.launcher, signals: s.signals, hub: s.hub, readers: logReaders{s.readers, forwarder, s.readersURL},
	}, options...)
	mount(enginePath, engines)
	quotaPath, quotas := bursarv1connect.NewQuotaServiceHandler(&quotaService{loop: s.loop, labels: labels}, options...)
	mount(quotaPath, quotas)
	queuePath, queues := bursarv1connect.NewQueueServiceHandler(&queueService{loop: s.loop, pollers: s.pollers}, options...)
	mount(queuePath, queues)
	clusterPath, cluster := bursarv1connect.NewClusterServiceHandler(&clusterService{
		audited: admission.Share(s.loop.Audit),
		loop:    s.loop, version: version, started: s.clock.Now(), self: s.URL, peers: s.peers, warn: s.warnings,
	}, options...)
	mount(clusterPath, cluster)
	mount(bursarv1connect.ClusterServiceWatchProcedure, withBatches(cluster))
	names := []string{
		bursarv1connect.AllocationServiceName, bursarv1connect.HostServiceName, bursarv1connect.QuotaServiceName,
		bursarv1connect.QueueServiceName, bursarv1connect.ClusterServiceName, bursarv1connect.EngineServiceName,
	}
	probes := newProbes(s.loop, s.peers, s.mismatch, s.shared, s.consul)
	mount(grpchealth.NewHandler(healthChecker{probes.ready, names}, small))
	reflector := grpcreflect.NewStaticReflector(append(names, grpchealth.HealthV1ServiceName)...)
	mount(grpcreflect.NewHandlerV1(reflector, small))
	mount(grpcreflect.NewHandlerV1Alpha(reflector, small))
	// Uncompressed: then a reader that stops reading holds only some kilobytes.
	mount("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(admission.Share(s.registry.Gather)), promhttp.HandlerOpts{
		Registry: s.registry, DisableCompression: true,
	}))
	mount("GET /healthz", probePage(probes.alive))
	mount("GET /readyz", probePage(probes.ready))
	return s.reached.count(s.guard.Announce(auth.NewHandler(auth.HandlerOptions{
		Next: ofOwnCluster(s.guard, mux), Known: &s.trust.who, Insecure: s.config.Insecure, Limits: s.limits, Audit: s.audit, Timeouts: &s.timeouts, Code: rpcError,
		LocalMayLaunch: localMayLaunch,
	})))
}

// readersURL returns the URL to which agents send output for readers of this coordinator. It is
// empty if the coordinator is the only one: its agents then use the only URL that they know.
func (s *Server) readersURL() string {
	if s.elect == nil {
		return ""
	}
	return s.URL()
}

// stopping returns the error for calls during a shutdown; nil before.
func (s *Server) stopping() error {
	if s.loop.IsStopping() {
		return core.ErrStopping
	}
	return nil
}

// sized refuses requests that would make rows and events too large. It runs before the validation
// of the fields.
func sized() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if err := convert.CheckSize(req.Any()); err != nil {
				return nil, err //nolint:wrapcheck // errorMapper makes it what callers see
			}
			return next(ctx, req)
		}
	}
}

// validator refuses requests that break the rules of the contract. It has a fast check for usual
// heartbeats, of which a large fleet sends a thousand a second.
type validator struct{ *validate.Interceptor }

func newValidator() validator { return validator{validate.NewInterceptor()} }

// WrapUnary implements connect.Interceptor.
func (v validator) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	checked := v.Interceptor.WrapUnary(next)
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if convert.IsPlain(req.Any()) {
			return next(ctx, req)
		}
		return checked(ctx, req)
	}
}

// errorMapper gives every error of a handler its code and detail.
type errorMapper struct{}

// WrapUnary implements connect.Interceptor.
func (errorMapper) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, rpcError(err)
		}
		return res, nil
	}
}

// WrapStreamingClient implements connect.Interceptor; this is a server.
func (errorMapper) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (errorMapper) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return rpcError(next(ctx, conn))
	}
}

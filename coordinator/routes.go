package coordinator

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/validate"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// compressFrom is the size of an answer, in bytes, from which it is compressed for clients that take it. One allocation is
// about 300: to compress it costs more than all the rest of an Allocate and saves one network packet in none.
const compressFrom = 4 << 10

// routes puts all services behind one handler.
func (s *Server) routes(labels *label.Preprocessor, version string) http.Handler {
	watch := &watchers{writer: s.writer, feed: s.feed, meter: s.meter}
	options := []connect.HandlerOption{
		connect.WithInterceptors(s.tracing.Servers(s.trust.traces)...),
		connect.WithInterceptors(errorMapper{}, &inspector{s.audit, &s.time}, validate.NewInterceptor(), &forwarder{writer: s.writer, peers: s.peers}),
		connect.WithCodec(convert.StrictJSON{}),
		connect.WithReadMaxBytes(s.config.Limits.MessageBytes),
		connect.WithCompressMinBytes(compressFrom),
	}
	large := append(options, connect.WithReadMaxBytes(s.config.Limits.SyncBytes)) //nolint:gocritic // a list of its own
	mux := http.NewServeMux()
	mount := func(path string, handler http.Handler) { mux.Handle(path, handler) }

	path, allocations := bursarv1connect.NewAllocationServiceHandler(
		&allocationService{writer: s.writer, store: s.store, labels: labels, watch: watch}, options...)
	mount(path, allocations)
	hostPath, hosts := bursarv1connect.NewHostServiceHandler(&hostService{writer: s.writer}, large...)
	mount(hostPath, hosts)
	quotaPath, quotas := bursarv1connect.NewQuotaServiceHandler(&quotaService{writer: s.writer}, options...)
	mount(quotaPath, quotas)
	queuePath, queues := bursarv1connect.NewQueueServiceHandler(&queueService{writer: s.writer, pollers: s.pollers}, options...)
	mount(queuePath, queues)
	clusterPath, cluster := bursarv1connect.NewClusterServiceHandler(&clusterService{
		writer: s.writer, watch: watch, version: version, started: s.clock.now(), self: s.URL, peers: s.peers, warn: s.warnings,
	}, options...)
	mount(clusterPath, cluster)
	for procedure, handler := range map[string]http.Handler{
		bursarv1connect.AllocationServiceWatchProcedure: allocations, bursarv1connect.AllocationServiceListProcedure: allocations,
		bursarv1connect.HostServiceListProcedure: hosts, bursarv1connect.HostServiceSyncProcedure: hosts,
		bursarv1connect.QuotaServiceListProcedure: quotas, bursarv1connect.ClusterServiceWatchProcedure: cluster,
		bursarv1connect.QueueServiceListProcedure: queues, bursarv1connect.QueueServiceCheckProviderProcedure: queues,
	} {
		mount(procedure, s.time.patient(handler))
	}

	names := []string{
		bursarv1connect.AllocationServiceName, bursarv1connect.HostServiceName, bursarv1connect.QuotaServiceName,
		bursarv1connect.QueueServiceName, bursarv1connect.ClusterServiceName,
	}
	probes := newProbes(s.writer, s.peers)
	mount(grpchealth.NewHandler(healthChecker{probes.ready, names}))
	reflector := grpcreflect.NewStaticReflector(append(names, grpchealth.HealthV1ServiceName)...)
	mount(grpcreflect.NewHandlerV1(reflector))
	mount(grpcreflect.NewHandlerV1Alpha(reflector))
	mount("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry}))
	mount("GET /healthz", page(probes.alive))
	mount("GET /readyz", page(probes.ready))
	refuse := connect.NewErrorWriter()
	return &guard{
		next: &gate{next: mux, who: &s.trust.who, insecure: s.config.Insecure, machine: thisMachine(), audit: s.audit, refuse: refuse}, time: &s.time, limit: int64(s.config.Limits.MessageBytes), refuse: refuse, audit: s.audit,
		limits: map[string]int64{bursarv1connect.HostServiceSyncProcedure: int64(s.config.Limits.SyncBytes)},
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

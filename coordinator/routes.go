package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/validate"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bursar/bursar/coordinator/ledger"
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
		connect.WithInterceptors(errorMapper{}, &inspector{s.audit}, validate.NewInterceptor(), &forwarder{writer: s.writer, peers: s.peers}),
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
	mount(bursarv1connect.NewQueueServiceHandler(queueService{}, options...))
	clusterPath, cluster := bursarv1connect.NewClusterServiceHandler(&clusterService{
		writer: s.writer, watch: watch, version: version, started: s.clock.now(), self: s.URL, peers: s.peers, warn: s.warnings,
	}, options...)
	mount(clusterPath, cluster)
	for procedure, handler := range map[string]http.Handler{
		bursarv1connect.AllocationServiceWatchProcedure: allocations, bursarv1connect.AllocationServiceListProcedure: allocations,
		bursarv1connect.HostServiceListProcedure: hosts, bursarv1connect.HostServiceSyncProcedure: hosts,
		bursarv1connect.QuotaServiceListProcedure: quotas, bursarv1connect.ClusterServiceWatchProcedure: cluster,
	} {
		mount(procedure, s.time.patient(handler))
	}

	names := []string{
		bursarv1connect.AllocationServiceName, bursarv1connect.HostServiceName, bursarv1connect.QuotaServiceName,
		bursarv1connect.QueueServiceName, bursarv1connect.ClusterServiceName,
	}
	mount(grpchealth.NewHandler(healthChecker{s.serves, names}))
	reflector := grpcreflect.NewStaticReflector(append(names, grpchealth.HealthV1ServiceName)...)
	mount(grpcreflect.NewHandlerV1(reflector))
	mount(grpcreflect.NewHandlerV1Alpha(reflector))
	mount("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry}))
	mount("GET /healthz", http.HandlerFunc(s.healthz))
	mount("GET /readyz", http.HandlerFunc(s.readyz))
	refuse := connect.NewErrorWriter()
	return &guard{
		next: &gate{next: mux, who: &s.trust.who, insecure: s.config.Insecure, audit: s.audit, refuse: refuse}, time: &s.time, limit: int64(s.config.Limits.MessageBytes), refuse: refuse,
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

// probeTime is how long a probe waits for the loop and the store.
const probeTime = 5 * time.Second

// probe sends an empty command all the way.
func (w *writer) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return w.do(ctx, func(*ledger.Ledger, ledger.Instant) {})
}

// alive reports whether the loop still turns, whatever it is that the store does.
func (w *writer) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	turned := make(chan struct{})
	once := sync.OnceFunc(func() { close(turned) })
	w.side.put(&Call{Do: func(*ledger.Ledger, ledger.Instant) { once() }, Done: func(error) { once() }})
	select {
	case <-turned:
		return nil
	case <-w.done:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// healthz says whether the process works at all. What it lacks to be of use is readyz's to say: a restart would not bring it.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, s.writer.alive(r.Context()))
}

// readyz says whether calls are answered.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, s.serves(r.Context()))
}

// serves reports why calls are not answered: where it leads, because nothing becomes durable, and else because nobody is known to pass
// them on to.
func (s *Server) serves(ctx context.Context) error {
	err := s.writer.probe(ctx)
	if errors.Is(err, ErrNotLeading) {
		if to, _ := s.peers.find(); to != nil {
			return nil
		}
	}
	return err
}

func answerProbe(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// healthChecker answers the standard health service.
type healthChecker struct {
	serves func(context.Context) error
	names  []string
}

// Check implements grpchealth.Checker.
func (h healthChecker) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == ""
	for _, name := range h.names {
		known = known || name == req.Service
	}
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("service: %q: want one of %v", req.Service, h.names))
	}
	if h.serves(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil //nolint:nilerr // that is the answer
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}

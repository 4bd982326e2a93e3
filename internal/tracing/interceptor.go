package tracing

import (
	"context"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/otel/propagation"

	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Servers returns the interceptors of handlers, which go before all others; none without traces.
// Heartbeats are not traced: there are many of them, and metrics cover them.
//
// A call becomes a part of its caller's trace if trusts returns true: such a caller decides whether
// the call is recorded, and under which number. A call of another caller begins a trace of its own,
// with a link to the caller's. If trusts is nil, every caller is trusted.
func (t *Tracing) Servers(trusts func(context.Context) bool) []connect.Interceptor {
	if t == nil {
		return nil
	}
	return []connect.Interceptor{&choice{trusts: trusts, parent: t.interceptor(otelconnect.WithTrustRemote()), link: t.interceptor()}, describer{}}
}

// Clients returns the interceptors of clients, which make a span of each attempt; none without
// traces.
func (t *Tracing) Clients() []connect.Interceptor {
	if t == nil {
		return nil
	}
	return []connect.Interceptor{t.interceptor(), describer{}}
}

func (t *Tracing) interceptor(options ...otelconnect.Option) connect.Interceptor {
	made, err := otelconnect.NewInterceptor(append(options,
		otelconnect.WithTracerProvider(t.provider),
		otelconnect.WithoutMetrics(), // Prometheus has them
		otelconnect.WithPropagator(propagation.TraceContext{}),
		otelconnect.WithFilter(func(_ context.Context, spec connect.Spec) bool {
			return spec.Procedure != bursarv1connect.HostServiceSyncProcedure
		}),
	)...)
	if err != nil { // only instruments can fail, and there are none
		panic(err)
	}
	return made
}

// choice selects one of two interceptors for each call.
type choice struct {
	trusts       func(context.Context) bool
	parent, link connect.Interceptor
}

var _ connect.Interceptor = (*choice)(nil)

func (c *choice) trusted(ctx context.Context) bool { return c.trusts == nil || c.trusts(ctx) }

// WrapUnary implements connect.Interceptor.
func (c *choice) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	parent, link := c.parent.WrapUnary(next), c.link.WrapUnary(next)
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if c.trusted(ctx) {
			return parent(ctx, req)
		}
		return link(ctx, req)
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (c *choice) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	parent, link := c.parent.WrapStreamingHandler(next), c.link.WrapStreamingHandler(next)
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if c.trusted(ctx) {
			return parent(ctx, conn)
		}
		return link(ctx, conn)
	}
}

// WrapStreamingClient changes nothing: this is a server.
func (*choice) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

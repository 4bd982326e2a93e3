package tracing

import (
	"context"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Keys of span attributes in addition to the standard ones.
const (
	KeyAllocation = attribute.Key("bursar.allocation.id")
	// KeyState has the contract's name without its prefix: "reserved".
	KeyState = attribute.Key("bursar.allocation.state")
	KeyHost  = attribute.Key("bursar.host.id")
	KeyEpoch = attribute.Key("bursar.epoch")
)

// describer adds the allocation of a call to its span.
type describer struct{}

var _ connect.Interceptor = describer{}

// WrapUnary implements connect.Interceptor.
func (describer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if span := trace.SpanFromContext(ctx); err == nil && span.IsRecording() {
			span.SetAttributes(about(res.Any())...)
		}
		return res, err
	}
}

// WrapStreamingHandler changes nothing: a stream concerns many allocations.
func (describer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient changes nothing either.
func (describer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// about returns the attributes of the allocation in an answer.
func about(answer any) (list []attribute.KeyValue) {
	of, ok := answer.(interface{ GetAllocation() *bursarv1.Allocation })
	if !ok || of.GetAllocation() == nil {
		return nil
	}
	a := of.GetAllocation()
	list = append(list, KeyAllocation.String(a.GetId()), KeyState.String(convert.StateText(a.GetState())))
	if a.GetHostId() != "" {
		list = append(list, KeyHost.String(a.GetHostId()))
	}
	return list
}

// Package tracing sends traces to a collector, by OTLP over HTTP, if the standard environment
// variables of OpenTelemetry enable it. Otherwise there is no interceptor, no tracer and no
// goroutine.
//
// It gives servers and clients interceptors that carry the W3C trace context from call to call. For
// the work between two calls, the coordinator makes its own spans with Tracer. Spans contain
// procedures, outcomes, addresses of servers, and ids of allocations, hosts and epochs. They never
// contain labels, headers, tokens and the texts of errors, which quote labels.
//
// If a collector is slow or away, only spans are lost: the exporter drops them, and logs that once.
//
// A *Tracing may be used by many goroutines. A nil *Tracing records nothing; all methods work on
// it.
package tracing

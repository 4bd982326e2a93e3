// Package tracing sends traces to a collector, by OTLP over HTTP, where the standard environment variables of OpenTelemetry ask for
// it. Else there is nothing: no interceptor, no tracer, no goroutine.
//
// It gives servers and clients interceptors that carry the W3C trace context from call to call. What happens between two calls, the
// coordinator tells as spans of its own, with Tracer. In spans are procedures, outcomes, addresses of servers, and ids: of
// allocations, of hosts, of epochs. Labels, headers, tokens and the texts of errors, which quote labels, are never in them.
//
// A collector that is slow or away costs spans and nothing else: what it does not take is dropped, and the log says so once.
//
// A *Tracing may be used by many goroutines. A nil one is that of a process that is not traced; all methods work on it.
package tracing

// Package tracing sends traces to a collector, by OTLP over HTTP, if the standard environment
// variables of OpenTelemetry ask for it. If they do not, there is no interceptor, no tracer and no
// goroutine.
//
// It gives servers and clients interceptors that carry the W3C trace context from call to call.
// What happens between two calls, the coordinator tells as spans of its own, with Tracer. In spans
// are procedures, outcomes, addresses of servers, and ids: of allocations, of hosts, of epochs.
// Labels, headers, tokens and the texts of errors, which quote labels, are never in them.
//
// If a collector is slow or away, only spans are lost: what it does not take is dropped, and the
// log says so once.
//
// A *Tracing may be used by many goroutines. A nil one is that of a process that is not traced;
// all methods work on it.
package tracing

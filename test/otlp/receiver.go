// Package otlp is a collector of traces for tests: it takes OTLP over HTTP, decodes it and keeps
// the spans. It stands on a low floor, so that the tests of every package can use it. A Receiver
// may be used by many goroutines.
package otlp

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it was received.
type Span struct {
	*tracev1.Span

	// Service is the service.name of what sent it.
	Service string
	// Resource and Attributes are texts; numbers are written in decimal.
	Resource, Attributes map[string]string
}

// ID is the span's id in hex.
func (s Span) ID() string { return hex.EncodeToString(s.GetSpanId()) }

// Parent is the ID of the span above it; empty: there is none.
func (s Span) Parent() string { return hex.EncodeToString(s.GetParentSpanId()) }

// Trace is that of its trace.
func (s Span) Trace() string { return hex.EncodeToString(s.GetTraceId()) }

// Linked reports whether the span has a link to another one.
func (s Span) Linked(to Span) bool {
	for _, link := range s.GetLinks() {
		if string(link.GetSpanId()) == string(to.GetSpanId()) && string(link.GetTraceId()) == string(to.GetTraceId()) {
			return true
		}
	}
	return false
}

// Receiver is the collector.
type Receiver struct {
	// URL is what OTEL_EXPORTER_OTLP_ENDPOINT is set to.
	URL string

	tb      testing.TB
	mu      sync.Mutex
	spans   []Span        // guarded by mu
	raw     [][]byte      // guarded by mu; bodies, as they were decoded
	changed chan struct{} // guarded by mu; closed when there are more spans
}

// Start serves on loopback until the test ends.
func Start(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{tb: tb, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.take)
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *Receiver) take(w http.ResponseWriter, req *http.Request) {
	body, err := read(req)
	if err != nil {
		r.tb.Errorf("traces: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	message := &collector.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(body, message); err != nil {
		r.tb.Errorf("traces: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, body)
	for _, from := range message.GetResourceSpans() {
		resource := texts(from.GetResource().GetAttributes())
		for _, scope := range from.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans = append(r.spans, Span{Span: span, Service: resource["service.name"], Resource: resource, Attributes: texts(span.GetAttributes())})
			}
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(req *http.Request) ([]byte, error) {
	if req.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(req.Body)
	}
	plain, err := gzip.NewReader(req.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

func texts(attributes []*commonv1.KeyValue) map[string]string {
	m := make(map[string]string, len(attributes))
	for _, a := range attributes {
		m[a.GetKey()] = text(a.GetValue())
	}
	return m
}

func text(value *commonv1.AnyValue) string {
	switch v := value.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	default:
		return fmt.Sprint(v)
	}
}

// Spans returns what was received so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Raw returns the messages that were received so far, decompressed: what they do not contain was
// not sent.
func (r *Receiver) Raw() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([][]byte(nil), r.raw...)
}

// Await waits until what was received has the property, and returns it.
func (r *Receiver) Await(what string, has func([]Span) bool) []Span {
	r.tb.Helper()
	late := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		spans, changed := append([]Span(nil), r.spans...), r.changed
		r.mu.Unlock()
		if has(spans) {
			return spans
		}
		select {
		case <-changed:
		case <-late:
			r.tb.Fatalf("not within 30 s: %s; received %d spans", what, len(spans))
		}
	}
}

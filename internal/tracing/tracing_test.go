package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/internal/tracing"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/otlp"
	"github.com/bursar/bursar/test/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is a log that can be read.
type journal struct{ proc.Output }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// environment sets these variables of OpenTelemetry and unsets all others.
func environment(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	} {
		t.Setenv(name, variables[name])
	}
}

func open(t *testing.T, log *slog.Logger) *tracing.Tracing {
	t.Helper()
	traces := tracing.Open(t.Context(), "bursar-test", "v1", log)
	if traces == nil {
		t.Fatal("no traces")
	}
	t.Cleanup(func() { traces.Close(context.Background()) })
	return traces
}

func TestTheEnvironmentDecides(t *testing.T) {
	for _, test := range []struct {
		name      string
		variables map[string]string
		on        bool
		log       string // a part of what is logged
	}{
		{name: "nothing is asked for"},
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, "traces are sent"},
		{"an endpoint for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://127.0.0.1:1/v1/traces"}, true, "traces are sent"},
		{"the exporter by name", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, "traces are sent"},
		{"another exporter", map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "want otlp or none"},
		{"no exporter", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, false, ""},
		{"disabled", map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, false, ""},
		{"not a URL", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4317"}, false, "want the URL of a collector"},
		{"gRPC", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "want http/protobuf"},
		{
			"HTTP for traces, gRPC for the rest",
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
			true, "traces are sent",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			environment(t, test.variables)
			log := &journal{}
			traces := tracing.Open(t.Context(), "bursar-test", "v1", log.logger())
			defer traces.Close(t.Context())
			if on := traces != nil; on != test.on {
				t.Errorf("traces: %t, want %t; log: %s", on, test.on, log)
			}
			if test.log == "" && log.String() != "" || !strings.Contains(log.String(), test.log) {
				t.Errorf("logged %q, want %q in it", log, test.log)
			}
		})
	}
}

func TestWithoutTracesThereIsNothing(t *testing.T) {
	var none *tracing.Tracing
	if n := len(none.Servers(nil)) + len(none.Clients()); n != 0 {
		t.Errorf("%d interceptors, want none", n)
	}
	if none.Tracer() != nil {
		t.Error("a tracer")
	}
	none.Close(t.Context())
}

// service answers every Allocate with one allocation, or an error that quotes a label.
type service struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	refuse bool
}

// heartbeats answers every Sync.
type heartbeats struct {
	bursarv1connect.UnimplementedHostServiceHandler
}

const secret = "mallory-the-secret-user"

func (s *service) Allocate(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	if s.refuse {
		return nil, connect.NewError(connect.CodeInternal, errors.New("no room for user="+secret))
	}
	return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{
		Id: "a-1", HostId: "h-1", State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, Labels: map[string]string{"user": secret},
	}}, nil
}

func (heartbeats) Sync(context.Context, *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	return &bursarv1.SyncResponse{}, nil
}

// wire serves with traces and returns the URL.
func wire(t *testing.T, s *service, traces *tracing.Tracing, trusts func(context.Context) bool) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(s, connect.WithInterceptors(traces.Servers(trusts)...)))
	mux.Handle(bursarv1connect.NewHostServiceHandler(heartbeats{}, connect.WithInterceptors(traces.Servers(trusts)...)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func call(t *testing.T, url string, traces *tracing.Tracing, header http.Header) error {
	t.Helper()
	client := bursarv1connect.NewAllocationServiceClient(http.DefaultClient, url, connect.WithInterceptors(traces.Clients()...))
	ctx, info := connect.NewClientContext(t.Context())
	maps.Copy(info.RequestHeader(), header)
	_, err := client.Allocate(ctx, &bursarv1.AllocateRequest{RequestId: "r-1", Labels: map[string]string{"user": secret}})
	return err
}

func TestACallIsOneTraceWithoutWhatItSaid(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse=%t", refuse), func(t *testing.T) {
			receiver := otlp.Start(t)
			environment(t, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=staging",
			})
			traces := open(t, slog.New(slog.DiscardHandler))
			url := wire(t, &service{refuse: refuse}, traces, nil)
			if err := call(t, url, traces, http.Header{"Authorization": {"Bearer " + secret}}); (err != nil) != refuse {
				t.Fatal(err)
			}
			hosts := bursarv1connect.NewHostServiceClient(http.DefaultClient, url, connect.WithInterceptors(traces.Clients()...))
			if _, err := hosts.Sync(t.Context(), &bursarv1.SyncRequest{HostId: "h-1"}); err != nil {
				t.Fatal(err)
			}
			traces.Close(t.Context())

			spans := receiver.Spans()
			if len(spans) != 2 { // none of Sync
				t.Fatalf("%d spans, want the client's and the server's: %v", len(spans), spans)
			}
			server, client := spans[0], spans[1] // the inner one ends first
			if server.Parent() != client.ID() || server.Trace() != client.Trace() || client.Parent() != "" {
				t.Errorf("want the server's span below the client's: %v", spans)
			}
			want := map[string]string{"service.name": "bursar-test", "service.version": "v1", "deployment.environment.name": "staging"}
			got := map[string]string{}
			for key := range want {
				got[key] = server.Resource[key]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resource (-want +got):\n%s", diff)
			}
			about := []string{"OK", "a-1", "h-1", "reserved"}
			if refuse {
				about = []string{"INTERNAL", "", "", ""}
			}
			for _, span := range spans {
				a := span.Attributes
				if diff := cmp.Diff(about, []string{a["rpc.response.status_code"], a["bursar.allocation.id"], a["bursar.host.id"], a["bursar.allocation.state"]}); diff != "" {
					t.Errorf("%s (-want +got):\n%s", span.GetKind(), diff)
				}
			}
			for _, body := range receiver.Raw() {
				if bytes.Contains(body, []byte(secret)) {
					t.Errorf("what was sent holds %q", secret)
				}
			}
		})
	}
}

func TestWhoIsNotTrustedBeginsATraceOfItsOwn(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, trusted := range []bool{true, false} {
		t.Run(fmt.Sprintf("trusted=%t", trusted), func(t *testing.T) {
			receiver := otlp.Start(t)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": receiver.URL + "/v1/traces"})
			traces := open(t, slog.New(slog.DiscardHandler))
			url := wire(t, &service{}, traces, func(context.Context) bool { return trusted })
			if err := call(t, url, nil, http.Header{"Traceparent": {parent}}); err != nil {
				t.Fatal(err)
			}
			traces.Close(t.Context())
			spans := receiver.Spans()
			if len(spans) != 1 {
				t.Fatalf("%d spans, want the server's", len(spans))
			}
			span := spans[0]
			taken := "00-" + span.Trace() + "-" + span.Parent() + "-01"
			if trusted && taken != parent {
				t.Errorf("parent %s, want %s", taken, parent)
			}
			if !trusted && (taken == parent || span.Parent() != "" || len(span.GetLinks()) != 1) {
				t.Errorf("parent %s, %d links: want no parent and one link", taken, len(span.GetLinks()))
			}
		})
	}
}

func TestTheSamplerOfTheEnvironment(t *testing.T) {
	receiver := otlp.Start(t)
	environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0", "OTEL_SERVICE_NAME": "other",
	})
	traces := open(t, slog.New(slog.DiscardHandler))
	url := wire(t, &service{}, traces, nil)
	if err := call(t, url, traces, nil); err != nil {
		t.Fatal(err)
	}
	traces.Close(t.Context())
	if spans := receiver.Spans(); len(spans) != 0 {
		t.Errorf("%d spans, want none", len(spans))
	}
}

// TestACollectorThatHangsHoldsUpNobody makes more spans than are kept for a collector that accepts
// connections and never answers.
func TestACollectorThatHangsHoldsUpNobody(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// or the server would not notice that the other end is gone
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hangs.Close()
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": hangs.URL})
	log := &journal{}
	traces := open(t, log.logger())
	delays, begun := proc.Delays(t), time.Now()
	for range 20_000 {
		_, span := traces.Tracer().Start(t.Context(), "span")
		span.End()
	}
	// about 50 ms; one export alone would wait 10 s, and there would be 40
	if took := time.Since(begun); took > 10*time.Second+delays() {
		t.Errorf("20,000 spans took %s", took)
	}
	begun = time.Now()
	traces.Close(t.Context())
	// 2 s; the collector would be waited for 10 s and more
	if took := time.Since(begun); took > 8*time.Second+delays() {
		t.Errorf("Close took %s", took)
	}
	if !strings.Contains(log.String(), "the last traces were not sent") {
		t.Errorf("log: %s", log)
	}
}

func TestTheLogSaysOnceThatTheCollectorIsAwayAndWhenItIsBack(t *testing.T) {
	var answers sync.Map
	answers.Store("code", http.StatusBadRequest) // not tried again
	var taken sync.WaitGroup
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer taken.Done()
		code, _ := answers.Load("code")
		w.WriteHeader(code.(int)) //nolint:errcheck,forcetypeassert // it is stored above
	}))
	defer collector.Close()
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL})
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1") // each span goes out at once
	log := &journal{}
	traces := open(t, log.logger())
	send := func() {
		taken.Add(1)
		_, span := traces.Tracer().Start(t.Context(), "span")
		span.End()
		taken.Wait()
	}
	send()
	send()
	answers.Store("code", http.StatusOK)
	send()
	traces.Close(t.Context())
	if away, back := strings.Count(log.String(), "does not take traces"), strings.Count(log.String(), "takes traces again"); away != 1 || back != 1 {
		t.Errorf("away %d times, back %d times, want once each; log:\n%s", away, back, log)
	}
}

package api

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/otlp"
)

// TestACallIsOneTraceFromItsMakerToTheCommit allocates at an agent, whose coordinator passes the
// call on to the one that leads. The maker of the call has a trace already, as an
// EngineConnManager may.
func TestACallIsOneTraceFromItsMakerToTheCommit(t *testing.T) {
	receiver := otlp.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50") // ms
	socket := startTeam(t, coordinator.Config{}).startAgent()
	const (
		traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		user              = "root-of-all-labels"
	)
	launcher, err := client.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer launcher.Close()
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("Traceparent", "00-"+traceID+"-"+parentID+"-01")
	memory := int64(16 << 20)
	answer, err := launcher.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
		RequestId: "request-1", Labels: map[string]string{"user": user}, Resource: &bursarv1.Resource{MemoryBytes: &memory},
	})
	if err != nil {
		t.Fatal(err)
	}

	want := `agent SERVER bursar.v1.AllocationService/Allocate OK
  agent CLIENT bursar.v1.AllocationService/Allocate OK
    standby SERVER bursar.v1.AllocationService/Allocate OK
      standby CLIENT bursar.v1.AllocationService/Allocate OK
        leader SERVER bursar.v1.AllocationService/Allocate OK
          leader INTERNAL commit
          leader INTERNAL queue
`
	var mine []otlp.Span
	receiver.Await("the spans of the call", func(spans []otlp.Span) bool {
		mine = slices.DeleteFunc(spans, func(s otlp.Span) bool { return s.Trace() != traceID })
		return len(mine) >= strings.Count(want, "\n")
	})
	if diff := cmp.Diff(want, tree(mine, parentID, "")); diff != "" {
		t.Errorf("the trace (-want +got):\n%s", diff)
	}
	allocation := answer.GetAllocation()
	for _, span := range mine {
		switch span.GetKind() {
		case tracev1.Span_SPAN_KIND_SERVER, tracev1.Span_SPAN_KIND_CLIENT:
			got := []string{span.Attributes["bursar.allocation.id"], span.Attributes["bursar.host.id"], span.Attributes["bursar.allocation.state"]}
			if diff := cmp.Diff([]string{allocation.GetId(), "host-1", "reserved"}, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", span.Service, span.GetKind(), diff)
			}
		default:
			if span.GetName() == "commit" && span.Attributes["bursar.epoch"] != "1" {
				t.Errorf("commit: epoch %q", span.Attributes["bursar.epoch"])
			}
		}
		if span.GetStartTimeUnixNano() > span.GetEndTimeUnixNano() {
			t.Errorf("%s %s ends before it begins", span.Service, span.GetName())
		}
	}
	for _, body := range receiver.Raw() {
		if bytes.Contains(body, []byte(user)) || bytes.Contains(body, []byte("/Sync")) {
			t.Errorf("a label or a heartbeat was sent: %q", body)
		}
	}
}

// tree writes the spans below a parent, by name.
func tree(spans []otlp.Span, parent, indent string) string {
	below := slices.DeleteFunc(slices.Clone(spans), func(s otlp.Span) bool { return s.Parent() != parent })
	slices.SortFunc(below, func(a, b otlp.Span) int { return strings.Compare(a.GetName(), b.GetName()) })
	var b strings.Builder
	for _, s := range below {
		line := fmt.Sprintf("%s%s %s %s %s", indent, s.Service, strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"), s.GetName(), s.Attributes["rpc.response.status_code"])
		b.WriteString(strings.TrimRight(line, " ") + "\n" + tree(spans, s.ID(), indent+"  "))
	}
	return b.String()
}

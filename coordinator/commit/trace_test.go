package commit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
)

// tracedRig is a loop whose spans are kept.
type tracedRig struct {
	*loopRig

	spans *tracetest.InMemoryExporter
}

func runTraced(t *testing.T, s store.Store) *tracedRig {
	t.Helper()
	d := &tracedRig{loopRig: newLoopRig(t, s, func(c *setup) { c.Ledger.Interval, c.CommitTimeout = time.Hour, time.Minute })}
	d.spans = tracetest.NewInMemoryExporter()
	d.Spans = &Tracer{sdk.NewTracerProvider(sdk.WithSyncer(d.spans)).Tracer("test")}
	Lead(t, d.Loop)
	return d
}

// call makes an Allocate within a span of its name.
func (d *tracedRig) call(name string, wait time.Duration) error {
	ctx, span := d.Spans.spans.Start(context.Background(), name)
	defer span.End()
	_, err := d.allocate(ctx, name, 1, wait)
	return err
}

// spansBelow returns the spans below that of a call, by name.
func (d *tracedRig) spansBelow(call string) map[string]tracetest.SpanStub {
	d.t.Helper()
	spans := d.spans.GetSpans()
	at := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == call })
	if at < 0 {
		d.t.Fatalf("no span of %s", call)
	}
	children := make(map[string]tracetest.SpanStub)
	for _, s := range spans {
		if s.Parent.SpanID() == spans[at].SpanContext.SpanID() {
			children[s.Name] = s
		}
	}
	return children
}

func lasted(s tracetest.SpanStub) time.Duration { return s.EndTime.Sub(s.StartTime) }

func TestACommitIsTheSpanOfAllTheCallsThatItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storetest.NewFaulty(NewMemoryStore())
		d := runTraced(t, faulty)
		defer d.Close()
		d.Host(100)
		faulty.Next(storetest.HangBefore)
		go func() { _ = d.call("first", 0) }() // its span says how it ended
		synctest.Wait()
		go func() { _ = d.call("second", 0) }()
		synctest.Wait()
		go func() { _ = d.call("third", 0) }()
		go func() { _, _ = d.allocate(context.Background(), "untraced", 1, 0) }()
		synctest.Wait()
		time.Sleep(time.Second)
		faulty.Release()
		synctest.Wait()

		for _, call := range []string{"first", "second", "third"} {
			var names []string
			for name := range d.spansBelow(call) {
				names = append(names, name)
			}
			slices.Sort(names)
			if diff := cmp.Diff([]string{"commit", "queue"}, names); diff != "" {
				t.Errorf("below %s (-want +got):\n%s", call, diff)
			}
		}
		if took := lasted(d.spansBelow("first")["commit"]); took != time.Second {
			t.Errorf("the first commit took %s, want 1 s", took)
		}
		second, third := d.spansBelow("second")["commit"], d.spansBelow("third")["commit"]
		want := []string{"bursar.epoch=1", "bursar.commit.calls=3", "bursar.commit.transitions=3"}
		var got []string
		for _, a := range second.Attributes {
			got = append(got, string(a.Key)+"="+a.Value.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the commit of two traced calls and another one (-want +got):\n%s", diff)
		}
		if len(second.Links) != 1 || second.Links[0].SpanContext.SpanID() != third.Parent.SpanID() {
			t.Errorf("the second call's commit has the links %v, want one to the third call", second.Links)
		}
		if len(third.Links) != 1 || third.Links[0].SpanContext.SpanID() != second.SpanContext.SpanID() {
			t.Errorf("the third call's commit has the links %v, want one to the second's", third.Links)
		}
	})
}

func TestAWaitForResourcesIsASpanOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runTraced(t, NewMemoryStore())
		defer d.Close()
		d.Host(100)
		holder, err := d.allocate(t.Context(), "holder", 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan error, 1)
		go func() { granted <- d.call("waits", time.Minute) }()
		time.Sleep(5 * time.Second)
		if _, err := Decide(t.Context(), d.Loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
			return l.Cancel(now, ledger.CancelCommand{Actor: identity.Local(), ID: holder.ID})
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-granted; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		spans := d.spansBelow("waits")
		if took := lasted(spans["wait"]); took != 5*time.Second {
			t.Errorf("waited for %s, want 5 s; spans: %v", took, spans)
		}
		if len(spans) != 3 {
			t.Errorf("%d spans, want queue, wait and commit", len(spans))
		}
	})
}

func TestACommitThatFailsIsToldWithoutWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storetest.NewFaulty(NewMemoryStore())
		d := runTraced(t, faulty)
		defer d.Close()
		d.Host(100)
		faulty.Next(storetest.FailBefore)
		if err := d.call("lost", 0); !lost(err) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		if status := d.spansBelow("lost")["commit"].Status; status != (sdk.Status{Code: codes.Error}) {
			t.Errorf("status %v, want an error without a text", status)
		}
	})
}

// TestWithoutTracesNothingIsAllocated follows a call and a commit without tracing, and with a call
// that is not recorded.
func TestWithoutTracesNothingIsAllocated(t *testing.T) {
	unrecorded := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
	command := &core.Call{}
	batch := &core.Batch{Commands: []core.Command{command, &core.Request{}}}
	for name, tr := range map[string]*Tracer{"off": nil, "not recorded": {sdk.NewTracerProvider().Tracer("test")}} {
		allocations := testing.AllocsPerRun(100, func() {
			way := tr.newSpan(unrecorded)
			markApplied(way)
			tr.recordCall(way, true)
		})
		if allocations != 0 {
			t.Errorf("%s: a call: %v allocations", name, allocations)
		}
		if tr != nil {
			continue
		}
		allocations = testing.AllocsPerRun(100, func() {
			_, span := tr.beginCommit(unrecorded, batch)
			tr.endCommit(span, nil)
		})
		if allocations != 0 {
			t.Errorf("%s: a commit: %v allocations", name, allocations)
		}
	}
}

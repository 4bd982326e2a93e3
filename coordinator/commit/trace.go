package commit

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/internal/tracing"
)

// The spans of a call that goes through the loop, below that of the call itself:
//
//	queue   until the loop has applied it
//	wait    until it was granted or given up, if it waited for resources
//	commit  while the batch that answers it was made durable
//
// A commit that answers several traced calls is one span, below the first of them, with links to
// the others; each of these has one of its own at the same time, with a link to that one.

// Tracer makes these spans. A nil Tracer records nothing; all methods work on it.
type Tracer struct{ spans trace.Tracer }

// NewTracer returns a tracer for the spans of calls; nil if tracing is off.
func NewTracer(t *tracing.Tracing) *Tracer {
	if spans := t.Tracer(); spans != nil {
		return &Tracer{spans}
	}
	return nil
}

// newSpan begins the span of a call; nil if the call is not recorded.
func (t *Tracer) newSpan(ctx context.Context) *core.Span {
	if t == nil {
		return nil
	}
	if !trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	return &core.Span{Call: ctx, Queued: time.Now()}
}

// callSpan returns the span of the call, the parent of the spans here.
func callSpan(s *core.Span) trace.SpanContext { return trace.SpanContextFromContext(s.Call) }

// markApplied records when the loop applied the call.
func markApplied(s *core.Span) {
	if s != nil {
		s.Applied = time.Now()
	}
}

// beginCommit begins the span of a commit; nil if no caller of the batch is traced.
func (t *Tracer) beginCommit(ctx context.Context, b *core.Batch) (context.Context, *core.CommitSpan) {
	if t == nil {
		return ctx, nil
	}
	var c *core.CommitSpan
	var others []trace.Link
	for _, command := range b.Commands {
		s := command.Trace()
		switch {
		case s == nil:
			continue
		case c == nil:
			c = &core.CommitSpan{Owner: s, Began: time.Now()}
		default:
			others = append(others, trace.Link{SpanContext: callSpan(s)})
		}
		s.Commit = c
	}
	if c == nil {
		return ctx, nil
	}
	ctx, c.Span = t.spans.Start(trace.ContextWithSpanContext(ctx, callSpan(c.Owner)), "commit", //nolint:spancheck // ended by endCommit
		trace.WithTimestamp(c.Began), trace.WithLinks(others...),
		trace.WithAttributes(
			tracing.KeyEpoch.Int64(int64(b.Epoch)), //nolint:gosec // not that many
			attribute.Int("bursar.commit.calls", len(b.Commands)), attribute.Int("bursar.commit.transitions", len(b.Transitions)),
		))
	return ctx, c
}

// endCommit ends the span. If the commit failed, the calls of the batch show their own errors.
func (t *Tracer) endCommit(c *core.CommitSpan, err error) {
	if c == nil {
		return
	}
	c.Ended = time.Now()
	if err != nil {
		c.Span.SetStatus(codes.Error, "")
	}
	c.Span.End(trace.WithTimestamp(c.Ended))
}

// recordCall records the spans of a call whose answer is durable. waited: it has waited for
// resources.
func (t *Tracer) recordCall(s *core.Span, waited bool) {
	if s == nil || s.Commit == nil {
		return
	}
	t.record(s.Call, "queue", s.Queued, s.Applied)
	if waited {
		t.record(s.Call, "wait", s.Applied, s.Commit.Began)
	}
	if s.Commit.Owner != s {
		t.record(s.Call, "commit", s.Commit.Began, s.Commit.Ended, trace.Link{SpanContext: s.Commit.Span.SpanContext()})
	}
}

func (t *Tracer) record(ctx context.Context, name string, from, to time.Time, links ...trace.Link) {
	_, span := t.spans.Start(ctx, name, trace.WithTimestamp(from), trace.WithLinks(links...))
	span.End(trace.WithTimestamp(to))
}

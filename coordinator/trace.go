package coordinator

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/tracing"
)

// The spans of a call that goes through the loop, below that of the call itself:
//
//	queue   until the loop has applied it
//	wait    until it was granted or given up, where it waited for resources
//	commit  while the batch that answers it was made durable
//
// A commit that answers several traced calls is one span, below the first of them, with links to the others; each of these has one of
// its own at the same time, with a link to that one.

// tracer makes these spans. A nil one is that of a coordinator that is not traced; all methods work on it.
type tracer struct{ spans trace.Tracer }

func newTracer(t *tracing.Tracing) *tracer {
	if spans := t.Tracer(); spans != nil {
		return &tracer{spans}
	}
	return nil
}

// passage is the way of one call through the loop. Its goroutine tells it, once it was answered; the loop and the store's goroutine
// only write down the time.
type passage struct {
	call    context.Context //nolint:containedctx // of the call, with its span
	queued  time.Time
	applied time.Time   // written by the loop
	commit  *commitSpan // written by the store's goroutine before it answers
}

// commitSpan is what is told of a commit.
type commitSpan struct {
	span         trace.Span
	owner        *passage // whose call it is below
	began, ended time.Time
}

// enter begins the passage of a call; nil where the call is not recorded.
func (t *tracer) enter(ctx context.Context) *passage {
	if t == nil {
		return nil
	}
	if !trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	return &passage{call: ctx, queued: time.Now()}
}

// span is that of the call.
func (p *passage) span() trace.SpanContext { return trace.SpanContextFromContext(p.call) }

// travels returns the command for the queue.
func (p *passage) travels(command Command) Command {
	if p == nil {
		return command
	}
	return &traced{Command: command, passage: p}
}

// pass says that the loop has come to the call.
func (p *passage) pass() {
	if p != nil {
		p.applied = time.Now()
	}
}

// traced is a command with its passage. An Ask has it inside, as it does not always leave the loop by the way it came.
type traced struct {
	Command

	passage *passage
}

func (t *traced) apply(c *Core, now ledger.Instant) bool {
	t.passage.pass()
	return t.Command.apply(c, now)
}

func passageOf(command Command) *passage {
	switch c := command.(type) {
	case *traced:
		return c.passage
	case *Ask:
		return c.passage
	default:
		return nil
	}
}

// begin begins the span of a commit; nil where the batch answers nobody who is traced.
func (t *tracer) begin(ctx context.Context, b *Batch) (context.Context, *commitSpan) {
	if t == nil {
		return ctx, nil
	}
	var c *commitSpan
	var others []trace.Link
	for _, command := range b.commands {
		p := passageOf(command)
		switch {
		case p == nil:
			continue
		case c == nil:
			c = &commitSpan{owner: p, began: time.Now()}
		default:
			others = append(others, trace.Link{SpanContext: p.span()})
		}
		p.commit = c
	}
	if c == nil {
		return ctx, nil
	}
	ctx, c.span = t.spans.Start(trace.ContextWithSpanContext(ctx, c.owner.span()), "commit", //nolint:spancheck // ended by end
		trace.WithTimestamp(c.began), trace.WithLinks(others...),
		trace.WithAttributes(
			tracing.KeyEpoch.Int64(int64(b.Epoch)), //nolint:gosec // not that many
			attribute.Int("bursar.commit.calls", len(b.commands)), attribute.Int("bursar.commit.transitions", len(b.Transitions)),
		))
	return ctx, c
}

// end ends it. Where it failed, the calls of the batch are not told of it: their errors are.
func (c *commitSpan) end(err error) {
	if c == nil {
		return
	}
	c.ended = time.Now()
	if err != nil {
		c.span.SetStatus(codes.Error, "")
	}
	c.span.End(trace.WithTimestamp(c.ended))
}

// tell tells the passage of a call whose answer is durable. waited: it was on the line for resources.
func (t *tracer) tell(p *passage, waited bool) {
	if p == nil || p.commit == nil {
		return
	}
	t.stretch(p.call, "queue", p.queued, p.applied)
	if waited {
		t.stretch(p.call, "wait", p.applied, p.commit.began)
	}
	if p.commit.owner != p {
		t.stretch(p.call, "commit", p.commit.began, p.commit.ended, trace.Link{SpanContext: p.commit.span.SpanContext()})
	}
}

func (t *tracer) stretch(ctx context.Context, name string, from, to time.Time, links ...trace.Link) {
	_, span := t.spans.Start(ctx, name, trace.WithTimestamp(from), trace.WithLinks(links...))
	span.End(trace.WithTimestamp(to))
}

// traces reports whether a call becomes a part of its caller's trace: one from an agent or another coordinator, from somebody
// who may do everything, or where nobody is known.
func (t *trust) traces(ctx context.Context) bool {
	if !t.who.Set() {
		return true
	}
	switch callerOf(ctx).maker.Effective() {
	case identity.Agent, identity.Coordinator, identity.Admin:
		return true
	default:
		return false
	}
}

package core

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Span is what is recorded of one call's way. The call's own goroutine exports it after the
// answer.
type Span struct {
	Call    context.Context //nolint:containedctx // of the call, with its span
	Queued  time.Time
	Applied time.Time   // written by the goroutine that applies commands
	Commit  *CommitSpan // written by the one that commits, before it answers
}

// CommitSpan is what is recorded of a commit.
type CommitSpan struct {
	Span         trace.Span
	Owner        *Span // the span of the call that it belongs to
	Began, Ended time.Time
}

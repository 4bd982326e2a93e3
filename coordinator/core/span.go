package core

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Span records the way of one call. The call's own goroutine exports it after the answer.
type Span struct {
	Call    context.Context //nolint:containedctx // of the call, with its span
	Queued  time.Time
	Applied time.Time   // written by the goroutine that applies commands
	Commit  *CommitSpan // written by the goroutine that commits, before it answers
}

// CommitSpan records a commit.
type CommitSpan struct {
	Span         trace.Span
	Owner        *Span // the span of its parent call
	Began, Ended time.Time
}

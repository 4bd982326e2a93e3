package core

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Span is what is recorded of one call's way: its own goroutine tells it, once it was answered.
type Span struct {
	Call    context.Context //nolint:containedctx // of the call, with its span
	Queued  time.Time
	Applied time.Time   // written by the goroutine that applies commands
	Commit  *CommitSpan // written by the one that commits, before it answers
}

// CommitSpan is what is recorded of a commit.
type CommitSpan struct {
	Span         trace.Span
	Owner        *Span // whose call it is below
	Began, Ended time.Time
}

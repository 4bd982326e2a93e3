package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter sends spans without the texts of errors, logs when the collector begins to refuse them
// and when it accepts them again, and stops on Shutdown.
type exporter struct {
	sdk.SpanExporter

	log     *slog.Logger
	failing atomic.Bool
	given   context.Context //nolint:containedctx // ends when the exporter must stop sending
	giveUp  context.CancelFunc
}

func newExporter(sender sdk.SpanExporter, log *slog.Logger) *exporter {
	e := &exporter{SpanExporter: sender, log: log}
	e.given, e.giveUp = context.WithCancel(context.Background())
	return e
}

// ExportSpans sends a batch. It returns no error, because the library would print it.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.given, cancel)() //nolint:contextcheck // two contexts end the attempt
	wordless := make([]sdk.ReadOnlySpan, len(spans))
	for i, span := range spans {
		wordless[i] = discreet{span}
	}
	err := e.SpanExporter.ExportSpans(ctx, wordless)
	switch {
	case err == nil:
		if e.failing.Swap(false) {
			e.log.Info("the collector takes traces again")
		}
	case !e.failing.Swap(true):
		e.log.Warn("the collector does not take traces: they are dropped until it does", "error", err)
	}
	return nil
}

// discreet is a span without the text of its error, which may quote the request and its labels. The
// code is an attribute.
type discreet struct{ sdk.ReadOnlySpan }

// Status implements sdk.ReadOnlySpan.
func (d discreet) Status() sdk.Status {
	return sdk.Status{Code: d.ReadOnlySpan.Status().Code}
}

package tracing

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTime is how long Close waits for the collector.
const flushTime = 2 * time.Second

// instrumentation is the name of the spans that this module makes itself.
const instrumentation = "github.com/bursar/bursar"

// Tracing is the tracing of a process, or of one of several servers in a process.
type Tracing struct {
	provider *sdk.TracerProvider
	exporter *exporter
	log      *slog.Logger
}

// Open returns the tracing that the environment enables. It returns nil if the environment enables
// none. It also returns nil, and logs it, if the setting is impossible: a process works without
// traces as well. service is the source of the traces, unless OTEL_SERVICE_NAME overrides it. The
// caller must close the result.
func Open(ctx context.Context, service, version string, log *slog.Logger) *Tracing {
	asked, err := asked()
	if err != nil {
		log.Warn("no traces are sent", "error", err)
		return nil
	}
	if !asked {
		return nil
	}
	sender, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Warn("no traces are sent", "error", err)
		return nil
	}
	from, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // it has the readable part
		log.Warn("a part of the traces' resource is left out", "error", err)
	}
	t := &Tracing{exporter: newExporter(sender, log), log: log}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(t.exporter), sdk.WithResource(from))
	log.Info("traces are sent", "service", service)
	return t
}

// Tracer returns the tracer; nil without traces.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(instrumentation)
}

// Close sends the remaining spans, for at most two seconds, even if ctx has ended. A second call
// does nothing.
func (t *Tracing) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	t.exporter.giveUp()
	if err != nil {
		t.log.Warn("the last traces were not sent", "error", err)
	}
}

package main

import (
	"context"
	"log/slog"

	"github.com/bursar/bursar/internal/tracing"
)

// trace makes the servers of this command send traces if the environment asks for that. They are
// sent when the command is done.
func openTraces(ctx context.Context, c *cli, service string, log *slog.Logger) {
	c.tracing = tracing.Open(ctx, service, version, log)
}

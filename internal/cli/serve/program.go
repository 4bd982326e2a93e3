package serve

import (
	"context"
	"log/slog"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/tracing"
)

// program is the program that a server belongs to.
type program struct {
	version string
	// traces sends the traces of the server's calls; nil: nowhere.
	traces *tracing.Tracing
}

// newProgram makes the servers of a command send traces if the environment asks for that. They are
// sent when the command is done.
func newProgram(ctx context.Context, c *cmdline.Invocation, service string, log *slog.Logger) program {
	traces := tracing.Open(ctx, service, c.Version, log)
	c.AtEnd(traces.Close)
	return program{c.Version, traces}
}

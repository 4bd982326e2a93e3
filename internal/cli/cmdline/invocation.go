package cmdline

import (
	"context"
	"os"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
)

// Streams are what an invocation reads from and writes to: data to out, everything else to err.
type Streams struct {
	In, Out, Err *os.File
}

// Invocation is one invocation of the program.
type Invocation struct {
	*servers.Connections

	// In is standard input.
	In *os.File
	// Begun is set when the command line has been understood. An error before that is a mistake of
	// the user.
	Begun bool
	// Version is that of the program.
	Version string
	// atEnd are done when the command has ended, and all connections.
	atEnd []func(ctx context.Context)
}

func New(s Streams, version string) *Invocation {
	return &Invocation{In: s.In, Version: version, Connections: servers.NewConnections(failure.NewReporter(render.NewPrinter(s.Out, s.Err)))}
}

// AtEnd makes end call a function, after it has closed the connections.
func (c *Invocation) AtEnd(do func(ctx context.Context)) { c.atEnd = append(c.atEnd, do) }

// End closes the connections, and does what was put off until then.
func (c *Invocation) End(ctx context.Context) {
	c.Close()
	for _, do := range c.atEnd {
		do(ctx)
	}
}

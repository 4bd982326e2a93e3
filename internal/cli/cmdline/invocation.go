package cmdline

import (
	"context"
	"os"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
)

// Streams are the files of an invocation: it reads In, it writes data to Out and all else to Err.
type Streams struct {
	In, Out, Err *os.File
}

// Invocation is one invocation of the program. A function that needs less takes less: a
// render.Printer to print, a failure.Reporter to tell of errors, servers.Connections to call.
type Invocation struct {
	*servers.Connections

	// In is standard input.
	In *os.File
	// Begun is set when the command line has been understood. An error before that is a mistake of
	// the user.
	Begun bool
	// Version is that of the program.
	Version string
	// Execute runs another command line in this process, and returns its exit code.
	Execute func(ctx context.Context, args []string, s Streams) int

	// atEnd are called when the command has ended and the connections are closed.
	atEnd []func(ctx context.Context)
}

// New returns an invocation that has not begun and has no connection.
func New(s Streams, version string) *Invocation {
	return &Invocation{In: s.In, Version: version, Connections: servers.NewConnections(failure.NewReporter(render.NewPrinter(s.Out, s.Err)))}
}

// AtEnd makes End call a function after it has closed the connections.
func (c *Invocation) AtEnd(do func(ctx context.Context)) { c.atEnd = append(c.atEnd, do) }

// End closes the connections, and then calls the functions that AtEnd got.
func (c *Invocation) End(ctx context.Context) {
	c.Close()
	for _, do := range c.atEnd {
		do(ctx)
	}
}

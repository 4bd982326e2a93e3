package servers

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
)

// connectPatience is how long Nearest waits for a connection to a server of this machine. The
// kernel answers in microseconds; a server that hangs takes no connection once its queue is full.
const connectPatience = 500 * time.Millisecond

// Nearest returns a client of the server that a command about engines asks: Get, List, Explain,
// Stop, and the calls of EngineService about an engine that there is. Coordinators serve them for
// all hosts. This machine's agent serves them for its host, and vouches for the caller.
//
// The first of these decides:
//
//  1. --addr, or --agent without it;
//  2. BURSAR_ADDR, or BURSAR_AGENT without it;
//  3. the caller's own token or certificate: the coordinator at 127.0.0.1:7070, if one listens;
//  4. the socket of this machine's agent, if the agent listens;
//  5. the coordinator at 127.0.0.1:7070, if one listens or there is no such socket.
//
// If nobody has named the server (3 to 5), Nearest says on stderr which one it is.
func (c *Connections) Nearest(cmd *cobra.Command) (*client.Client, error) {
	flags, ctx := cmd.Flags(), cmd.Context()
	switch {
	case flags.Changed("addr"):
		return c.Coordinator(ctx)
	case flags.Changed("agent"):
		return c.LocalAgent(ctx)
	case os.Getenv("BURSAR_ADDR") != "":
		return c.Coordinator(ctx)
	case os.Getenv("BURSAR_AGENT") != "":
		return c.LocalAgent(ctx)
	}
	if !c.nearAgent(ctx) {
		cl, err := c.Coordinator(ctx)
		if err == nil {
			c.Sayf("bursar: asking the coordinator at %s", c.Server())
		}
		return cl, err
	}
	cl, err := c.LocalAgent(ctx)
	if err == nil {
		c.Sayf("bursar: asking this host's agent at %s: --addr or BURSAR_ADDR asks a coordinator, for all hosts", c.Server())
	}
	return cl, err
}

// nearAgent reports whether this machine's agent is asked, if nobody has named a server.
func (c *Connections) nearAgent(ctx context.Context) bool {
	if own := c.Credentials.OverEnvironment(); own.ShowsCaller() && coordinatorListens(ctx) {
		return false
	}
	socket := c.agentTarget(ctx)
	if listens(ctx, socket) {
		return true
	}
	_, err := os.Lstat(socket)
	return err == nil && !coordinatorListens(ctx) // the agent restarts, or lets the caller not in
}

// ShowsCaller reports whether a coordinator can tell by the credentials who the caller is.
func (c Credentials) ShowsCaller() bool { return c.Token.IsSet() || c.TLS.Cert != "" }

// coordinatorListens reports whether somebody listens at the address that is called by default.
func coordinatorListens(ctx context.Context) bool {
	return connects(ctx, "tcp", strings.TrimPrefix(DefaultAddr, "http://"))
}

// connects reports whether a server of this machine takes a connection.
func connects(ctx context.Context, network, address string) bool {
	dialer := net.Dialer{Timeout: connectPatience}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

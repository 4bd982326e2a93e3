package servers

import (
	"context"
	"net"
	"os"
	"slices"
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
	return c.NearestWith(cmd, func(context.Context, *client.Client) (bool, error) { return true, nil })
}

// NearestWith is Nearest for a command about allocations that it names. If this machine's agent
// does not have them, and nobody has named the agent, the coordinator at 127.0.0.1:7070 is asked,
// if one listens and has them: a request that waits for any host is no host's. has reports whether
// a server has them; an error means that the server does not say.
func (c *Connections) NearestWith(cmd *cobra.Command, has func(context.Context, *client.Client) (bool, error)) (*client.Client, error) {
	cl, named, err := c.NearestSilently(cmd)
	if err != nil || named {
		return cl, err
	}
	if ctx := cmd.Context(); c.OfAgent && coordinatorListens(ctx) {
		cl = c.thatHas(ctx, cl, has)
	}
	if c.OfAgent {
		c.Sayf("bursar: asking this host's agent at %s, about this host alone; --addr or BURSAR_ADDR asks a coordinator", c.Server())
	} else {
		c.Sayf("bursar: asking the coordinator at %s", c.Server())
	}
	return cl, nil
}

// thatHas returns a client of the coordinator if that has what the agent does not have; else the
// agent's, whose answer says why.
func (c *Connections) thatHas(ctx context.Context, agent *client.Client, has func(context.Context, *client.Client) (bool, error)) *client.Client {
	if there, err := has(ctx, agent); there || err != nil {
		return agent
	}
	byDefault := c.ByDefault
	coordinator, err := c.Coordinator(ctx)
	if err == nil {
		there, failed := has(ctx, coordinator)
		if there && failed == nil {
			return coordinator
		}
	}
	c.Asked, c.ByDefault, c.OfAgent = agent, byDefault, true
	return agent
}

// AsksNearest reports whether a command asks the server of Nearest.
func AsksNearest(cmd *cobra.Command) bool {
	return slices.Contains([]string{"stop", "wait", "logs", "signal", "allocations", "explain"}, cmd.Name())
}

// NearestSilently is Nearest for the completion of a shell. named: somebody has named the server.
func (c *Connections) NearestSilently(cmd *cobra.Command) (cl *client.Client, named bool, err error) {
	flags, ctx := cmd.Flags(), cmd.Context()
	changed := func(name string) bool { f := flags.Lookup(name); return f != nil && f.Changed }
	switch {
	case changed("addr"):
		cl, err = c.Coordinator(ctx)
	case changed("agent"):
		cl, err = c.LocalAgent(ctx)
	case os.Getenv("BURSAR_ADDR") != "":
		cl, err = c.Coordinator(ctx)
	case os.Getenv("BURSAR_AGENT") != "":
		cl, err = c.LocalAgent(ctx)
	case c.nearAgent(ctx):
		cl, err = c.LocalAgent(ctx)
		return cl, false, err
	default:
		cl, err = c.Coordinator(ctx)
		return cl, false, err
	}
	return cl, true, err
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
	return err == nil && !coordinatorListens(ctx) // the agent restarts, or does not let the caller in
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

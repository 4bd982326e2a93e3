package servers

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
)

const (
	// DefaultAddr is the coordinator that is called if nobody names one.
	DefaultAddr = "http://127.0.0.1:7070"
	// SystemSocket is the socket of the agent that serves the whole machine.
	SystemSocket = "/run/bursar/agent.sock"
)

// How long a command goes on without an answer. One that waits for resources goes on as long as it
// would wait.
const (
	// AbsentPatience is for an address at which nobody is: it refuses connections, nobody knows the
	// name, the socket is not there, or the server is not to be trusted. Somebody who waits at a
	// terminal hears of it at once. A server that restarts has its connections refused for less.
	AbsentPatience = time.Second
	// PresentPatience is for servers that do not answer now: they have answered this command before
	// and restart, none leads, or an agent has no coordinator. It outlasts the restart of a
	// coordinator that is alone, and a change of leader.
	PresentPatience = 15 * time.Second
	// refusedPatience is for a server that answers that it has too much to do, and says when to
	// try again: many commands come at once.
	refusedPatience = 30 * time.Second
	// UnansweredUnseen is the time after which a command says that it waits for a server.
	UnansweredUnseen = 2 * time.Second
	// GiveUpTime bounds the cancellation of a request that is given up. It outlasts most changes of
	// leader; who does not want to wait interrupts once more.
	GiveUpTime = 5 * time.Second
)

// callTimeout bounds each call, in addition to the time that it asks to wait, in case the other
// end runs but does not answer: a coordinator that was stopped, or an agent without a coordinator.
// An agent that has this time for a call answers why within it.
const callTimeout = PresentPatience + time.Second

// Connections are the servers that one invocation calls, and how it finds them.
type Connections struct {
	*failure.Reporter

	// Global flags.
	Addr, Agent string
	Credentials credentialFlags

	// clients are those made so far.
	clients []*client.Client
	// unanswered says that a call is not answered yet, at most once.
	unanswered sync.Once
	// finders are the functions that end the finders, and finding waits for them, when the command
	// is done.
	finders []context.CancelFunc
	finding sync.WaitGroup
}

// NewConnections returns connections to no server yet.
func NewConnections(r *failure.Reporter) *Connections { return &Connections{Reporter: r} }

// Add takes over clients, which close closes. The last one is that of the next call.
func (c *Connections) Add(clients ...*client.Client) {
	c.clients, c.Asked = append(c.clients, clients...), clients[len(clients)-1]
}

// Close closes all clients and ends all finders.
func (c *Connections) Close() {
	for _, cl := range c.clients {
		cl.Close()
	}
	for _, stop := range c.finders {
		stop()
	}
	c.finding.Wait()
}

// Coordinator returns a client of the coordinators.
func (c *Connections) Coordinator(ctx context.Context) (*client.Client, error) {
	cl, _, err := c.Coordinators(ctx)
	return cl, err
}

// Coordinators returns a client of the coordinators, and where they are.
func (c *Connections) Coordinators(ctx context.Context) (*client.Client, Place, error) {
	own := c.Credentials.OverEnvironment()
	log := slog.New(&c.Warnings)
	options, err := own.Options(log)
	if err != nil {
		return nil, Place{}, c.Credentials.CredentialError(err)
	}
	said := cmp.Or(c.Addr, os.Getenv("BURSAR_ADDR"))
	at, err := parsePlace(cmp.Or(said, DefaultAddr), own, log)
	if err != nil {
		return nil, Place{}, placeError(err)
	}
	cl, err := at.Open(append(options, c.calling(AbsentPatience)...)...)
	if err != nil {
		return nil, Place{}, err
	}
	c.Keep(ctx, at)
	c.clients, c.Asked, c.ByDefault, c.OfAgent = append(c.clients, cl), cl, said == "", false
	return cl, at, nil
}

// calling are the options of every client. absent is its patience if nobody is there.
func (c *Connections) calling(absent time.Duration) []client.Option {
	return []client.Option{
		client.WithRetries(client.RetryPolicy{Patience: absent, Absent: absent, Present: PresentPatience, Refused: refusedPatience}),
		client.WithTimeout(callTimeout), client.WithNotice(UnansweredUnseen, c.tellUnanswered), client.WithInterceptors(checkEncoding()),
	}
}

// tellUnanswered says once, on stderr, that a call is not answered yet, and why.
func (c *Connections) tellUnanswered(last error) {
	c.unanswered.Do(func() {
		if last == nil && c.OfAgent {
			c.Sayf("bursar: no answer from the agent at %s yet: it may have no coordinator that answers", c.Server())
			return
		}
		if last == nil {
			c.Sayf("bursar: no answer from %s yet", c.Server())
			return
		}
		c.Sayf("bursar: %s%s", c.Message(last), TryingAgain)
	})
}

// Needless refuses flags that say which server to call, and how, and that a command does not use.
func Needless(cmd *cobra.Command, why string, used ...string) error {
	var err error
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Changed && f.Name != "output" && !slices.Contains(used, f.Name) {
			err = failure.Usagef("--%s: %s", f.Name, why)
		}
	})
	return err
}

// LocalAgent returns a client of this machine's agent.
func (c *Connections) LocalAgent(ctx context.Context) (*client.Client, error) {
	return c.PatientAgent(ctx, AbsentPatience)
}

// PatientAgent is LocalAgent for a caller who knows that there is an agent, which may be
// restarting.
func (c *Connections) PatientAgent(ctx context.Context, absent time.Duration) (*client.Client, error) {
	cl, err := client.New(c.agentTarget(ctx), c.calling(absent)...)
	if err != nil {
		return nil, err
	}
	c.clients, c.Asked, c.ByDefault, c.OfAgent = append(c.clients, cl), cl, cmp.Or(c.Agent, os.Getenv("BURSAR_AGENT")) == "", true
	return cl, nil
}

// Either returns a client of the agent if --agent was given, else of the coordinator. Both serve
// allocations.
func (c *Connections) Either(cmd *cobra.Command) (*client.Client, error) {
	if cmd.Flags().Changed("agent") && !cmd.Flags().Changed("addr") {
		return c.LocalAgent(cmd.Context())
	}
	return c.Coordinator(cmd.Context())
}

// agentTarget is the target that the user named, or else the first of the usual sockets on which
// somebody listens: that of this user's `bursar dev`, then the machine's.
func (c *Connections) agentTarget(ctx context.Context) string {
	if said := cmp.Or(c.Agent, os.Getenv("BURSAR_AGENT")); said != "" {
		return said
	}
	if own := OwnSocket(); OwnedByUs(filepath.Dir(own)) && listens(ctx, own) {
		return own
	}
	return SystemSocket
}

// OwnSocket is where `bursar dev` puts its agent's socket: the machine's place for root, else a
// folder of the user's own.
func OwnSocket() string {
	if os.Geteuid() == 0 {
		return SystemSocket
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		return filepath.Join(runtime, "bursar", "agent.sock")
	}
	return filepath.Join(os.TempDir(), "bursar-"+strconv.Itoa(os.Geteuid()), "agent.sock")
}

// OwnedByUs reports whether nobody else could have put something into a folder. The folder for
// temporary files belongs to everybody, so another user could have made ours first.
func OwnedByUs(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}

// listens reports whether somebody listens at a socket, and lets the caller in.
func listens(ctx context.Context, socket string) bool { return connects(ctx, "unix", socket) }

// TryingAgain ends what is said of a call that has no answer yet.
const TryingAgain = "; trying again"

// Keep runs a place's finder until the invocation ends.
func (c *Connections) Keep(ctx context.Context, p Place) {
	if p.run == nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	c.finders = append(c.finders, stop)
	c.finding.Go(func() {
		_ = p.run(ctx) // it ends with ctx alone
	})
}

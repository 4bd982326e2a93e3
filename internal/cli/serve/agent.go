package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/internal/readlimit"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/reload"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// agentStart has the settings of an agent that its configuration does not have.
type agentStart struct {
	by            program
	socket        net.Listener // opened by a service manager; nil: the agent makes its own
	forgetEpoch   bool
	forgetCluster bool
	asItself      bool // see agent.Deps
}

// openAgent makes an agent of this machine, with the coordinators that its configuration names.
func openAgent(
	ctx context.Context, c *cmdline.Invocation, config agent.Config, loaded *configuration, start agentStart, log *slog.Logger,
) (*agent.Agent, error) {
	config, err := withDiscovery(config).WithDefaults()
	if err != nil {
		return nil, loaded.explain(err)
	}
	own := servers.Credentials{TLS: config.TLS, Token: credential.Token{File: config.TokenFile}}
	// It serves without files that are not there yet: engines need it, whether a coordinator
	// answers or not.
	options, err := own.OptionsWith(credential.Options{Log: log, Later: true})
	if err != nil {
		return nil, loaded.explain(err)
	}
	pin := client.NewPin(config.Cluster)
	at, err := placeOf(consul.NewLater, config, own, pin, log)
	if err != nil {
		if config.Discovery == agent.DiscoveryConsul {
			return nil, loaded.explain(err)
		}
		return nil, loaded.wrong("coordinators", err.Error())
	}
	// The agent knows better than a client how long to try again.
	options = append(options, client.WithPin(pin), client.WithoutRetries(), client.WithLargestAnswer(readlimit.Agent), client.WithInterceptors(start.by.traces.Clients()...))
	upstream, err := at.Open(options...)
	if err != nil {
		return nil, loaded.wrong("coordinators", err.Error())
	}
	// One call at a time is quicker over HTTP/1.1; over HTTP/2 those that wait share a connection.
	waiting, err := at.Open(append(options, client.WithH2C())...)
	if err != nil {
		return nil, loaded.wrong("coordinators", err.Error())
	}
	c.Add(upstream, waiting)
	server, err := agent.New(config, agent.Deps{
		Allocations: upstream.Allocations(), Waiting: waiting.Allocations(), Engines: waiting.Engines(), Hosts: upstream.Hosts(), Finder: at.Finder,
		DialOutput: dialOutput(at, options),
		Elsewhere: func() {
			upstream.Elsewhere()
			waiting.Elsewhere()
		},
		Logger: log, Version: start.by.version, Tracing: start.by.traces, Socket: start.socket, ForgetEpoch: start.forgetEpoch,
		Pin: pin, ForgetCluster: start.forgetCluster, AsItself: start.asItself,
	})
	if err != nil {
		return nil, loaded.explain(err)
	}
	c.Keep(ctx, at)
	return server, nil
}

// dialOutput makes clients of an agent's coordinators for the output of engines, each with a
// connection of its own and the agent's credentials.
func dialOutput(at servers.Place, options []client.Option) func(url string) (bursarv1connect.HostServiceClient, func(), error) {
	options = slices.Concat(options, at.Trust(), []client.Option{client.WithH2C()})
	return func(url string) (bursarv1connect.HostServiceClient, func(), error) {
		var coordinator *client.Client
		var err error
		if url == "" {
			coordinator = client.NewCluster(at.Finder, options...)
		} else {
			coordinator, err = client.New(url, options...)
		}
		if err != nil {
			return nil, nil, err //nolint:wrapcheck // names the address
		}
		return coordinator.Hosts(), coordinator.Close, nil
	}
}

// withDiscovery moves "consul" from the list of coordinators to the settings of the discovery.
func withDiscovery(config agent.Config) agent.Config {
	if len(config.Coordinators) == 1 {
		if inConsul, cluster, isConsul := servers.ConsulPlace(config.Coordinators[0]); isConsul {
			config.Discovery, config.Consul, config.Coordinators = agent.DiscoveryConsul, inConsul, nil
			config.Cluster = cmp.Or(config.Cluster, cluster)
		}
	}
	return config
}

// agentStops is the most time that an agent takes to stop.
const agentStops = 15 * time.Second

// serveAgent runs an agent until it is told to stop.
func serveAgent(
	ctx context.Context, c *cmdline.Invocation, config agent.Config, loaded *configuration, read func() (agent.Config, *configuration, error), logs *logFlags, start agentStart,
) error {
	log, err := logs.logger(c.Err, config.LogLevel)
	if err != nil {
		return err
	}
	ctx, interrupts, hangups := cmdline.CatchStops(ctx)
	defer interrupts.Stop()
	if start.socket, err = passedSocket(); err != nil {
		return err
	}
	start.by = newProgram(ctx, c, "bursar-agent", log)
	manager, patient, waits := newNotifier(log), newAttempts(log), make(chan string)
	server, err := openAgent(ctx, c, config, loaded, start, log)
	for ; isTransient(err); server, err = openAgent(ctx, c, config, loaded, start, log) {
		wait := patient.failed(err)
		if manager.waits(startsLater(err)); !pause.For(wait, ctx.Done(), nil) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer time.AfterFunc(startedFor, func() {
		if err := unmapStartPages(); err != nil {
			log.Debug("memory of the start is kept", "error", err)
		}
	}).Stop()
	err = loaded.explain(manager.supervise(ctx, served{
		run: func(ctx context.Context) error {
			return displaced(runPatiently(ctx, server, patient, waits), server.Ready())
		},
		ready: server.Serving(), waits: waits, status: server.Status, hangups: hangups, stopping: agentStops,
		live: func(context.Context) error { return server.Live(time.Now()) },
		reload: func(context.Context) (reload.Changes, error) {
			config, loaded, err := read()
			if err != nil {
				return reload.Changes{}, err
			}
			if err := checkAgent(config, loaded); err != nil {
				return reload.Changes{}, err
			}
			changes, err := server.Reload(withDiscovery(config))
			if err != nil {
				return changes, loaded.explain(err)
			}
			return changes, logs.set(config.LogLevel)
		},
	}))
	if isTransient(err) { // it is started again
		return &failure.ExitError{Code: failure.ExitFailed, Err: err}
	}
	return serverError(err)
}

// runPatiently runs an agent, and waits for a state directory whose disk is not mounted, full or
// read-only now. If it ended instead, callers would start it again and again through its socket
// until systemd gave the socket up.
func runPatiently(ctx context.Context, server *agent.Agent, patient *attempts, waits chan<- string) error {
	for {
		err := server.Run(ctx)
		if of := (*agent.StateError)(nil); !errors.As(err, &of) || !regularfile.Transient(of.Err) {
			return err
		}
		wait := patient.failed(err)
		select {
		case waits <- startsLater(err):
		case <-ctx.Done():
		}
		if !pause.For(wait, ctx.Done(), nil) {
			return nil
		}
	}
}

// displaced makes it a wrong configuration that another agent took the host of one that served it.
// Service managers do not start such an agent again by themselves (the caller of a socket that they
// hold still does): the two would displace each other for ever.
// One that has never served the host is started again, until its incarnation is the later one.
func displaced(err error, ready <-chan struct{}) error {
	if !errors.Is(err, agent.ErrReplaced) {
		return err
	}
	select {
	case <-ready:
		return failure.Config(err)
	default:
		return err
	}
}

// checkAgent checks whether an agent would start with a configuration, as far as files can tell.
// It changes nothing.
func checkAgent(config agent.Config, loaded *configuration) error {
	config, err := withDiscovery(config).WithDefaults()
	if err != nil {
		return loaded.explain(err)
	}
	if err := config.Check(); err != nil {
		return loaded.explain(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	own := servers.Credentials{TLS: config.TLS, Token: credential.Token{File: config.TokenFile}}
	if _, err := own.Options(quiet); err != nil {
		return loaded.explain(err)
	}
	if _, err := placeOf(consul.New, config, own, client.NewPin(config.Cluster), quiet); err != nil {
		if config.Discovery == agent.DiscoveryConsul {
			return loaded.explain(err)
		}
		return loaded.wrong("coordinators", err.Error())
	}
	return nil
}

// placeOf is where an agent's coordinators are. A single coordinator gets a finder too, so that it
// is asked again if it does not answer.
func placeOf(
	open func(consul.Config, *slog.Logger) (*consul.Client, error), config agent.Config, own servers.Credentials, pin *client.Pin, log *slog.Logger,
) (servers.Place, error) {
	if config.Discovery == agent.DiscoveryConsul {
		return servers.PlaceThrough(open, config.Consul, consul.FinderOptions{Pin: pin}, own, log)
	}
	list := config.Coordinators
	if len(list) == 1 {
		list = strings.Split(list[0], ",")
	}
	return servers.PlaceInList(list, own)
}

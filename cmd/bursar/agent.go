package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/credential"
)

// openAgent makes an agent of this machine, with what its configuration says of coordinators.
func (c *cli) openAgent(ctx context.Context, config agent.Config, loaded *configuration, log *slog.Logger) (*agent.Agent, error) {
	if len(config.Coordinators) == 1 {
		if inConsul, isConsul := consulPlace(config.Coordinators[0]); isConsul {
			config.Discovery, config.Consul, config.Coordinators = agent.DiscoveryConsul, inConsul, nil
		}
	}
	config, err := config.WithDefaults()
	if err != nil {
		return nil, loaded.explain(err)
	}
	own := credentials{tls: config.TLS, token: credential.Token{File: config.TokenFile}}
	options, err := own.options(log)
	if err != nil {
		return nil, loaded.explain(err)
	}
	at, err := placeOf(config, own, log)
	if err != nil {
		if config.Discovery == agent.DiscoveryConsul {
			return nil, loaded.explain(err)
		}
		return nil, loaded.wrong("coordinators", err.Error())
	}
	// The agent knows better than a client how long to try again.
	upstream, err := at.open(append(options, client.WithoutRetries(), client.WithInterceptors(c.tracing.Clients()...))...)
	if err != nil {
		return nil, loaded.wrong("coordinators", err.Error())
	}
	c.clients = append(c.clients, upstream)
	if base := at.inClear(); base != "" && own.token.IsSet() {
		log.Warn(tokenInClear(base))
	}
	server, err := agent.New(config, agent.Deps{
		Allocations: upstream.Allocations(), Hosts: upstream.Hosts(), Finder: at.finder, Elsewhere: upstream.Elsewhere,
		Logger: log, Version: version, Tracing: c.tracing,
	})
	if err != nil {
		return nil, loaded.explain(err)
	}
	c.keep(ctx, at)
	return server, nil
}

// placeOf is where an agent's coordinators are. Also one alone is watched over, so that it is asked again where it does not answer.
func placeOf(config agent.Config, own credentials, log *slog.Logger) (place, error) {
	if config.Discovery == agent.DiscoveryConsul {
		return placeInConsul(config.Consul, own, log)
	}
	list := config.Coordinators
	if len(list) == 1 {
		list = strings.Split(list[0], ",")
	}
	return placeInList(list, own)
}

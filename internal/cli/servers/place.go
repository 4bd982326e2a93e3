package servers

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
)

// Place is where coordinators are: one server, or a finder for several.
type Place struct {
	Server string // empty: finder
	Finder discovery.Finder
	listed bool // the finder has a given list
	// run keeps the finder up to date until ctx ends; nil if there is nothing to keep.
	run func(ctx context.Context) error
}

// consulWord says in --addr that Consul knows where the coordinators are. Consul's address and the
// service may follow.
const consulWord = "consul"

// parsePlace reads --addr: one server, several URLs with commas between them, "consul", or
// "consul://HOST:PORT/SERVICE?cluster=NAME". With TLS settings, an address without a scheme means
// https. With a token it does too, except for an address of this machine.
func parsePlace(text string, own Credentials, log *slog.Logger) (Place, error) {
	if config, cluster, isConsul := ConsulPlace(text); isConsul {
		return placeInConsul(config, consul.FinderOptions{Cluster: cluster}, own, log)
	}
	if !strings.Contains(text, ",") {
		if own.Token.IsSet() && strings.HasPrefix(text, "http://") {
			return Place{Server: text}, keepToken(text)
		}
		return Place{Server: text}, nil
	}
	return PlaceInList(strings.Split(text, ","), own)
}

// PlaceInList is one or several coordinators by their addresses.
func PlaceInList(addresses []string, own Credentials) (Place, error) {
	urls := make([]string, len(addresses))
	for i, address := range addresses {
		urls[i] = strings.TrimSpace(address)
		if strings.Contains(urls[i], "://") {
			continue
		}
		if plain := "http://" + urls[i]; own.TLS.IsSet() || (own.Token.IsSet() && client.InClear(plain)) {
			urls[i] = "https://" + urls[i]
		} else {
			urls[i] = plain
		}
	}
	finder, err := discovery.Static(urls)
	if err != nil {
		return Place{}, err
	}
	if own.Token.IsSet() {
		err = keepToken(urls...)
	}
	return Place{Finder: finder, listed: true}, err
}

// ConsulPlace reads "consul" and "consul://HOST:PORT/SERVICE", with "?cluster=NAME" at the end or
// without. Consul's environment has the parts that are left out.
func ConsulPlace(text string) (config consul.Config, cluster string, isConsul bool) {
	rest, isConsul := strings.CutPrefix(text, consulWord)
	if !isConsul {
		return config, "", false
	}
	rest, query, _ := strings.Cut(rest, "?")
	cluster, _ = strings.CutPrefix(query, "cluster=")
	if rest == "" {
		return config, cluster, true
	}
	if rest, isConsul = strings.CutPrefix(rest, "://"); isConsul {
		config.Address, config.Service, _ = strings.Cut(rest, "/")
	}
	return config, cluster, isConsul
}

// placeInConsul is where Consul says the coordinators are. A caller with a token or certificate
// shows it only over TLS: somebody who wants to see it may have written the addresses in Consul.
func placeInConsul(config consul.Config, of consul.FinderOptions, own Credentials, log *slog.Logger) (Place, error) {
	return PlaceThrough(consul.New, config, of, own, log)
}

// PlaceThrough is placeInConsul with the constructor of Consul's client.
func PlaceThrough(
	open func(consul.Config, *slog.Logger) (*consul.Client, error), config consul.Config, of consul.FinderOptions, own Credentials, log *slog.Logger,
) (Place, error) {
	if of.Cluster != "" && !clusterid.IsCluster(of.Cluster) {
		return Place{}, &consul.ConfigError{Field: "cluster", Value: of.Cluster, Want: "1 to 64 letters, digits, - and _, as in consul?cluster=NAME"}
	}
	reached, err := open(config, log)
	if err != nil {
		return Place{}, err
	}
	of.RequireTLS, of.Log = own.TLS.IsSet() || own.Token.IsSet(), log
	finder := consul.NewFinder(reached, of)
	return Place{
		Finder: named{finder, "service " + reached.Service() + " in Consul"},
		run: func(ctx context.Context) error {
			defer reached.Close()
			return finder.Run(ctx)
		},
	}, nil
}

// named is a finder with a name for messages.
type named struct {
	discovery.Finder

	name string
}

func (n named) String() string { return n.name }

// Open makes a client for the place.
func (p Place) Open(opts ...client.Option) (*client.Client, error) {
	if p.Finder == nil {
		return client.New(p.Server, opts...)
	}
	return client.NewCluster(p.Finder, append(opts, p.Trust()...)...), nil
}

// Trust has the proofs that coordinators at the place owe, in addition to those for the
// credentials. Those who may write into Consul are not trusted to name coordinators.
func (p Place) Trust() []client.Option {
	if p.Finder == nil || p.listed {
		return nil
	}
	return []client.Option{client.WithCoordinatorsOnly()}
}

// keepToken refuses a given address if a token would cross a network unencrypted: every call would
// fail. The finder leaves out such addresses from Consul.
func keepToken(urls ...string) error {
	for _, url := range urls {
		if client.InClear(url) {
			return &discovery.URLError{URL: url, Want: "https://, and TLS at the coordinators (tls.cert and tls.key), since there is a " +
				"token to show, which everybody on the way could read; or a loopback address, or no token"}
		}
	}
	return nil
}

// placeError gives an address that cannot be used its exit code: it came from the command line.
func placeError(err error) error {
	_, ofURL := errors.AsType[*discovery.URLError](err)
	_, ofConsul := errors.AsType[*consul.ConfigError](err)
	file, ofFile := errors.AsType[*credential.FileError](err) // that Consul's environment names
	switch {
	case ofURL, ofConsul:
		return failure.Usagef("--addr: %w", err)
	case ofFile:
		return consulError(file)
	}
	return err
}

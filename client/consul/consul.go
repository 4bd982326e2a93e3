// Package consul finds a cluster's coordinators in Consul's catalog, for client.NewCluster. It is a
// separate package so that a program without Consul does not link Consul's library.
package consul

import (
	"log/slog"

	"github.com/bursar/bursar/internal/discovery/consul"
)

type (
	// Client calls one of Consul's agents.
	Client = consul.Client
	// Config configures the calls to Consul's agent, with its address and token.
	Config = consul.Config
	// Finder is a client.Finder. Its method Run updates it until the context ends.
	Finder = consul.Finder
	// FinderOptions are options of NewFinder.
	FinderOptions = consul.FinderOptions
)

// New returns a client of Consul's agent. The error names the invalid field of the configuration.
func New(config Config, log *slog.Logger) (*Client, error) {
	return consul.New(config, log) //nolint:wrapcheck // says it all
}

// NewFinder returns a Finder that is empty until its Run.
func NewFinder(client *Client, options FinderOptions) *Finder {
	return consul.NewFinder(client, options)
}

// Package consul finds a cluster's coordinators in Consul's catalog, for client.NewCluster. It is
// apart from package client, so that a program without Consul does not link its library.
package consul

import (
	"log/slog"

	"github.com/bursar/bursar/internal/discovery/consul"
)

type (
	// Client calls one of Consul's agents.
	Client = consul.Client
	// Config says how Consul's agent is reached and with which token it is asked.
	Config = consul.Config
	// Finder is a client.Finder. Its method Run keeps what it knows up to date until the context
	// ends.
	Finder = consul.Finder
	// FinderOptions are options of NewFinder.
	FinderOptions = consul.FinderOptions
)

// New returns a client of Consul's agent. The error names the field of the configuration that is
// wrong.
func New(config Config, log *slog.Logger) (*Client, error) {
	return consul.New(config, log) //nolint:wrapcheck // says it all
}

// NewFinder returns a Finder that knows nothing before its Run.
func NewFinder(client *Client, options FinderOptions) *Finder {
	return consul.NewFinder(client, options)
}

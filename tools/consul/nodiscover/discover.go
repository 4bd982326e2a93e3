// Package discover stands in for the library with which a Consul finds others to join in the clouds of a dozen vendors. Here nobody is
// looked for in a cloud, and the vendors' libraries are a third of what there is to compile in a Consul.
package discover

import (
	"errors"
	"log"
)

// ErrNoClouds is what a look in a cloud comes to.
var ErrNoClouds = errors.New("this Consul was built without looking for others in clouds")

// Provider is one of the clouds.
type Provider interface {
	Addrs(args map[string]string, l *log.Logger) ([]string, error)
	Help() string
}

// Providers are none.
var Providers map[string]Provider

// Discover looks for others.
type Discover struct{}

// Option changes how it does so.
type Option func(*Discover) error

// New returns one that finds nobody.
func New(...Option) (*Discover, error) { return new(Discover), nil }

// WithUserAgent does nothing.
func WithUserAgent(string) Option { return nil }

// WithProviders does nothing.
func WithProviders(map[string]Provider) Option { return nil }

// Addrs fails.
func (*Discover) Addrs(string, *log.Logger) ([]string, error) { return nil, ErrNoClouds }

// Names are none.
func (*Discover) Names() []string { return nil }

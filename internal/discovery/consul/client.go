package consul

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"
)

// Client is a client of one Consul agent.
type Client struct {
	api       *api.Client
	config    Config // with its defaults
	where     string // the agent's address, for errors
	transport *transport
}

// New returns a client. It reads the files that the configuration and the environment name, and
// makes no call. The error is a *ConfigError, or a *credential.FileError.
func New(config Config, log *slog.Logger) (*Client, error) { return newClient(config, false, log) }

// NewLater is New for a process that can run without Consul. If a file is unusable for a reason
// that may go away, calls fail with that reason until it does.
func NewLater(config Config, log *slog.Logger) (*Client, error) { return newClient(config, true, log) }

func newClient(config Config, later bool, log *slog.Logger) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.WithDefaults()
	settings := config.overEnvironment()
	if path, isUnix := strings.CutPrefix(settings.Address, "unix://"); isUnix {
		settings.Address = "localhost"
		settings.Transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	door, err := newTransport(settings.Transport, settings.TLSConfig, tokenOf(config), later, log)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to Consul: %w", err)
	}
	settings.HttpClient = &http.Client{
		Transport: door,
		// Consul redirects none of these requests; another server that redirects would get the
		// token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	settings.Token, settings.TokenFile = door.token.Token(), ""
	client, err := api.NewClient(settings)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to Consul: %w", err)
	}
	where := settings.Address
	if !strings.Contains(where, "://") {
		where = settings.Scheme + "://" + where
	}
	return &Client{api: client, config: config, where: where, transport: door}, nil
}

// API returns Consul's own client, with the address, the token and the certificates of this one.
// Calls through it have only their context's deadline.
func (c *Client) API() *api.Client { return c.api }

// Service returns the service name of the coordinators' registrations.
func (c *Client) Service() string { return c.config.Service }

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Bounded returns a context for one call that Consul answers at once.
func (c *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.Timeout)
}

// Query returns the options of a reading call.
func (c *Client) Query(ctx context.Context) *api.QueryOptions {
	return new(api.QueryOptions).WithContext(ctx)
}

// Write returns the options of a writing call.
func (c *Client) Write(ctx context.Context) *api.WriteOptions {
	return new(api.WriteOptions).WithContext(ctx)
}

// overEnvironment merges the settings: the configuration has priority over the environment, and the
// environment over the defaults of Consul's own client.
func (c Config) overEnvironment() *api.Config {
	settings := api.DefaultConfig()
	set := func(to *string, value string) {
		if value != "" {
			*to = value
		}
	}
	if c.Address != "" {
		settings.Address = c.Address
		if strings.HasPrefix(c.Address, "http://") {
			// the file sets the scheme, whatever the environment sets for another address
			settings.Scheme = "http"
		}
	}
	set(&settings.Scheme, c.Scheme)
	set(&settings.Datacenter, c.Datacenter)
	set(&settings.Namespace, c.Namespace)
	set(&settings.Partition, c.Partition)
	if c.TLS.CA != "" {
		settings.TLSConfig.CAFile, settings.TLSConfig.CAPath = c.TLS.CA, ""
	}
	if c.TLS.Cert != "" {
		settings.TLSConfig.CertFile, settings.TLSConfig.KeyFile = c.TLS.Cert, c.TLS.Key
	}
	set(&settings.TLSConfig.Address, c.TLS.ServerName)
	if c.TLS.InsecureSkipVerify {
		settings.TLSConfig.InsecureSkipVerify = true
	}
	return settings
}

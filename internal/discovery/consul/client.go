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

// Client talks to one Consul agent.
type Client struct {
	api       *api.Client
	config    Config // with its defaults
	where     string // the agent's address, for people
	transport *transport
}

// New returns a client. It reads the files that the configuration and the environment name, and
// makes no call. The error is a *ConfigError, or a *credential.FileError.
func New(config Config, log *slog.Logger) (*Client, error) { return newClient(config, false, log) }

// NewLater is New for a process that goes on without Consul. If a file cannot be used for a reason
// that time may mend, calls fail with that reason until it can.
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
		// Consul redirects nothing that is asked for here; a server that redirects would get the
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

// API is Consul's own client, with the address, the token and the certificates of this one. Calls
// through it have no deadline but their context's.
func (c *Client) API() *api.Client { return c.api }

// Service is the name that coordinators are registered by.
func (c *Client) Service() string { return c.config.Service }

// Close closes the connections that are idle.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Bounded returns a context for one call that Consul answers at once.
func (c *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.Timeout)
}

// Query and Write are a call's options.
func (c *Client) Query(ctx context.Context) *api.QueryOptions {
	return new(api.QueryOptions).WithContext(ctx)
}

// Write is Query for a call that changes something.
func (c *Client) Write(ctx context.Context) *api.WriteOptions {
	return new(api.WriteOptions).WithContext(ctx)
}

// overEnvironment puts the configuration over the environment, and the environment over the
// defaults of Consul's own client.
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
			// the file names the scheme, whatever the environment says of another address
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

package client

import (
	"context"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Client calls one server, an agent or a coordinator.
type Client struct {
	target      string
	transport   *http.Transport
	settings    settings
	allocations bursarv1connect.AllocationServiceClient
	hosts       bursarv1connect.HostServiceClient
	quotas      bursarv1connect.QuotaServiceClient
	cluster     bursarv1connect.ClusterServiceClient
}

// New makes a client of a server: a path or "unix:PATH" names a Unix socket, "host:port" or "http(s)://host:port" an address.
// It does not connect yet. The error is a *TargetError.
func New(server string, opts ...Option) (*Client, error) {
	t, err := parseTarget(server)
	if err != nil {
		return nil, err
	}
	s := settings{retries: RetryPolicy{}.withDefaults(), timeout: defaultTimeout}
	for _, opt := range opts {
		opt.apply(&s)
	}
	c := &Client{target: server, transport: newTransport(t, s.h2c), settings: s}
	httpClient := &http.Client{Transport: c.transport}
	calls := connect.WithInterceptors(&caller{settings: s})
	c.allocations = allocations{bursarv1connect.NewAllocationServiceClient(httpClient, t.baseURL, calls)}
	c.hosts = bursarv1connect.NewHostServiceClient(httpClient, t.baseURL, calls)
	c.quotas = bursarv1connect.NewQuotaServiceClient(httpClient, t.baseURL, calls)
	c.cluster = bursarv1connect.NewClusterServiceClient(httpClient, t.baseURL, calls)
	return c, nil
}

// newTransport makes connections to the target alone, and to nothing that the environment names as a proxy: a proxy in front of
// a socket or of the loopback is a mistake.
func newTransport(t target, h2c bool) *http.Transport {
	dialer := &net.Dialer{
		Timeout: 5 * time.Second,
		// A call may wait for minutes without a byte; a peer whose machine is gone is noticed after 30 s.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 64, // all to one server
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true, // over TLS
	}
	if t.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", t.socket)
		}
	}
	if h2c {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		transport.Protocols.SetHTTP2(true)
	}
	return transport
}

// Target returns the server's name as New was given it.
func (c *Client) Target() string { return c.target }

// Close ends idle connections. Calls that are under way go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Allocations returns the client of AllocationService. Its Allocate mints a request id where there is none, so that retries are
// one allocation.
func (c *Client) Allocations() bursarv1connect.AllocationServiceClient { return c.allocations }

// Hosts returns the client of HostService. An agent does not serve it.
func (c *Client) Hosts() bursarv1connect.HostServiceClient { return c.hosts }

// Quotas returns the client of QuotaService. An agent does not serve it.
func (c *Client) Quotas() bursarv1connect.QuotaServiceClient { return c.quotas }

// Cluster returns the client of ClusterService. An agent does not serve it.
func (c *Client) Cluster() bursarv1connect.ClusterServiceClient { return c.cluster }

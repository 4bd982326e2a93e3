package client

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/readlimit"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Client calls one server (an agent or a coordinator) or one of several coordinators.
type Client struct {
	target      string
	transport   *http.Transport
	send        connect.HTTPClient
	baseURL     string
	router      *router // nil: one server
	settings    settings
	allocations allocations
	hosts       bursarv1connect.HostServiceClient
	quotas      bursarv1connect.QuotaServiceClient
	queues      bursarv1connect.QueueServiceClient
	cluster     bursarv1connect.ClusterServiceClient
	engines     bursarv1connect.EngineServiceClient
}

// New makes a client of one server: a path or "unix:PATH" is a Unix socket, "host:port" or
// "http(s)://host:port" an address. With TLS, or with a token and a remote address, "host:port"
// means https. New does not connect yet. Its error is a *TargetError, also if there is a file or a
// folder at the path.
func New(server string, opts ...Option) (*Client, error) {
	s := newSettings(opts)
	t, err := parseTarget(server, s.tls != nil || s.credentials != nil)
	if err == nil && s.token != nil && !t.hasScheme && InClear(t.baseURL) {
		t, err = parseTarget(server, true)
	}
	if err == nil {
		err = t.checkSocket(server)
	}
	if err != nil {
		return nil, err
	}
	c := &Client{target: server, transport: newTransport(t.socket, t.socket == "" && !strings.HasPrefix(t.baseURL, "https:"), s), baseURL: t.baseURL, settings: s}
	c.send = &http.Client{Transport: roundTripper{c.transport, s.pin}, CheckRedirect: noRedirects}
	c.build()
	return c, nil
}

// NewCluster makes a client of several coordinators: each call goes to one of those that the finder
// knows at that time. NewCluster does not connect yet. The caller keeps the finder running.
func NewCluster(finder Finder, opts ...Option) *Client {
	s := newSettings(opts)
	c := &Client{target: nameOf(finder), transport: newTransport("", true, s), baseURL: "http://coordinator", settings: s}
	c.router = newRouter(finder, roundTripper{c.transport, s.pin})
	c.send = c.router
	c.build()
	return c
}

// noRedirects returns a redirect as the answer. Our servers never redirect; to follow the redirect
// of a foreign server would send the call to a third one.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// build makes the generated clients.
func (c *Client) build() {
	calls := connect.WithClientOptions(readlimit.Messages(c.settings.largest),
		connect.WithInterceptors(append([]connect.Interceptor{&callInterceptor{settings: c.settings, router: c.router}}, c.settings.attempts...)...))
	c.allocations = allocations{bursarv1connect.NewAllocationServiceClient(c.send, c.baseURL, calls)}
	c.hosts = bursarv1connect.NewHostServiceClient(c.send, c.baseURL, calls)
	c.quotas = bursarv1connect.NewQuotaServiceClient(c.send, c.baseURL, calls)
	c.queues = bursarv1connect.NewQueueServiceClient(c.send, c.baseURL, calls)
	c.cluster = bursarv1connect.NewClusterServiceClient(c.send, c.baseURL, calls)
	c.engines = bursarv1connect.NewEngineServiceClient(c.send, c.baseURL, calls)
}

// With returns a client of the same servers, over the same connections, with further options.
// WithTLS and the other options of connections have no effect. The client is valid as long as c and
// needs no Close.
func (c *Client) With(opts ...Option) *Client {
	other := *c
	for _, opt := range opts {
		opt.apply(&other.settings)
	}
	other.build()
	return &other
}

// newTransport connects only to the target and ignores the proxies in the environment: a proxy in
// front of a socket or of the loopback is a mistake.
func newTransport(socket string, plainHTTP bool, s settings) *http.Transport {
	dialer := net.Dialer{
		Timeout: 5 * time.Second,
		// A call may wait for minutes without a byte. If the peer's machine is gone, the
		// keep-alives detect that after 30 s.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	transport := &http.Transport{
		DialContext:         discovery.DialLocalhost(dialer),
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 64, // most calls go to one server
		IdleConnTimeout:     time.Minute,

		MaxResponseHeaderBytes: readlimit.Headers,
		ForceAttemptHTTP2:      true, // over TLS
		// These pings detect a peer that is stuck, as the keep-alives detect a lost machine. The
		// connection ends after 20 s.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second, MaxReceiveBufferPerStream: readlimit.Unread},
	}
	if s.tls != nil {
		transport.TLSClientConfig = s.tls.Clone()
	}
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return discovery.DialSocket(ctx, dialer.DialContext, socket)
		}
	}
	if s.h2c {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		transport.Protocols.SetHTTP2(true)
	}
	own := s.credentials
	if s.coordinatorsOnly {
		if own == nil {
			own = &credential.Client{}
		}
		own = own.Require(identity.Coordinator.Organization())
	}
	if own != nil {
		own.Use(transport) // dials as above; the rest is for plain http
	}
	if plainHTTP {
		transport.DialContext = discovery.DialKnown(transport.DialContext)
	}
	return transport
}

// Target returns the server as given to New, or describes how the coordinators are found.
func (c *Client) Target() string { return c.target }

// Elsewhere sends the next call to another coordinator than the last one, if several are known. It
// is for answers that the caller cannot use.
func (c *Client) Elsewhere() {
	if c.router != nil {
		c.router.choice.failCurrent()
	}
}

// CloseIdle ends idle connections; later calls make new ones. A program that calls seldom, next to
// a call that waits, costs its server less this way.
func (c *Client) CloseIdle() { c.transport.CloseIdleConnections() }

// Close ends idle connections. Calls in progress continue, but hanging coordinators are not
// detected any more.
func (c *Client) Close() {
	if c.router != nil {
		c.router.liveness.close()
	}
	c.transport.CloseIdleConnections()
}

// Allocations returns the client of AllocationService. Its Allocate adds a request id if there is
// none, so that retries make one allocation. If such a call fails and is Undecided, the client
// cancels it within 3 s, because nobody else can.
func (c *Client) Allocations() bursarv1connect.AllocationServiceClient { return c.allocations }

// Hosts returns the client of HostService. An agent does not serve it.
func (c *Client) Hosts() bursarv1connect.HostServiceClient { return c.hosts }

// Quotas returns the client of QuotaService. An agent does not serve it.
func (c *Client) Quotas() bursarv1connect.QuotaServiceClient { return c.quotas }

// Queues returns the client of QueueService. An agent does not serve it.
func (c *Client) Queues() bursarv1connect.QueueServiceClient { return c.queues }

// Cluster returns the client of ClusterService. An agent does not serve it.
func (c *Client) Cluster() bursarv1connect.ClusterServiceClient { return c.cluster }

// Engines returns the client of EngineService. An agent serves Launch, Wait and Signal on its Unix
// socket; a coordinator serves all except Launch. Launch is repeated if nobody answers; if the
// program already runs, Launch returns it. Launch answers when the program runs; an agent waits
// half a minute for that. Signal is not repeated after an attempt was sent and its connection
// broke.
func (c *Client) Engines() bursarv1connect.EngineServiceClient { return c.engines }

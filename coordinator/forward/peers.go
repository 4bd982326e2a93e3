package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/readlimit"
)

// ErrLeaderless answers a call that came while no leader was known. Nothing was done; the caller
// should try again.
var ErrLeaderless = errors.New("no coordinator is known to lead at the moment: try again")

// PeersOptions configure Peers.
type PeersOptions struct {
	// Log gets changes of the way to the leader.
	Log *slog.Logger
	// Interceptors see each forwarded call.
	Interceptors []connect.Interceptor
	// Credential has this coordinator's trusted CAs, and its own certificate.
	Credential *credential.Client
	// Shows means that this coordinator presents a certificate or a token to the others. Then it
	// sends clear text only within this machine.
	Shows bool
	// Token returns this coordinator's own token for the others. Nil: none.
	Token func() (string, error)
	// Own returns the cluster of this coordinator. It forwards no call to a coordinator of another
	// cluster. Nil: no check.
	Own func() clusterid.Identity
	// NotLeading ends calls at a leader that no longer leads. It also answers calls that another
	// coordinator has forwarded to a coordinator that does not lead.
	NotLeading error
	// Unled returns the reason why this coordinator does not lead, for calls that no other
	// coordinator answers either. Nil, or a nil error: no reason is known.
	Unled func() error
}

// Peers find the leader and connect to it. Any goroutine may use them.
type Peers struct {
	client *http.Client
	// transport makes the client's connections.
	transport    *http.Transport
	log          *slog.Logger
	interceptors []connect.Interceptor  // see PeersOptions.Interceptors
	token        func() (string, error) // see PeersOptions.Token
	own          func() clusterid.Identity
	// notLeading ends calls at a leader once another coordinator leads.
	notLeading error
	unled      func() error // why this coordinator does not lead; nil: not known

	mu       sync.Mutex
	election election.Election // guarded by mu; nil before the start
	self     string            // guarded by mu: this coordinator's URL
	leader   *leader           // guarded by mu: the leader, if it is another one; nil: not known
	// announced are the epochs that were announced recently, the latest last; guarded by mu.
	announced []uint64

	probes sync.WaitGroup
}

// leader is a client of the leading coordinator.
type leader struct {
	url     string
	unary   map[string]unaryCall  // by procedure
	streams map[string]streamCall // by procedure
	// over ends when another coordinator leads. Otherwise a leader that is cut off would hold
	// callers until their deadlines.
	over context.Context //nolint:containedctx // it is a state
	end  context.CancelCauseFunc
	// fault is the result of the last probe; nil before the first.
	fault atomic.Pointer[probed]
}

// NewPeers returns peers without a leader. Join starts them, and Follow updates them while it runs.
//
// Consul names the leader, and other parties may write there as well. So this coordinator presents
// its credentials only to coordinators over TLS, or on this machine.
func NewPeers(o PeersOptions) *Peers {
	transport := Transport()
	o.Credential.Require(identity.Coordinator.Organization()).Use(transport)
	if o.Shows {
		// for connections without TLS
		transport.DialContext = discovery.DialKnown(discovery.DialLoopback(*dialer()))
	}
	if o.Own == nil {
		o.Own = func() clusterid.Identity { return clusterid.Identity{} }
	}
	client := &http.Client{Transport: sameCluster{readlimit.Transport(transport), o.Own}, CheckRedirect: noRedirects}
	return &Peers{own: o.Own, log: o.Log, client: client, transport: transport, interceptors: o.Interceptors, token: o.Token, notLeading: o.NotLeading, unled: o.Unled}
}

// sameCluster rejects answers of coordinators of another cluster.
type sameCluster struct {
	http.RoundTripper

	own func() clusterid.Identity
}

// RoundTrip implements http.RoundTripper.
func (s sameCluster) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	own := s.own()
	if own.In(response.Header) {
		return response, nil
	}
	if got := clusterid.Of(response.Header); got.Other(own) {
		_ = response.Body.Close() // the answer does not count
		return nil, &clusterid.Error{URL: req.URL.Scheme + "://" + req.URL.Host, Got: got, Want: own}
	}
	return response, nil
}

// CloseIdleConnections is for http.Client.
func (s sameCluster) CloseIdleConnections() {
	if closer, ok := s.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// noRedirects treats a redirect as the answer. No coordinator redirects, and another server would
// get the call that was meant for the leader.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialer dials coordinators. Its timeout is short: a leader that does not accept connections must
// not hold callers that could use another coordinator.
func dialer() *net.Dialer { return &net.Dialer{Timeout: 2 * time.Second} }

// Transport makes the connections from one coordinator to another. It keeps one connection to the
// leader, on which many calls wait for long.
func Transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext:            dialer().DialContext,
		MaxResponseHeaderBytes: readlimit.Headers, Protocols: protocols, TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: time.Minute,
		// Pings detect a leader that no longer answers, also without calls.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second, MaxReceiveBufferPerStream: readlimit.Unread},
	}
}

// Join sets the election of the leader, and this coordinator's own URL.
func (p *Peers) Join(e election.Election, self string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.election, p.self = e, self
}

// Follow keeps the leader up to date until ctx ends.
func (p *Peers) Follow(ctx context.Context) {
	defer p.probes.Wait()
	defer p.setLeader("") //nolint:contextcheck // a probe lasts as long as its leader
	for {
		known, changed := p.Leader()
		p.setLeader(known.URL) //nolint:contextcheck // as above
		p.noteEpoch(known.Epoch)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Leader returns the leader, which may be this coordinator, and a channel that is closed when the
// leader changes. The URL is empty if no leader is known.
func (p *Peers) Leader() (known election.Leader, changed <-chan struct{}) {
	p.mu.Lock()
	e := p.election
	p.mu.Unlock()
	if e == nil {
		return election.Leader{}, nil
	}
	return e.Leader()
}

// setLeader sets the target of forwarded calls.
func (p *Peers) setLeader(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader != nil && p.leader.url == url {
		return
	}
	if p.leader != nil {
		p.leader.end(p.notLeading)
		p.leader = nil
		p.client.CloseIdleConnections()
	}
	if url != "" && url != p.self {
		to := newLeader(url, p.client, connect.WithInterceptors(p.interceptors...))
		p.leader = to
		p.probes.Go(func() { p.probe(to, p.log) })
	}
}

// mostAnnounced bounds the announced epochs that are kept: it is more than the leaders during a
// restore of a store.
const mostAnnounced = 32

// noteEpoch stores an announced epoch. A comparison with the store's epoch shows which epochs to
// believe.
func (p *Peers) noteEpoch(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == 0 || slices.Contains(p.announced, epoch) {
		return
	}
	if len(p.announced) == mostAnnounced {
		p.announced = slices.Delete(p.announced, 0, 1)
	}
	p.announced = append(p.announced, epoch)
}

// Epochs returns the epochs that were announced recently. A restored store does not know the last
// of them.
func (p *Peers) Epochs() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.announced)
}

// leaderless returns the error for a call while no leader is known.
func (p *Peers) leaderless() error { return p.because(ErrLeaderless) }

// because adds the reason why this coordinator does not lead to an error, if it is known.
func (p *Peers) because(err error) error {
	if p.unled != nil {
		if why := p.unled(); why != nil {
			return fmt.Errorf("%w (the one that answers does not lead: %v)", err, why) //nolint:errorlint // it has no code
		}
	}
	return err
}

// target returns the leader to forward a call to; nil if this coordinator was elected itself and is
// not ready yet, or if no leader is known.
func (p *Peers) target() (to *leader, self string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leader, p.self
}

func newLeader(url string, client connect.HTTPClient, options ...connect.ClientOption) *leader {
	l := &leader{url: url, unary: make(map[string]unaryCall), streams: make(map[string]streamCall)}
	l.over, l.end = context.WithCancelCause(context.Background())
	bounded := func(procedure string) []connect.ClientOption {
		return append(slices.Clone(options), readlimit.Messages(readlimit.Of(procedure)))
	}
	for procedure, dial := range unaryProcedures() {
		l.unary[procedure] = dial(client, url+procedure, bounded(procedure)...)
	}
	for procedure, dial := range streamProcedures() {
		l.streams[procedure] = dial(client, url+procedure, bounded(procedure)...)
	}
	return l
}

// reachable returns a context for a call to the leader, which ends with the leadership.
func (l *leader) reachable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.over, func() { cancel(context.Cause(l.over)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

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

// ErrLeaderless answers what came while no leader was known. Nothing was done; asking again is
// right.
var ErrLeaderless = errors.New("no coordinator is known to lead at the moment: try again")

// PeersOptions are what Peers need.
type PeersOptions struct {
	// Log takes whether calls can be passed on.
	Log *slog.Logger
	// Interceptors see each call that is passed on.
	Interceptors []connect.Interceptor
	// Credential is whom this coordinator trusts, and its own certificate.
	Credential *credential.Client
	// Shows says that this coordinator shows a certificate or a token to the others: then nothing
	// is sent in clear text but within this machine.
	Shows bool
	// Token is this coordinator's own, to show to the others. Nil: none.
	Token func() (string, error)
	// Own is the cluster that this coordinator belongs to. Nothing is passed on to a coordinator of
	// another one. Nil: it is not compared.
	Own func() clusterid.Identity
	// NotLeading ends calls at a leader that does not lead any more. It also answers calls that
	// another coordinator has passed on to one that does not lead.
	NotLeading error
	// Unled says why this coordinator does not lead, for callers whom nobody else answers either.
	// Nil, or a nil error: there is nothing to say.
	Unled func() error
}

// Peers keep the way to the coordinator that leads. Any goroutine may use them.
type Peers struct {
	client *http.Client
	// transport makes the client's connections.
	transport    *http.Transport
	log          *slog.Logger
	interceptors []connect.Interceptor  // these see each call that is passed on
	token        func() (string, error) // this coordinator's own, to show to the others; nil: none
	own          func() clusterid.Identity
	// notLeading ends calls at a leader once another coordinator leads.
	notLeading error
	unled      func() error // why this coordinator does not lead; nil: nobody says

	mu       sync.Mutex
	election election.Election // guarded by mu; nil before the start
	self     string            // guarded by mu: this coordinator's URL
	leader   *leader           // guarded by mu: who leads, unless it is this one; nil: not known
	// announced are the epochs that were announced lately, the latest last; guarded by mu.
	announced []uint64

	probes sync.WaitGroup
}

// leader is the coordinator that leads, as another one calls it.
type leader struct {
	url     string
	unary   map[string]unaryCall  // by procedure
	streams map[string]streamCall // by procedure
	// over ends when another coordinator is known to lead. A leader that is cut off would
	// otherwise keep callers until their deadlines.
	over context.Context //nolint:containedctx // it is a state
	end  context.CancelCauseFunc
	// fault is the result of the last attempt to find out whether calls can be passed on; nil
	// before the first.
	fault atomic.Pointer[probed]
}

// NewPeers makes them. They know nobody before Join, and what they know changes while Follow runs.
//
// Consul says who leads, and others may write there as well. So what this coordinator shows goes
// to coordinators over TLS, or stays on this machine.
func NewPeers(o PeersOptions) *Peers {
	transport := Transport()
	o.Credential.Require(identity.Coordinator.Organization()).Use(transport)
	if o.Shows {
		// what is dialed without TLS
		transport.DialContext = discovery.DialKnown(discovery.DialLoopback(*dialer()))
	}
	if o.Own == nil {
		o.Own = func() clusterid.Identity { return clusterid.Identity{} }
	}
	client := &http.Client{Transport: sameCluster{readlimit.Transport(transport), o.Own}, CheckRedirect: noRedirects}
	return &Peers{own: o.Own, log: o.Log, client: client, transport: transport, interceptors: o.Interceptors, token: o.Token, notLeading: o.NotLeading, unled: o.Unled}
}

// sameCluster takes no answer from a coordinator of another cluster.
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
		_ = response.Body.Close() // nothing of it counts
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

// noRedirects takes a redirect for the answer. No coordinator redirects, and a server that does
// would get what was meant for the leader.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialer makes the connections. A leader that does not accept them must not keep callers who could
// go elsewhere.
func dialer() *net.Dialer { return &net.Dialer{Timeout: 2 * time.Second} }

// Transport makes the connections from one coordinator to another. It keeps one to the leader:
// many calls wait on it for long.
func Transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext:            dialer().DialContext,
		MaxResponseHeaderBytes: readlimit.Headers, Protocols: protocols, TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: time.Minute,
		// One that does not answer any more is noticed, calls or not.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second, MaxReceiveBufferPerStream: readlimit.Unread},
	}
}

// Join sets the election that names the leader, and this coordinator's own URL.
func (p *Peers) Join(e election.Election, self string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.election, p.self = e, self
}

// Follow keeps up with who leads until ctx ends.
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

// Leader returns who leads, this coordinator or another, and a channel that is closed when that
// changes. Its URL is empty if no leader is known.
func (p *Peers) Leader() (known election.Leader, changed <-chan struct{}) {
	p.mu.Lock()
	e := p.election
	p.mu.Unlock()
	if e == nil {
		return election.Leader{}, nil
	}
	return e.Leader()
}

// setLeader makes url the one that calls go to.
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

// mostAnnounced is how many announced epochs are kept: more than leaders that follow each other
// while a store is put back.
const mostAnnounced = 32

// noteEpoch keeps an epoch that was announced. The comparison with the store's own shows which of
// them to believe.
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

// Epochs are those that were announced lately. A store that was put back does not know the last of
// them.
func (p *Peers) Epochs() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.announced)
}

// leaderless is the error for a call that came while no leader is known.
func (p *Peers) leaderless() error { return p.because(ErrLeaderless) }

// because adds to an error why this coordinator does not lead, if that is known.
func (p *Peers) because(err error) error {
	if p.unled != nil {
		if why := p.unled(); why != nil {
			return fmt.Errorf("%w (the one that answers does not lead: %v)", err, why) //nolint:errorlint // it has no code
		}
	}
	return err
}

// target returns the leader to pass a call on to; nil if this coordinator is elected itself and
// not ready yet.
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

// reachable returns a context for a call to the leader.
func (l *leader) reachable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.over, func() { cancel(context.Cause(l.over)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

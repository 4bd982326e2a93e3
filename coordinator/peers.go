package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/internal/readlimit"
)

// errLeaderless answers what came while nobody was known to lead.
var errLeaderless = errors.New("no coordinator is known to lead at the moment: try again")

// peers keeps the way to the coordinator that leads.
type peers struct {
	client *http.Client
	// transport makes the client's connections.
	transport *http.Transport
	log       *slog.Logger
	seen      []connect.Interceptor  // these see each call that is passed on
	token     func() (string, error) // this coordinator's own, to show to the others; nil: none

	mu       sync.Mutex
	election election.Election // guarded by mu; nil before the start
	self     string            // guarded by mu: this coordinator's URL
	leader   *leader           // guarded by mu: who leads, unless it is this one; nil: nobody known
	heard    []uint64          // guarded by mu: the epochs that were announced lately, the latest last

	greetings sync.WaitGroup
}

// leader is the coordinator that leads, as another one calls it.
type leader struct {
	url     string
	unary   map[string]unaryCall  // by procedure
	streams map[string]streamCall // by procedure
	// over ends when somebody else is known to lead: who is cut off would otherwise keep callers until their deadlines.
	over context.Context //nolint:containedctx // it is a state
	end  context.CancelCauseFunc
	// fault is how the last attempt went to find out whether calls can be passed on; nil before the first.
	fault atomic.Pointer[greeting]
}

func newPeers(log *slog.Logger, seen ...connect.Interceptor) *peers {
	transport := peerTransport()
	transport.DialContext = peerDialer().DialContext
	client := &http.Client{Transport: readlimit.Transport(transport), CheckRedirect: stay}
	return &peers{log: log, client: client, transport: transport, seen: seen}
}

// stay takes a redirect for the answer: no coordinator redirects, and who does would get what was meant for the leader.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// peerDialer makes the connections. One that does not take them must not keep callers who could go elsewhere.
func peerDialer() *net.Dialer { return &net.Dialer{Timeout: 2 * time.Second} }

// peerTransport keeps one connection to whoever leads: many calls wait on it for long.
func peerTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		MaxResponseHeaderBytes: readlimit.Headers, Protocols: protocols, TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: time.Minute,
		// One that does not answer any more is noticed, calls or not.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second, MaxReceiveBufferPerStream: readlimit.Unread},
	}
}

// join says where the leader's name comes from, and who asks.
func (p *peers) join(e election.Election, self string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.election, p.self = e, self
}

// follow keeps up with who leads until ctx ends.
func (p *peers) follow(ctx context.Context) {
	defer p.greetings.Wait()
	defer p.point("") //nolint:contextcheck // a greeting lasts as long as its leader
	for {
		known, changed := p.known()
		p.point(known.URL) //nolint:contextcheck // as above
		p.hear(known.Epoch)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// known returns who leads; its URL is empty where nobody is known to.
func (p *peers) known() (known election.Leader, changed <-chan struct{}) {
	p.mu.Lock()
	e := p.election
	p.mu.Unlock()
	if e == nil {
		return election.Leader{}, nil
	}
	return e.Leader()
}

// point makes url the one that calls go to.
func (p *peers) point(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader != nil && p.leader.url == url {
		return
	}
	if p.leader != nil {
		p.leader.end(ErrNotLeading)
		p.leader = nil
		p.client.CloseIdleConnections()
	}
	if url != "" && url != p.self {
		to := newLeader(url, p.client, connect.WithInterceptors(p.seen...))
		p.leader = to
		p.greetings.Go(func() { p.greet(to, p.log) })
	}
}

// mostHeard is how many announced epochs are kept: more than leaders that follow each other while a store is put back.
const mostHeard = 32

// hear keeps an epoch that was announced. Which of them are to be believed can be told next to the store's own.
func (p *peers) hear(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == 0 || slices.Contains(p.heard, epoch) {
		return
	}
	if len(p.heard) == mostHeard {
		p.heard = slices.Delete(p.heard, 0, 1)
	}
	p.heard = append(p.heard, epoch)
}

// epochs are those that were announced lately. A store that was put back does not know the last of them.
func (p *peers) epochs() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

// find returns the leader to pass a call on to; nil where this coordinator is elected itself, and not ready yet.
func (p *peers) find() (to *leader, self string) {
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

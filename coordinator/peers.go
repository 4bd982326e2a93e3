package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
)

// errLeaderless answers what came while nobody was known to lead.
var errLeaderless = errors.New("no coordinator is known to lead at the moment: try again")

// peers keeps the way to the coordinator that leads.
type peers struct {
	client *http.Client
	log    *slog.Logger
	seen   []connect.Interceptor  // these see each call that is passed on
	token  func() (string, error) // this coordinator's own, to show to the others; nil: none

	mu       sync.Mutex
	election election.Election // guarded by mu; nil before the start
	self     string            // guarded by mu: this coordinator's URL
	leader   *leader           // guarded by mu: who leads, unless it is this one; nil: nobody known
	epoch    uint64            // guarded by mu: the latest that anybody has announced

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
	return &peers{log: log, client: &http.Client{Transport: peerTransport()}, seen: seen}
}

// peerTransport keeps one connection to whoever leads: many calls wait on it for long.
func peerTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	// One that does not take connections must not keep callers who could go elsewhere.
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &http.Transport{
		DialContext: dialer.DialContext, Protocols: protocols, TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: time.Minute,
		// One that does not answer any more is noticed, calls or not.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second},
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
		p.heard(known.Epoch)
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

// sane bounds the epochs that are believed: whoever can write nonsense into the place where leaders announce themselves must not use up
// the numbers.
const sane = 1 << 48

func (p *peers) heard(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch < sane {
		p.epoch = max(p.epoch, epoch)
	}
}

// latest is the last epoch that was announced. A store that was put back does not know it.
func (p *peers) latest() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
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
	for procedure, dial := range unaryProcedures() {
		l.unary[procedure] = dial(client, url+procedure, options...)
	}
	for procedure, dial := range streamProcedures() {
		l.streams[procedure] = dial(client, url+procedure, options...)
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

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"golang.org/x/sync/singleflight"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/coordinator/ledger"
)

const (
	// probeTime is how long a probe waits for the loop and the store.
	probeTime = 5 * time.Second
	// probeAge is how long a probe repeats its last answer. Probes need no identity, so many probes
	// must cost no more than one.
	probeAge = time.Second
)

// probes answer whether this coordinator works, to callers without an identity, too.
type probes struct {
	loop                  *commit.Loop
	peers                 *forward.Peers
	mismatch              *mismatch
	shared                *sharedService
	consul                *consulState
	loopProbe, storeProbe *sharedProbe // the loop; and commands, all the way to the store
}

func newProbes(loop *commit.Loop, p *forward.Peers, m *mismatch, s *sharedService, c *consulState) *probes {
	return &probes{
		loop: loop, peers: p, mismatch: m, shared: s, consul: c,
		loopProbe: &sharedProbe{ask: loop.Alive, clock: loop.Clock}, storeProbe: &sharedProbe{ask: loop.Probe, clock: loop.Clock},
	}
}

// alive reports whether the loop runs. ready reports the other faults, which a restart would not
// mend.
func (p *probes) alive(ctx context.Context) error { return p.loopProbe.probe(ctx) }

// ready reports why the coordinator cannot answer calls. A leader cannot if nothing becomes
// durable. Another coordinator cannot if it knows no leader, if it cannot reach the leader, or if
// its store is not the cluster's, so that it could not take the lead. If Consul is the cause, the
// error says so.
func (p *probes) ready(ctx context.Context) error {
	if p.loop.IsStopping() {
		return core.ErrStopping
	}
	if err := p.mismatch.get(); err != nil {
		return &unready{"this coordinator has another store than its cluster", err}
	}
	if err := p.shared.refusal(); err != nil {
		return &unready{"another cluster has the name of this coordinator's service", fmt.Errorf("this coordinator does not serve: %w", err)}
	}
	err := core.ErrNotLeading
	if p.loop.Leading() {
		if err = p.storeProbe.probe(ctx); err != nil && !errors.Is(err, core.ErrNotLeading) && !errors.Is(err, core.ErrStopping) {
			return &unready{"the store does not take what this coordinator writes", err}
		}
	}
	if errors.Is(err, core.ErrNotLeading) {
		return p.following()
	}
	return err
}

// following is ready for a coordinator that does not lead.
func (p *probes) following() error {
	route := p.peers.Route()
	switch {
	case route.URL != "" && route.Fault != nil:
		return &unready{"this coordinator cannot pass calls on to the leader", route.Fault}
	case route.URL != "" && route.Unreached != nil:
		shown := p.consul.because(errors.New("the leader does not answer this coordinator"))
		return &unready{shown.Error(), p.consul.because(route.Unreached)}
	case route.URL != "":
		return nil
	case p.consul.fault() != nil:
		return p.consul.because(core.ErrNotLeading)
	}
	if why := p.loop.Unled(); why != nil {
		return &unready{"this coordinator does not lead, because of its store", fmt.Errorf("%w: this coordinator does not lead: %w", core.ErrNotLeading, why)}
	}
	return core.ErrNotLeading
}

// sharedProbe runs one probe at a time and shares its answer among all callers.
type sharedProbe struct {
	ask     func(context.Context) error
	clock   core.Steady
	running singleflight.Group

	mu    sync.Mutex
	found error          // guarded by mu: the last answer
	until ledger.Instant // guarded by mu: how long found is given; 0: nothing was found yet
}

func (p *sharedProbe) probe(ctx context.Context) error {
	p.mu.Lock()
	found, fresh := p.found, p.clock.Now() < p.until
	p.mu.Unlock()
	if fresh {
		return found
	}
	answer := p.running.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
		defer cancel()
		err := p.ask(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.found, p.until = err, p.clock.Now().Add(probeAge)
		return nil, err
	})
	select {
	case result := <-answer:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unready is the reason why a coordinator is not ready. shown is the reason for callers without an
// identity: without paths, addresses and words of other servers.
type unready struct {
	shown string
	error
}

func (e *unready) Unwrap() error { return e.error }

// probePage answers a probe over HTTP.
func probePage(probe func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := probe(r.Context())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err == nil {
			fmt.Fprintln(w, "ok")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		hidden, hides := errors.AsType[*unready](err)
		if caller, known := auth.FromContext(r.Context()); !hides || known && caller.SeesFaults {
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintf(w, "%s; callers with an identity are told more\n", hidden.shown)
	}
}

// healthChecker answers the standard health service.
type healthChecker struct {
	ready func(context.Context) error
	names []string
}

// Check implements grpchealth.Checker.
func (h healthChecker) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == ""
	for _, name := range h.names {
		known = known || name == req.Service
	}
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("service: %q: want one of %v", req.Service, h.names))
	}
	if h.ready(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil //nolint:nilerr // that is the answer
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}

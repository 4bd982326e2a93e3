package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	// probeEvery is the time between two probes of a leader. probeAgain is that time if the last
	// probe failed.
	probeEvery = 5 * time.Second
	probeAgain = 3 * time.Second
	// unansweredProbes is how many probes in a row must fail before the leader counts as out of
	// reach: one may be lost while it is busy, or ends.
	unansweredProbes = 2
	// probeTime bounds a probe.
	probeTime = 3 * time.Second
)

// probe checks at intervals whether the leader accepts calls of this coordinator, until another one
// leads. A coordinator that the leader refuses, or that does not trust the leader, looks healthy
// but is useless. It should report this before the first call.
func (p *Peers) probe(to *leader, log *slog.Logger) {
	silent := 0
	for {
		err, unanswered := p.probeOnce(to)
		if to.over.Err() != nil {
			return
		}
		now := &probed{fault: err}
		if silent++; unanswered == nil {
			silent = 0
		}
		if silent >= unansweredProbes {
			now.unreached = fmt.Errorf("the leader %s does not answer this coordinator, nor callers that come by it: %w", to.url, unanswered)
		}
		before := to.fault.Swap(now)
		wait := probeEvery
		if err != nil || unanswered != nil {
			wait = probeAgain
		}
		if was, is := before != nil && before.unreached != nil, now.unreached != nil; is && !was {
			log.Error("the leader is out of reach: this coordinator is not ready", "leader", to.url, "error", unanswered)
		} else if was && !is {
			log.Info("the leader answers again", "leader", to.url)
		}
		switch {
		case err != nil && (before == nil || before.fault == nil):
			log.Error("calls cannot be passed on", "error", err)
		case err == nil && before == nil:
			log.Info("stands by", "leader", to.url)
		case err == nil && before.fault != nil:
			log.Info("calls can be passed on again", "leader", to.url)
		}
		if !pause.For(wait, to.over.Done(), nil) {
			return
		}
	}
}

// probed is the result of a probe.
type probed struct {
	fault     error
	unreached error // the last probes in a row had no answer
}

// probeOnce returns why calls cannot be forwarded, or why the leader did not answer.
func (p *Peers) probeOnce(to *leader) (fault, unanswered error) {
	ctx, cancel := context.WithTimeout(to.over, probeTime)
	defer cancel()
	_, self := p.target()
	header, err := p.headers(self, identity.Actor{Name: "coordinator", Role: identity.Reader})
	if err != nil {
		return err, nil
	}
	_, err = to.unary[bursarv1connect.ClusterServiceStatusProcedure](ctx, &bursarv1.StatusRequest{AllowStale: true}, header)
	if err == nil {
		return nil, nil
	}
	if code := connect.CodeOf(err); code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied {
		return fmt.Errorf("the leader %s does not take calls from this coordinator (%w): want peers.tokenFile or peers.tls in its configuration, of an identity with the role coordinator", to.url, err), nil
	}
	if other, ok := errors.AsType[*clusterid.Error](err); ok {
		return fmt.Errorf("nothing is passed on to the leader that Consul names: %w", other), nil
	}
	if network, ok := errors.AsType[*discovery.NetworkError](err); ok {
		return fmt.Errorf("the leader %s is not called, as this coordinator's credentials would cross the network in clear text (%w): want https:// there, that is tls.cert and tls.key "+
			"on every coordinator; if none of yours has this address, somebody else has written it into Consul", to.url, network), nil
	}
	if untrusted, ok := errors.AsType[*credential.TrustError](credential.Describe(err)); ok {
		return fmt.Errorf("the leader %s: %w (peers.tls); if none of yours has this address, somebody else has written it into Consul", to.url, untrusted), nil
	}
	if connect.IsWireError(err) {
		return nil, nil // the leader may be about to end: the next call shows it
	}
	return nil, err
}

// headers returns the headers of a forwarded call: the forwarding coordinator and the actor.
func (p *Peers) headers(self string, actor identity.Actor) (http.Header, error) {
	header := http.Header{}
	header.Set(forwardedHeader, self)
	header.Set(identity.Header, actor.Encode())
	p.own().Put(header)
	if p.token == nil {
		return header, nil
	}
	token, err := p.token()
	if err != nil {
		return nil, fmt.Errorf("this coordinator's own token: %w", err)
	}
	header.Set("Authorization", "Bearer "+token)
	return header, nil
}

// Route describes the way to another coordinator that leads.
type Route struct {
	// URL is the leader's. Empty: no other leader is known, or this coordinator was elected itself.
	URL string
	// Probed reports whether this coordinator has probed the leader yet.
	Probed bool
	// Fault is why calls cannot be forwarded to it. Nil: they can be, or it is not known yet.
	Fault error
	// Unreached is why the leader seems to be out of reach, after several attempts. Calls are still
	// forwarded: the leader may answer one of them.
	Unreached error
}

// Route returns the current way to the leader.
func (p *Peers) Route() Route {
	to, _ := p.target()
	if to == nil {
		return Route{}
	}
	if last := to.fault.Load(); last != nil {
		return Route{to.url, true, last.fault, last.unreached}
	}
	return Route{URL: to.url}
}

package consul

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
)

// RegistrationOptions configure a Registration.
type RegistrationOptions struct {
	// ID is the coordinator's unique id: letters, digits, dots, dashes and underscores, at most
	// 128.
	ID string
	// URL is the coordinator's address for all callers, with a port.
	URL string
	// Identity is the coordinator's cluster. Replaces are the stores that its store has replaced.
	// The catalog has both.
	Identity clusterid.Identity
	Replaces []string
	// Meta is additional metadata for the catalog, such as a version. "scheme", "epoch", "cluster",
	// "store" and "replaces" are reserved.
	Meta map[string]string
	// TTL is how long the registration stays healthy after a pass. A pass comes about every third
	// of it. With a shorter TTL, Consul notices a dead coordinator sooner, but a shorter pause of
	// the process, the network or Consul makes a live one unhealthy. Default 3 s, at least 1 s.
	TTL time.Duration
	// Alive reports whether the coordinator works. If it returns an error, or does not return
	// before its context ends, the check does not pass. Default: always alive.
	Alive func(ctx context.Context) error
	// Allowed returns the reason why the coordinator must not be registered now; nil: it may be.
	// Default: always allowed.
	Allowed func(ctx context.Context) error
	// Passed is called after each pass, in Run's goroutine; start is the time before the pass. It
	// may use the rest of the context's time. Default: nothing.
	Passed func(ctx context.Context, start time.Time)
	Log    *slog.Logger
}

// Registration keeps a coordinator in Consul's catalog, and healthy while the coordinator works.
//
// Its health check is a TTL check that the coordinator passes from its own loop. A check by
// Consul's agent would need a certificate if coordinators verify their callers. It would show that
// a listener answers, not that the loop runs. The session of an election is bound to the same
// check, so that health and the right to lead always agree.
type Registration struct {
	client  *Client
	options RegistrationOptions
	host    string
	port    int
	scheme  string
	check   string
	wake    chan struct{} // capacity 1

	mu      sync.Mutex // guards the fields below
	epoch   uint64     // of the term to be marked
	leads   bool
	version uint64        // counts the changes of the registration
	passed  time.Time     // the start of the last pass
	first   chan struct{} // closed by the first pass
	refusal error         // why the check does not pass, if waiting does not help

	// Only for Run.
	toldVersion uint64 // the version that the agent has; 0: none
	toldToken   string // the token at that time, which the agent continues to use
}

var registrationID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// NewRegistration returns a registration that begins with Run. The error is a *ConfigError or a
// *discovery.URLError.
func NewRegistration(client *Client, options RegistrationOptions) (*Registration, error) {
	base, err := discovery.ParseURL(options.URL)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, &discovery.URLError{URL: base, Want: "a URL such as https://bursar-1.example.com:7070"}
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil, &discovery.URLError{URL: base, Want: "a URL with a port"}
	}
	if options.TTL == 0 {
		options.TTL = 3 * time.Second
	}
	switch {
	case !registrationID.MatchString(options.ID):
		return nil, &ConfigError{"id", options.ID, "letters, digits, dots, dashes and underscores, at most 128"}
	case options.TTL < time.Second || options.TTL > time.Minute:
		return nil, &ConfigError{"ttl", options.TTL.String(), "between 1s and 1m"}
	case net.ParseIP(u.Hostname()).IsUnspecified():
		return nil, &discovery.URLError{URL: base, Want: "an address that others can call, not the one for all of a machine's"}
	}
	if options.Alive == nil {
		options.Alive = func(context.Context) error { return nil }
	}
	if options.Passed == nil {
		options.Passed = func(context.Context, time.Time) {}
	}
	r := &Registration{
		client: client, options: options, host: u.Hostname(), port: port, scheme: u.Scheme,
		wake: make(chan struct{}, 1), version: 1, first: make(chan struct{}),
	}
	r.check = "service:" + r.ServiceID() + ":" + rand.Text()
	return r, nil
}

// ServiceID returns the registration's id in Consul's agent.
func (r *Registration) ServiceID() string { return r.client.config.Service + "-" + r.options.ID }

// CheckID returns the id of its health check. It differs for each start of the coordinator. So the
// session of an earlier start ends with its own check, and this start's check does not keep it
// alive.
func (r *Registration) CheckID() string { return r.check }

// Lead marks the coordinator as the leader, with its epoch, at the next pass, which it triggers.
func (r *Registration) Lead(epoch uint64) { r.mark(true, epoch) }

// Follow removes the mark.
func (r *Registration) Follow() { r.mark(false, 0) }

func (r *Registration) mark(leads bool, epoch uint64) {
	r.mu.Lock()
	changed := leads != r.leads || epoch != r.epoch
	if changed {
		r.leads, r.epoch = leads, epoch
		r.version++
	}
	r.mu.Unlock()
	if changed {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// LastPass returns the start of the last pass; zero before the first.
func (r *Registration) LastPass() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed
}

// Registered waits for the first pass. The error is the context's, or Consul's refusal.
func (r *Registration) Registered(ctx context.Context) error {
	ticker := time.NewTicker(firstPause)
	defer ticker.Stop()
	for {
		select {
		case <-r.first:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			r.mu.Lock()
			err := r.refusal
			r.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
}

// Run registers the coordinator, passes the check about every third of the TTL until the context
// ends, then deregisters, and returns the context's error.
func (r *Registration) Run(ctx context.Context) error {
	defer r.deregister(ctx)
	silent, marking := FailureLog{Log: r.options.Log}, FailureLog{Log: r.options.Log}
	pause := pauses(r.options.TTL / 3)
	for {
		err := r.passCheck(ctx)
		wait := jitter(r.options.TTL / 3)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			silent.Failed("this coordinator does not count as healthy in Consul", err)
			wait = pause.NextBackOff()
		default:
			silent.Worked("this coordinator counts as healthy in Consul again")
			pause.Reset()
			if err := r.refresh(ctx); err != nil && ctx.Err() == nil {
				marking.Failed("Consul's catalog does not say yet whether this coordinator leads", err)
				wait = pause.NextBackOff()
			} else {
				marking.Worked("Consul's catalog says whether this coordinator leads")
			}
		}
		r.setRefusal(err)
		if err := r.waitForNext(ctx, wait); err != nil {
			return err
		}
	}
}

// waitForNext waits for the next pass.
func (r *Registration) waitForNext(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.wake:
	case <-timer.C:
	}
	return nil
}

// setRefusal stores an error that does not go away by waiting, for Registered.
func (r *Registration) setRefusal(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = nil
	if Refused(err) {
		r.refusal = err
	}
}

// passCheck passes the check once, within a third of the TTL.
func (r *Registration) passCheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.TTL/3)
	defer cancel()
	start := time.Now()
	if err := r.options.Alive(ctx); err != nil {
		return fmt.Errorf("it does not do its work: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("it does not do its work: no answer within %v: %w", r.options.TTL/3, err)
	}
	if r.options.Allowed != nil {
		if err := r.options.Allowed(ctx); err != nil {
			r.leave(ctx)
			return err
		}
	}
	if err := r.update(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	if r.passed.IsZero() {
		close(r.first)
	}
	r.passed = start
	r.mu.Unlock()
	r.options.Passed(ctx, start)
	return nil
}

// leave removes the registration, if there is one.
func (r *Registration) leave(ctx context.Context) {
	if r.toldVersion != 0 {
		r.deregister(ctx)
		r.toldVersion = 0
	}
}

// update passes the check. It registers first if the agent does not know the registration, or has
// forgotten it.
func (r *Registration) update(ctx context.Context) error {
	update := func() error {
		return r.client.api.Agent().UpdateTTLOpts(r.CheckID(), "the coordinator's loop turns", api.HealthPassing, r.client.Query(ctx))
	}
	if r.toldVersion != 0 {
		err := update()
		if status, ok := errors.AsType[api.StatusError](err); !ok || status.Code == http.StatusForbidden {
			return r.client.Explain("pass the health check", err)
		}
		r.options.Log.Info("Consul's agent has forgotten this coordinator, or another one has registered by its id: registering again", "error", err)
		r.toldVersion = 0
	}
	if err := r.register(ctx); err != nil {
		return err
	}
	return r.client.Explain("pass the health check", update())
}

// refresh registers again if the registration or the token has changed. It is separate from the
// pass: an agent that is slow at this must not make the coordinator unhealthy.
func (r *Registration) refresh(ctx context.Context) error {
	r.mu.Lock()
	fresh := r.toldVersion == r.version
	r.mu.Unlock()
	if fresh && r.toldToken == r.client.transport.token.Token() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.TTL/3)
	defer cancel()
	return r.register(ctx)
}

// register sends the whole registration to the agent. The state of an existing check stays.
func (r *Registration) register(ctx context.Context) error {
	r.mu.Lock()
	leads, epoch, version := r.leads, r.epoch, r.version
	r.mu.Unlock()
	token := r.client.transport.token.Token()
	options := api.ServiceRegisterOpts{ReplaceExistingChecks: true}.WithContext(ctx)
	if err := r.client.api.Agent().ServiceRegisterOpts(r.service(leads, epoch), options); err != nil {
		return r.client.Explain("register the service "+r.client.config.Service, err)
	}
	r.toldVersion, r.toldToken = version, token
	return nil
}

func (r *Registration) service(leads bool, epoch uint64) *api.AgentServiceRegistration {
	meta := maps.Clone(r.options.Meta)
	if meta == nil {
		meta = make(map[string]string, 5)
	}
	meta[metaScheme] = r.scheme
	for key, value := range map[string]string{
		metaCluster: r.options.Identity.Cluster, metaStore: r.options.Identity.Store, metaReplaces: strings.Join(r.options.Replaces, ","),
	} {
		if value != "" {
			meta[key] = value
		}
	}
	var tags []string
	if leads {
		tags = []string{LeaderTag}
		meta[metaEpoch] = strconv.FormatUint(epoch, 10)
	}
	return &api.AgentServiceRegistration{
		ID: r.ServiceID(), Name: r.client.config.Service, Address: r.host, Port: r.port, Tags: tags, Meta: meta,
		Check: &api.AgentServiceCheck{
			CheckID: r.CheckID(), Name: "The coordinator's loop turns", TTL: r.options.TTL.String(), Status: api.HealthPassing,
			// A coordinator that never returns, for example because its machine was replaced, is
			// removed from the catalog after this time.
			DeregisterCriticalServiceAfter: "10m",
		},
	}
}

// deregister is the last step, after Run's context has ended.
func (r *Registration) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(r.client.config.Timeout, 2*time.Second))
	defer cancel()
	err := r.client.api.Agent().ServiceDeregisterOpts(r.ServiceID(), r.client.Query(ctx))
	if status, ok := errors.AsType[api.StatusError](err); err != nil && (!ok || status.Code != http.StatusNotFound) {
		r.options.Log.Warn("this coordinator stays in Consul's catalog until its check has failed for a while",
			"error", r.client.Explain("deregister", err))
	}
}

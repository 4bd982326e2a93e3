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

// RegistrationOptions say who registers.
type RegistrationOptions struct {
	// ID is the coordinator's, different from that of every other: letters, digits, dots, dashes
	// and underscores, at most 128.
	ID string
	// URL is the address that everybody can call it at, with a port.
	URL string
	// Identity is the cluster that the coordinator belongs to, and Replaces are the stores that its
	// store has taken the place of. The catalog says both.
	Identity clusterid.Identity
	Replaces []string
	// Meta is said in the catalog as well, such as a version. "scheme", "epoch", "cluster", "store"
	// and "replaces" are taken.
	Meta map[string]string
	// TTL is how long the registration counts as healthy after a pass. There is a pass about every
	// third of it. A shorter one finds out sooner that a coordinator is gone, and takes a shorter
	// pause of the process, of the network or of Consul for its end. Default 3 s, at least 1 s.
	TTL time.Duration
	// Alive says whether the coordinator does its work. If it returns an error, or does not return
	// before its context ends, the check does not pass. Default always.
	Alive func(ctx context.Context) error
	// Allowed says why the coordinator must not be registered now; nil: it may be. Default always.
	Allowed func(ctx context.Context) error
	// Passed is called after each pass, in Run's goroutine; start is from before the pass. It may
	// take what remains of the context. Default nothing.
	Passed func(ctx context.Context, start time.Time)
	Log    *slog.Logger
}

// Registration keeps a coordinator in Consul's catalog, healthy as long as it works.
//
// Its health check is a TTL check that the coordinator passes itself, from its own loop. A check
// by Consul's agent would need a certificate if coordinators verify their callers, and would see
// that a listener answers, not that the loop runs. The session of an election is bound to the same
// check, so health and the right to lead are one fact.
type Registration struct {
	client  *Client
	options RegistrationOptions
	host    string
	port    int
	scheme  string
	check   string
	wake    chan struct{} // has room for one

	mu      sync.Mutex // guards what follows
	epoch   uint64     // of the leadership to be marked
	leads   bool
	version uint64        // counts the changes of what is to be said
	passed  time.Time     // the start of the last pass
	first   chan struct{} // closed by the first pass
	refusal error         // why the check does not pass, if time alone does not help

	// Run's own.
	toldVersion uint64 // the version that the agent has; 0: none
	toldToken   string // the token then, which the agent goes on to use
}

var registrationID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// NewRegistration returns a registration that is made when it runs. The error is a *ConfigError or
// a *discovery.URLError.
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

// ServiceID is the registration's name in Consul's agent.
func (r *Registration) ServiceID() string { return r.client.config.Service + "-" + r.options.ID }

// CheckID is the name of its health check. It is another one each time the coordinator starts, so
// that the session that an earlier start left behind ends with the check that it was bound to, and
// is not kept alive by this one's.
func (r *Registration) CheckID() string { return r.check }

// Lead marks the coordinator as the one that leads, with its epoch, at the next pass, which is
// now.
func (r *Registration) Lead(epoch uint64) { r.mark(true, epoch) }

// Follow takes the mark off.
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

// LastPass is when the last pass began; zero before the first.
func (r *Registration) LastPass() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed
}

// Registered waits for the first pass. The error is the context's, or why Consul refuses.
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

// Run registers, passes the check about every third of the TTL until the context ends, then
// deregisters, and returns the context's error.
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

// setRefusal keeps what waiting does not mend, for Registered.
func (r *Registration) setRefusal(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = nil
	if Refused(err) {
		r.refusal = err
	}
}

// passCheck passes the check once. It takes no longer than a third of the TTL.
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

// leave takes the registration back, if there is one.
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

// refresh registers again if the registration has changed, or the token. It comes after a pass and
// apart from it: an agent that is slow at this must not cost the coordinator its health.
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

// register tells the agent everything. A check that it has already stays as it is.
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
			// One that never comes back, such as a machine that was replaced, does not stay in the
			// catalog for ever.
			DeregisterCriticalServiceAfter: "10m",
		},
	}
}

// deregister is the last thing that is done, when Run's context has ended already.
func (r *Registration) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(r.client.config.Timeout, 2*time.Second))
	defer cancel()
	err := r.client.api.Agent().ServiceDeregisterOpts(r.ServiceID(), r.client.Query(ctx))
	if status, ok := errors.AsType[api.StatusError](err); err != nil && (!ok || status.Code != http.StatusNotFound) {
		r.options.Log.Warn("this coordinator stays in Consul's catalog until its check has failed for a while",
			"error", r.client.Explain("deregister", err))
	}
}

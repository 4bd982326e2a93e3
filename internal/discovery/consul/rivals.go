package consul

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
)

// OccupiedError reports that coordinators of another cluster are registered with this cluster's
// service name.
type OccupiedError struct {
	Service    string
	Own, Other clusterid.Identity
	// URL is the address of one of them.
	URL string
	// Gone says that they are no longer registered, but may come back.
	Gone bool
}

func (e *OccupiedError) Error() string {
	state := "is registered as service"
	if e.Gone {
		state = "was registered until a moment ago as service"
	}
	return fmt.Sprintf("a coordinator of %s (%s) %s %s in Consul, by which agents would find this coordinator of %s: want a consul.service of its own for each cluster in one Consul",
		e.Other, e.URL, state, e.Service, e.Own)
}

// rivalsGone is how long the other cluster must be without registrations before this one takes the
// name. So the other one keeps its name over a restart.
const rivalsGone = 30 * time.Second

// RivalsOptions configure Rivals.
type RivalsOptions struct {
	Own clusterid.Identity
	// ServiceID is this coordinator's own registration.
	ServiceID string
	// Told is called when the result changes; nil: there is no other cluster. yields says that this
	// coordinator must not serve, because the other cluster has had the name for longer. It must
	// not block.
	Told func(err error, yields bool)
	Log  *slog.Logger
}

// Rivals finds coordinators of other clusters with the same service name. The cluster with the
// oldest registration keeps the name.
type Rivals struct {
	client  *Client
	options RivalsOptions
	gone    time.Duration // see rivalsGone

	mu      sync.Mutex // guards the fields below
	looked  bool
	found   *OccupiedError // nil: none
	yields  bool
	lastHas time.Time // when another cluster was last seen
	peers   int       // healthy coordinators of the own cluster, without this one
}

// Peers returns the number of other healthy coordinators of this cluster in Consul. Coordinators of
// earlier versions do not count.
func (r *Rivals) Peers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers
}

// NewRivals returns Rivals without a result until the first query.
func NewRivals(client *Client, options RivalsOptions) *Rivals {
	return &Rivals{client: client, options: options, gone: rivalsGone}
}

// Run queries Consul until the context ends, and returns its error.
func (r *Rivals) Run(ctx context.Context) error {
	return r.client.Watch(ctx, Watch{
		About: "look for coordinators of other clusters", Gap: findGap, Wait: 10 * time.Second, Log: r.options.Log,
		Ask: r.ask,
	})
}

func (r *Rivals) ask(options *api.QueryOptions) (*api.QueryMeta, error) {
	options.AllowStale = true // any Consul server may answer
	entries, meta, err := r.client.api.Health().Service(r.client.config.Service, "", false, options)
	if err != nil {
		return nil, err
	}
	if meta.LastIndex == 0 {
		return nil, ErrNotConsul
	}
	r.judge(entries, time.Now())
	return meta, nil
}

// Allowed returns the reason why this coordinator may not be registered, as an *OccupiedError. The
// first call queries Consul, and may return its error.
func (r *Rivals) Allowed(ctx context.Context) error {
	r.mu.Lock()
	looked := r.looked
	r.mu.Unlock()
	if !looked {
		if _, err := r.ask(r.client.Query(ctx)); err != nil {
			return r.client.Explain("look for coordinators of other clusters", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.yields && r.found.Gone && time.Since(r.lastHas) > r.gone {
		r.setLocked(nil, false)
	}
	if r.yields {
		return r.found
	}
	return nil
}

// judge evaluates the registrations. Those of earlier versions, without a cluster, count as this
// cluster's.
func (r *Rivals) judge(entries []*api.ServiceEntry, now time.Time) {
	var oldest, theirs uint64 // indexes in Consul; 0: there is none
	var other *OccupiedError
	peers := 0
	for _, entry := range entries {
		if entry == nil || entry.Service == nil {
			continue
		}
		is, since := identityOf(entry), max(1, entry.Service.CreateIndex)
		switch {
		case !is.Other(r.options.Own):
			if oldest == 0 || since < oldest {
				oldest = since
			}
			if is.Known() && entry.Service.ID != r.options.ServiceID && entry.Checks.AggregatedStatus() == api.HealthPassing {
				peers++
			}
		case entry.Checks.AggregatedStatus() != api.HealthCritical:
			if theirs == 0 || since < theirs {
				url, _ := baseOf(entry)
				theirs, other = since, &OccupiedError{Service: r.client.config.Service, Own: r.options.Own, Other: is, URL: url}
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked, r.peers = true, peers
	switch {
	case other != nil:
		r.lastHas = now
		r.setLocked(other, oldest == 0 || theirs < oldest)
	case r.yields:
		gone := *r.found
		gone.Gone = true
		r.setLocked(&gone, true)
	default:
		r.setLocked(nil, false)
	}
}

func (r *Rivals) setLocked(found *OccupiedError, yields bool) {
	before := r.found
	if r.yields == yields && (before == nil) == (found == nil) && (found == nil || *before == *found) {
		return
	}
	r.found, r.yields = found, yields
	var err error
	if found != nil {
		err = found
	}
	switch {
	case yields && (before == nil || !found.Gone):
		r.options.Log.Error("this coordinator does not serve: another cluster has its service's name in Consul", "error", err)
	case found != nil && !yields:
		r.options.Log.Error("coordinators of another cluster have this one's service's name in Consul", "error", err)
	case found == nil && before != nil:
		r.options.Log.Info("no other cluster has this one's service's name in Consul any more")
	}
	if r.options.Told != nil {
		r.options.Told(err, yields)
	}
}

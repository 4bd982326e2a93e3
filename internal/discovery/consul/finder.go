package consul

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
)

// LeaderTag marks the leading coordinator. DNS has it, too:
// leader.bursar-coordinator.service.consul.
const LeaderTag = "leader"

// Keys of a registration's metadata, in addition to address and port.
const (
	metaScheme   = "scheme"
	metaEpoch    = "epoch"    // of the term, with LeaderTag
	metaCluster  = "cluster"  // the cluster's name
	metaStore    = "store"    // the id of its store
	metaReplaces = "replaces" // ids of the stores that this store has replaced, separated by commas
)

// findGap is the shortest time between two queries of one agent, so that a thousand agents cause
// limited load, however often the catalog changes.
const findGap = 100 * time.Millisecond

// FinderOptions configure a Finder.
type FinderOptions struct {
	// RequireTLS leaves out coordinators whose URL is not https. It is for callers with
	// credentials, or with the CA of coordinators. Otherwise anybody who may register a service
	// could have tokens sent to an address of their choice, in plain text.
	RequireTLS bool
	// Cluster is the name of the cluster to find. Default: if all coordinators are of one cluster,
	// that cluster, for the life of the Finder; otherwise it finds none. Coordinators of earlier
	// versions do not name their cluster, and always match.
	Cluster string
	// Pin is the cluster, if another component determines it: Cluster is then ignored. Default: the
	// Finder's own.
	Pin *clusterid.Pin
	Log *slog.Logger
}

// Finder is the discovery.Finder for Consul's catalog: it finds the coordinators whose health check
// passes.
//
// An answer without coordinators does not replace a list: coordinators whose checks fail may still
// answer, and a failed call costs a caller nothing.
type Finder struct {
	client  *Client
	options FinderOptions
	seed    maphash.Seed // spreads the callers over coordinators while none leads
	pin     *clusterid.Pin
	ownPin  bool // no other component keeps the pin

	mu      sync.Mutex // guards the fields below
	list    []discovery.Coordinator
	changed chan struct{}
}

// NewFinder returns a finder whose list is empty until Run.
func NewFinder(client *Client, options FinderOptions) *Finder {
	f := &Finder{client: client, options: options, seed: maphash.MakeSeed(), pin: options.Pin, changed: make(chan struct{})}
	if f.pin == nil {
		f.pin, f.ownPin = clusterid.NewPin(options.Cluster), true
	}
	return f
}

// Coordinators implements discovery.Finder.
func (f *Finder) Coordinators() (list []discovery.Coordinator, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list, f.changed
}

// Run queries Consul until the context ends, and returns its error.
func (f *Finder) Run(ctx context.Context) error {
	odd, hidden := FailureLog{Log: f.options.Log}, FailureLog{Log: f.options.Log}
	return f.client.Watch(ctx, Watch{
		About: "look for coordinators", Gap: findGap, Log: f.options.Log,
		Ask: func(options *api.QueryOptions) (*api.QueryMeta, error) {
			// any Consul server may answer, so that a fleet does not depend on Consul's leader
			options.AllowStale = true
			entries, meta, err := f.client.api.Health().Service(f.client.config.Service, "", true, options)
			if err != nil {
				return nil, err
			}
			if meta.LastIndex == 0 {
				return nil, ErrNotConsul
			}
			if err := f.client.hides(entries, meta); err != nil {
				hidden.Failed("Consul names no coordinator", f.client.Explain("look for coordinators", err))
			} else {
				hidden.Worked("Consul shows what the token may read")
			}
			list, errs := f.sort(entries)
			if errs != nil {
				odd.Failed("registrations in Consul that cannot be called are left out", errs)
			}
			f.setCoordinators(list)
			return meta, nil
		},
	})
}

func (f *Finder) setCoordinators(list []discovery.Coordinator) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(list) == 0 || slices.Equal(list, f.list) {
		return
	}
	f.list = list
	close(f.changed)
	f.changed = make(chan struct{})
}

// sort returns the coordinators among the entries: the leader first, the others in an order that is
// random per finder.
func (f *Finder) sort(entries []*api.ServiceEntry) ([]discovery.Coordinator, error) {
	var (
		list   []discovery.Coordinator
		leader string
		latest uint64
	)
	entries, errs := f.ownEntries(entries)
	for _, entry := range entries {
		base, err := baseOf(entry)
		if err == nil && f.options.RequireTLS && !strings.HasPrefix(base, "https://") {
			err = &discovery.URLError{URL: base, Want: "https://, since this end has a token or certificates: Consul's word is not enough for less"}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.Contains(list, discovery.Coordinator{URL: base}) {
			list = append(list, discovery.Coordinator{URL: base})
		}
		// A leader that was paused may not have removed its mark yet: the higher epoch counts.
		epoch, _ := strconv.ParseUint(entry.Service.Meta[metaEpoch], 10, 64)
		if slices.Contains(entry.Service.Tags, LeaderTag) && (leader == "" || epoch > latest) {
			leader, latest = base, epoch
		}
	}
	slices.SortFunc(list, func(a, b discovery.Coordinator) int {
		switch {
		case a.URL == b.URL:
			return 0
		case a.URL == leader:
			return -1
		case b.URL == leader:
			return 1
		}
		return cmp.Or(
			cmp.Compare(maphash.String(f.seed, a.URL), maphash.String(f.seed, b.URL)),
			cmp.Compare(a.URL, b.URL),
		)
	})
	if len(list) > 0 && list[0].URL == leader {
		list[0].Leads = true
	}
	return list, errors.Join(errs...)
}

// baseOf returns a registration's URL.
func baseOf(entry *api.ServiceEntry) (string, error) {
	if entry == nil || entry.Service == nil {
		return "", errors.New("an entry without a service")
	}
	host := entry.Service.Address
	if host == "" && entry.Node != nil {
		host = entry.Node.Address
	}
	scheme := entry.Service.Meta[metaScheme]
	if scheme == "" {
		scheme = "http"
	}
	if strings.ContainsAny(host, "/?#@") {
		return "", &discovery.URLError{URL: entry.Service.ID, Want: "an address that is a host"}
	}
	return discovery.ParseURL(scheme + "://" + net.JoinHostPort(host, strconv.Itoa(entry.Service.Port)))
}

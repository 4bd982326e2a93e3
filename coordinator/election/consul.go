package election

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
)

// Options configure the election of one coordinator.
type Options struct {
	// ID is the id of the coordinator, unique in the cluster.
	ID string
	// URL is this coordinator's address for the others and for clients, with a port. If it is
	// https, a leader whose URL is not https does not count. A forwarded call carries this
	// coordinator's credentials, and a writer to Consul must not be able to have them sent in clear
	// text.
	URL string
	// Cluster is the name that the coordinators of one election share; its keys in Consul are
	// bursar/<cluster>/leader and bursar/<cluster>/store. Default: the name of the service under
	// which they are registered.
	Cluster string
	// Mismatch is called with a *StoreError while the cluster's store is not this coordinator's,
	// which has claimed its own before, and with nil once it is again. Until then Campaign keeps
	// trying. Default: no call.
	Mismatch func(err error)
	// Shared is called with a *consul.OccupiedError when coordinators of another cluster have the
	// name of this one's service, and with nil once they no longer have. yields says that this
	// coordinator is neither registered nor a candidate. It must not block. Default: no call.
	Shared func(err error, yields bool)
	// TTL is how long a dead leader keeps the others from leading. A shorter TTL gives a shorter
	// pause when a machine is lost. With a longer one, a leader survives a longer pause of its
	// process, of the network or of Consul. Default 3 s, at least 2 s, at most 1 min.
	TTL time.Duration
	// Alive reports whether the coordinator's loop runs. It is called about every third of the TTL,
	// and must answer by then. A coordinator that is not alive does not count as healthy, and stops
	// leading. Default: always alive.
	Alive func(ctx context.Context) error
	// Prepared reports whether the coordinator could serve as soon as it leads. If not, it lets
	// others try first when a leader has gone. Default: always prepared.
	Prepared func() bool
	// StoreID is the store that this coordinator would lead on. It campaigns only if the others
	// have the same, see ClaimStore. Default: no comparison.
	StoreID string
	// ClusterID is the result of ClusterID, or the one in the store. If Consul has lost it, a
	// candidate restores it. Default: no restore.
	ClusterID string
	// Replaces are the ids of stores that this store has replaced, for Consul's catalog.
	Replaces []string
	// Meta is for Consul's catalog, such as the version.
	Meta map[string]string
	Log  *slog.Logger
}

// ConsulElection is the election among coordinators that share a Consul. It also registers the
// coordinator there: the session of the election is bound to the health check of the registration.
type ConsulElection struct {
	client       *consul.Client
	options      Options
	registration *consul.Registration
	rivals       *consul.Rivals

	mu      sync.Mutex  // guards the fields below
	term    *consulTerm // from the acquired key to Resign
	reading reading
	changed chan struct{} // closed when either changes
	others  bool          // another one has held the key since the last preparedFirst
	led     bool          // a campaign was won before
	last    string        // the session of the last term
	claimed bool          // the cluster's store was this coordinator's before
	yields  bool          // another cluster has the name of the service
	fault   error         // why Consul did not answer the last time; nil: it did
	asOf    time.Time     // of Consul's last answer
	// patience bounds a call of the election; see firstPatience.
	patience time.Duration

	doubts   consul.FailureLog // about the term
	renewals consul.FailureLog // of its session
	// nonsense and intruders limit the log lines about values that other writers put into the key:
	// they may write all the time.
	nonsense, intruders rate.Sometimes
	// loggedVersion is the version of the key that was logged; only the watch uses it.
	loggedVersion uint64
}

// reading is the last read value of the key.
type reading struct {
	known   bool   // it was read
	refusal error  // why the first read failed; nil after a success
	holder  string // the session that holds it; empty: none
	id      string // the id in the holder's announcement
	leader  Leader // the leader in the holder's announcement
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Consul returns the election among the coordinators of the same cluster in the same Consul. It
// does nothing until Run. The error is a *consul.ConfigError or a *discovery.URLError.
func Consul(client *consul.Client, options Options) (*ConsulElection, error) {
	if options.Cluster == "" {
		options.Cluster = client.Service()
	}
	if options.TTL == 0 {
		options.TTL = 3 * time.Second
	}
	switch {
	case !clusterName.MatchString(options.Cluster):
		return nil, &consul.ConfigError{Field: "cluster", Value: options.Cluster, Want: "letters, digits, dots, dashes and underscores, at most 128"}
	case options.TTL < 2*time.Second || options.TTL > time.Minute:
		return nil, &consul.ConfigError{Field: "ttl", Value: options.TTL.String(), Want: "between 2s and 1m"}
	}
	base, err := discovery.ParseURL(options.URL)
	if err != nil {
		return nil, err
	}
	options.URL = base
	e := &ConsulElection{
		client: client, options: options, changed: make(chan struct{}), doubts: consul.FailureLog{Log: options.Log}, renewals: consul.FailureLog{Log: options.Log},
		nonsense: rate.Sometimes{Interval: time.Second}, intruders: rate.Sometimes{Interval: time.Second},
	}
	own := clusterid.New(options.Cluster, options.StoreID)
	e.rivals = consul.NewRivals(client, consul.RivalsOptions{Own: own, ServiceID: client.Service() + "-" + options.ID, Told: e.shared, Log: options.Log})
	e.registration, err = consul.NewRegistration(client, consul.RegistrationOptions{
		Allowed: e.rivals.Allowed, ID: options.ID, URL: options.URL, Identity: own, Replaces: options.Replaces, Meta: options.Meta, TTL: options.TTL, Alive: options.Alive, Passed: e.renewTerm, Log: options.Log,
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Run runs the election, and keeps the coordinator registered, until the context ends. Then it ends
// the current term and deregisters the coordinator. It returns the context's error.
func (e *ConsulElection) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.registration.Run(ctx) })
	group.Go(func() error { return e.watch(ctx) })
	group.Go(func() error { return e.rivals.Run(ctx) })
	err := group.Wait()
	e.mu.Lock()
	term := e.term
	e.mu.Unlock()
	if term != nil {
		term.lease.end()
	}
	return err
}

// shared ends a term if this coordinator must not serve.
func (e *ConsulElection) shared(err error, yields bool) {
	e.mu.Lock()
	term := e.term
	e.yields = yields
	e.mu.Unlock()
	if yields && term != nil {
		term.lease.end()
	}
	if e.options.Shared != nil {
		e.options.Shared(err, yields)
	}
}

// Peers returns how many other coordinators of the cluster are healthy, as far as known.
func (e *ConsulElection) Peers() int { return e.rivals.Peers() }

// Leader implements Election. If Consul is away, the last known leader stays known.
func (e *ConsulElection) Leader() (leader Leader, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	leader = e.reading.leader
	switch mine := e.term != nil && !e.term.isOver() && e.term.session == e.reading.holder; {
	case mine: // whatever other writers have put into its key
		leader = Leader{URL: e.options.URL, Epoch: e.term.said.Epoch, StoreID: e.term.said.StoreID}
	case leader.URL == e.options.URL:
		leader = Leader{} // an earlier leadership of this coordinator: it does not lead now
	}
	return leader, e.changed
}

func (e *ConsulElection) key() string { return "bursar/" + e.options.Cluster + "/leader" }

// announcement is the key's value.
type announcement struct {
	ID      string `json:"id,omitempty"` // of the coordinator
	URL     string `json:"url"`
	Epoch   uint64 `json:"epoch,omitempty"`
	StoreID string `json:"store_id,omitempty"`
}

// isIn reports whether the value of a key equals the announcement.
func (a announcement) isIn(pair *api.KVPair) bool {
	var found announcement
	return json.Unmarshal(pair.Value, &found) == nil && found == a
}

// parseAnnouncement returns the announcement in a key. Every writer of the key may have put
// anything there: texts are cut, and an invalid id is omitted.
func parseAnnouncement(pair *api.KVPair) (said announcement, err error) {
	if err := json.Unmarshal(pair.Value, &said); err != nil {
		// the error may contain long numbers
		return announcement{}, errors.New(discovery.Cut(err.Error(), discovery.MaxShownError))
	}
	said.ID = discovery.Cut(said.ID, maxInstance)
	if !clusterid.IsStoreID(said.StoreID) {
		said.StoreID = ""
	}
	return said, nil
}

// maxInstance is longer than every coordinator's ID, which consists of the names of a machine and
// of an address.
const maxInstance = 600

func (e *ConsulElection) watch(ctx context.Context) error {
	return e.client.Watch(ctx, consul.Watch{
		About: "watch " + e.key(), Wait: watchWait, Gap: watchGap, Hurried: e.hurried, Log: e.options.Log,
		Ask: func(options *api.QueryOptions) (*api.QueryMeta, error) {
			// Any server of Consul may answer: if its leader hangs, a query that goes to the leader
			// gets no answer. A coordinator that takes the key asks the leader in any case.
			options.AllowStale = true
			pair, meta, err := e.client.API().KV().Get(e.key(), options)
			if err == nil {
				err = consul.Current(meta)
			}
			if err != nil {
				explained := e.client.Explain("read "+e.key(), err)
				e.setUnanswered(explained, errors.Is(options.Context().Err(), context.Canceled))
				e.keepRefusal(explained)
				return nil, err
			}
			e.setAnswered(meta)
			if e.update(pair) {
				// The answer may be older than the term. checkTerm reads the current key, and
				// corrects the value if another writer has changed it.
				bounded, cancel := e.bounded(ctx)
				defer cancel()
				e.checkTerm(bounded)
			}
			return meta, nil
		},
	})
}

// hurried reports whether a new leader must be known soon: there is no leader, this coordinator has
// lost its term, or Consul did not answer.
func (e *ConsulElection) hurried() (hurried bool, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lost := e.term != nil && e.term.isOver()
	return e.reading.known && (e.fault != nil || lost || e.reading.holder == "" || e.reading.holder == e.last && e.term == nil), e.changed
}

// setAnswered notes that Consul has answered the query for the leader.
func (e *ConsulElection) setAnswered(meta *api.QueryMeta) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault, e.asOf = nil, time.Now().Add(-meta.LastContact)
}

// setUnanswered notes that Consul has not answered. A query that this coordinator has canceled
// itself says nothing about Consul.
func (e *ConsulElection) setUnanswered(err error, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = nil
	if !ended {
		e.fault = shownFault(err)
	}
}

const (
	// firstPatience is the first bound of one call for the election. It doubles with each call that
	// takes longer, up to the configured timeout. A hanging server of Consul must not cost the
	// whole timeout, and a slow Consul must get the time.
	firstPatience = time.Second
)

// bounded is Client.Bounded for calls of the election.
func (e *ConsulElection) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	e.mu.Lock()
	patience := max(firstPatience, e.patience)
	e.mu.Unlock()
	ctx, cancelAll := e.client.Bounded(ctx)
	ctx, cancel := context.WithTimeout(ctx, patience)
	return ctx, func() { cancel(); cancelAll() }
}

// setPatience adapts the patience to the error of a call.
func (e *ConsulElection) setPatience(err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.patience = min(2*max(firstPatience, e.patience), time.Minute)
}

const (
	// watchWait bounds how long a silently broken connection goes unnoticed.
	watchWait = 5 * time.Second
	// watchGap bounds the cost of a key that changes often.
	watchGap = 20 * time.Millisecond
)

// update stores the current value of the key; nil: there is no key. It reports whether that looks
// like the end of a current term, or is a value that this term did not write. During an
// announcement, the key still has the previous value.
func (e *ConsulElection) update(pair *api.KVPair) (doubtful bool) {
	var now reading
	if pair != nil && pair.Session != "" {
		now = reading{holder: pair.Session}
		now.id, now.leader = e.leaderIn(pair)
	}
	now.known = true
	e.mu.Lock()
	defer e.mu.Unlock()
	if now != e.reading {
		e.reading = now
		own := now.holder == "" || now.holder == e.last || e.term != nil && now.holder == e.term.session
		e.others = e.others || !own
		e.changedLocked()
	}
	return e.term != nil && !e.term.isOver() && (e.term.session != now.holder || !e.term.said.isIn(pair) && !e.term.written.isIn(pair))
}

// keepRefusal stores why the key cannot be read, until the first successful read.
func (e *ConsulElection) keepRefusal(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reading.known && consul.Refused(err) {
		e.reading.refusal = err
		e.changedLocked()
	}
}

func (e *ConsulElection) changedLocked() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// leaderIn returns the leader in the key; none if the key has no usable value.
func (e *ConsulElection) leaderIn(pair *api.KVPair) (id string, leader Leader) {
	said, err := parseAnnouncement(pair)
	if err == nil {
		said.URL, err = discovery.ParseURL(said.URL)
	}
	if err == nil && strings.HasPrefix(e.options.URL, "https://") && !strings.HasPrefix(said.URL, "https://") {
		err = &discovery.URLError{URL: said.URL, Want: "https://, as this coordinator has"}
	}
	if err == nil && e.options.StoreID != "" && said.StoreID != "" && said.StoreID != e.options.StoreID {
		err = &clusterid.Error{URL: said.URL, Got: clusterid.New(e.options.Cluster, said.StoreID), Want: clusterid.New(e.options.Cluster, e.options.StoreID)}
	}
	if err != nil {
		if e.loggedVersion != pair.ModifyIndex {
			e.nonsense.Do(func() {
				e.loggedVersion = pair.ModifyIndex
				e.options.Log.Warn("Consul's key does not say who leads: nobody, for now", "key", e.key(), "error", err)
			})
		}
		return "", Leader{}
	}
	return said.ID, Leader{URL: said.URL, Epoch: said.Epoch, StoreID: said.StoreID}
}

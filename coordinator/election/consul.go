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

// Options say who stands for election, and where.
type Options struct {
	// ID is the coordinator's, different from that of every other of the cluster.
	ID string
	// URL is where the others and clients can call it, with a port. If it is https, a leader whose
	// URL is not https does not count. What is passed on to a leader shows it who this coordinator
	// is, and a writer to Consul must not be able to have that sent in clear.
	URL string
	// Cluster is what the coordinators that elect one of them have in common; its keys in Consul
	// are bursar/<cluster>/leader and bursar/<cluster>/store. Default the name of the service that
	// they are registered by.
	Cluster string
	// Mismatch is called with a *StoreError while the cluster's store is not this coordinator's,
	// which has claimed its own before, and with nil once it is again. Until then Campaign goes on
	// trying. Default: nothing is called.
	Mismatch func(err error)
	// Shared is called when coordinators of another cluster are found by the name of this one's
	// service, with a *consul.OccupiedError, and with nil once they are not any more. yields says
	// that this coordinator is neither registered nor stands for election. It must not block.
	// Default: nothing is called.
	Shared func(err error, yields bool)
	// TTL is how long a leader that does nothing any more keeps the others from leading. Shorter
	// is a shorter pause when a machine is lost; longer lets a leader get over a longer pause of
	// its process, of the network or of Consul. Default 3 s, at least 2 s, at most 1 min.
	TTL time.Duration
	// Alive says whether the coordinator's loop runs. It is asked about every third of the TTL,
	// and must answer by then. A coordinator that is not alive does not count as healthy, and does
	// not go on leading. Default always.
	Alive func(ctx context.Context) error
	// Prepared says whether the coordinator could serve as soon as it leads. If not, it lets others
	// try first when a leader has gone. Default always.
	Prepared func() bool
	// StoreID is the store that this coordinator would lead on. It campaigns only if the others
	// have the same, see ClaimStore. Default: the store is not compared.
	StoreID string
	// ClusterID is what ClusterID said, or what the store remembers of it. If Consul has lost it,
	// a candidate puts it back. Default: it is not put back.
	ClusterID string
	// Replaces are the ids of stores that this one has taken the place of, for Consul's catalog.
	Replaces []string
	// Meta is said in Consul's catalog, such as the version.
	Meta map[string]string
	Log  *slog.Logger
}

// ConsulElection is the election among coordinators that share a Consul. It registers the
// coordinator there as well: the health check of the registration is what the session of the
// election is bound to.
type ConsulElection struct {
	client       *consul.Client
	options      Options
	registration *consul.Registration
	rivals       *consul.Rivals

	mu      sync.Mutex  // guards what follows
	term    *consulTerm // from the acquired key to Resign
	reading reading
	changed chan struct{} // closed when either changes
	others  bool          // another one has held the key since this one let others go first
	led     bool          // a campaign was won before
	last    string        // the session of the last term
	claimed bool          // the cluster's store was this coordinator's before
	yields  bool          // another cluster has the name of the service
	fault   error         // why Consul did not answer the last time; nil: it did
	asOf    time.Time     // of Consul's last answer
	// patience is how long a call of the election may take; see firstPatience.
	patience time.Duration

	doubts   consul.FailureLog // about the term
	renewals consul.FailureLog // of its session
	// nonsense and intruders bound the lines about values that others write into the key: they may
	// write all the time.
	nonsense, intruders rate.Sometimes
	// loggedVersion is the version of the key that was logged; the watch's own.
	loggedVersion uint64
}

// reading is what the key said last.
type reading struct {
	known   bool   // it was read
	refusal error  // why it was not read, as long as it never was
	holder  string // the session that holds it; empty: none
	id      string // the holder, as it says
	leader  Leader // who the holder says it is
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Consul returns the election among the coordinators that have the same cluster in the same
// Consul. It does nothing until Run. The error is a *consul.ConfigError or a *discovery.URLError.
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

// Run does the election's work, and keeps the coordinator registered, until the context ends: then
// a term that goes on is over, and the coordinator deregistered. It returns the context's error.
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

// Peers is how many other coordinators of the cluster are healthy, as far as is known.
func (e *ConsulElection) Peers() int { return e.rivals.Peers() }

// Leader implements Election. If Consul is away, the last known leader stays known.
func (e *ConsulElection) Leader() (leader Leader, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	leader = e.reading.leader
	switch mine := e.term != nil && !e.term.isOver() && e.term.session == e.reading.holder; {
	case mine: // whatever others may have written into its key
		leader = Leader{URL: e.options.URL, Epoch: e.term.said.Epoch, StoreID: e.term.said.StoreID}
	case leader.URL == e.options.URL:
		leader = Leader{} // what this coordinator was before: it does not lead now
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

// isIn reports whether a key says just this.
func (a announcement) isIn(pair *api.KVPair) bool {
	var found announcement
	return json.Unmarshal(pair.Value, &found) == nil && found == a
}

// parseAnnouncement returns what a key says. Anybody who may write there can have written
// anything: it is cut, and an invalid id is left out.
func parseAnnouncement(pair *api.KVPair) (said announcement, err error) {
	if err := json.Unmarshal(pair.Value, &said); err != nil {
		// numbers stand in it whole
		return announcement{}, errors.New(discovery.Cut(err.Error(), discovery.MaxShownError))
	}
	said.ID = discovery.Cut(said.ID, maxInstance)
	if !clusterid.IsStoreID(said.StoreID) {
		said.StoreID = ""
	}
	return said, nil
}

// maxInstance is more than any coordinator's ID has: it is made of the names of a machine and of
// an address.
const maxInstance = 600

func (e *ConsulElection) watch(ctx context.Context) error {
	return e.client.Watch(ctx, consul.Watch{
		About: "watch " + e.key(), Wait: watchWait, Gap: watchGap, Hurried: e.hurried, Log: e.options.Log,
		Ask: func(options *api.QueryOptions) (*api.QueryMeta, error) {
			// Any server of Consul's may answer: if its leader hangs, a question that goes to it
			// is held, and nobody answers. A coordinator that takes the key asks the leader in any
			// case.
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
				// The answer may be older than the term. checkTerm reads the key as it is now, and
				// corrects what somebody else has written.
				bounded, cancel := e.bounded(ctx)
				defer cancel()
				e.checkTerm(bounded)
			}
			return meta, nil
		},
	})
}

// hurried reports whether a new leader must be known soon: nobody leads, this coordinator has lost
// its term, or Consul did not say.
func (e *ConsulElection) hurried() (hurried bool, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lost := e.term != nil && e.term.isOver()
	return e.reading.known && (e.fault != nil || lost || e.reading.holder == "" || e.reading.holder == e.last && e.term == nil), e.changed
}

// setAnswered notes that Consul has answered the question for the leader.
func (e *ConsulElection) setAnswered(meta *api.QueryMeta) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault, e.asOf = nil, time.Now().Add(-meta.LastContact)
}

// setUnanswered notes that Consul has not answered. A question that this coordinator has ended
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
	// firstPatience is how long one call for the election may take at first. It doubles with each
	// call that takes longer, up to the configured timeout: a server of Consul that hangs must not
	// cost all of that, and a Consul that is slow must be waited for.
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

// setPatience takes how a call of the election has ended.
func (e *ConsulElection) setPatience(err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.patience = min(2*max(firstPatience, e.patience), time.Minute)
}

const (
	// watchWait bounds for how long a connection that died without a word goes unnoticed.
	watchWait = 5 * time.Second
	// watchGap bounds what a restless key costs.
	watchGap = 20 * time.Millisecond
)

// update takes over what the key is now; nil: there is none. It returns whether that looks like
// the end of a term that goes on, or has a value that this term did not write: while an
// announcement is under way, the key still has the one before.
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

// keepRefusal keeps why the key cannot be read, as long as it never was.
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

// leaderIn returns who leads, as the key says. It returns nobody if the key says nothing of use.
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

package yarn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/providers"
)

const (
	// infoEvery is how often the provider checks that the active server is still the same. It also
	// checks after a lost connection.
	infoEvery = time.Minute
	// probeTime is each server's time to report its state while the provider looks for the active
	// one.
	probeTime = 2 * time.Second
)

// kind opens providers. Tests replace its fields.
type kind struct {
	now  func() time.Time
	dial dialer // nil: TCP
}

// Kind returns the kind of external system for YARN. Its settings are Settings and
// providers.PaceSettings.
func Kind() providers.Kind { return kind{now: time.Now} }

// Name is "yarn".
func (kind) Name() string { return "yarn" }

// Check validates the settings without looking at this machine.
func (kind) Check(given map[string]string) error {
	_, err := parseSettings(given)
	return err
}

// Files returns the settings that hold paths.
func (kind) Files() []string {
	return providers.FileSettings(Settings())
}

// Open reads the files and makes no network call. It watches the files of passwords, keys and
// certificates for changes, but not the site: another address may be another cluster.
func (k kind) Open(_ string, given map[string]string) (providers.Provider, error) {
	s, err := parseSettings(given)
	if err != nil {
		return nil, err
	}
	if s.site != "" {
		if err := s.readSite(); err != nil {
			return nil, err
		}
	}
	var trust *credential.Client
	for _, at := range s.addresses {
		if at.url.Scheme == "https" && trust == nil {
			if trust, err = openTrust(s, k.now); err != nil {
				return nil, err
			}
		}
	}
	identity, err := openAuthenticator(s, k.now)
	if err != nil {
		return nil, err
	}
	through, err := openProxy(s, k.now)
	if err != nil {
		identity.close()
		return nil, err
	}
	p := &Provider{settings: s, now: k.now, identity: identity, answers: map[string]answered{}, budget: newRequestBudget(s.requests)}
	for _, at := range s.addresses {
		made, err := newServer(at, s, identity, trust, through, p.budget, k.dial)
		if err != nil {
			identity.close()
			return nil, err
		}
		p.servers = append(p.servers, made)
	}
	return p, nil
}

// readSite reads the addresses from the file in the setting site.
func (s *settings) readSite() error {
	wrong := func(want string) error {
		return &providers.SettingError{Setting: settingSite, Value: s.site, Want: want}
	}
	file, _, err := regularfile.Open(s.site)
	switch {
	case errors.Is(err, regularfile.ErrNotRegular):
		return wrong("a yarn-site.xml (this one is no regular file)")
	case err != nil:
		return wrong("a yarn-site.xml that can be read (this one: " + errors.Unwrap(err).Error() + ")")
	}
	defer file.Close()
	list, err := AddressesFromSite(file)
	if err != nil {
		return wrong("a yarn-site.xml with the addresses of the ResourceManagers (this one: " + err.Error() + ")")
	}
	if s.addresses, err = parseAddresses(settingSite, strings.Join(list, ",")); err != nil {
		return err
	}
	return s.checkAddresses()
}

// Provider reads one YARN cluster. It stays with the active ResourceManager until that one fails.
// Then it asks all servers for their state at once.
//
// Its methods may be called from any goroutine; Snapshot and Applications wait for one another.
type Provider struct {
	settings settings
	servers  []*server
	identity authenticator
	budget   *requestBudget
	now      func() time.Time
	closed   sync.Once

	mu sync.Mutex // guards the fields below; held during requests to the cluster
	// active is the server that answered last; nil: the next call looks for it.
	active *server
	took   time.Duration // the last reading from active; 0: it failed
	asked  time.Time     // when active last reported its state
	dials  int64         // of active, at that time
	run    serverRun
	nodes  nodesCache
	pieces piecesCache
	// answers are about the applications of the last call.
	answers map[string]answered
	// live is the number of applications that have not ended; nil: unknown. The provider requests
	// no list of them before listAgain.
	live      *int32
	listAgain time.Time
}

// Requests returns the number of requests sent so far.
func (p *Provider) Requests() int64 { return p.budget.sent.Load() }

// Snapshot reads all queues within the setting timeout and the deadline of ctx. If there are
// several servers, the last active one gets half of that time. The other half is for finding and
// reading a new active server.
func (p *Provider) Snapshot(ctx context.Context) (providers.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, p.settings.pace.Timeout)
	defer cancel()
	if p.active == nil {
		return p.findActive(within, nil)
	}
	snapshot, err := p.readActive(within)
	if err == nil {
		return snapshot, nil
	}
	last := p.active
	if !errors.Is(ctx.Err(), context.Canceled) { // a canceled caller says nothing about the server
		p.active = nil
	}
	if within.Err() != nil { // no time left: the next call looks for it first
		return snapshot, p.onlyAsked(within, last, err)
	}
	return p.findActive(within, err)
}

// readActive reads all queues from the last active server.
func (p *Provider) readActive(ctx context.Context) (providers.Snapshot, error) {
	begin := p.now()
	// A server that is slow but answers gets all of the time.
	if slow := p.took > p.settings.pace.Timeout/4; len(p.servers) > 1 && !slow {
		var cancel context.CancelFunc
		ctx, cancel = shareOf(ctx, 2)
		defer cancel()
	}
	snapshot, err := p.read(ctx, p.active, nil)
	p.took = p.now().Sub(begin)
	if err != nil {
		p.took = 0
	}
	return snapshot, err
}

// shareOf gives one of parts equal shares of the remaining time of ctx.
func shareOf(ctx context.Context, parts int) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited || parts <= 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(parts))
}

// onlyAsked makes the error for the case that only one server could be asked in time.
func (p *Provider) onlyAsked(ctx context.Context, one *server, err error) error {
	var said serversError
	for _, s := range p.servers {
		if s == one {
			said = append(said, err)
		} else {
			said = append(said, s.notAsked(ctx))
		}
	}
	return &providers.UnavailableError{Answered: len(said) > 1 || gaveAnswer(err), Err: said}
}

// read reads all queues from a server that counts as active. known is the state that it just
// reported; nil: read asks for it if that is due. The error is a *ServerError.
func (p *Provider) read(ctx context.Context, from *server, known *clusterInfo) (providers.Snapshot, error) {
	var none providers.Snapshot
	if known == nil && (p.now().Sub(p.asked) >= infoEvery || from.dials.Load() != p.dials) {
		info, err := p.queryInfo(ctx, from)
		if err != nil {
			return none, err
		}
		known = &info
	}
	dials := from.dials.Load()
	scheduler, err := from.scheduler(ctx)
	if err != nil {
		return none, err
	}
	if known == nil && from.dials.Load() != dials {
		// The connection was lost, so the server may have restarted before it answered. The answer
		// is only valid if it belongs to the same run.
		info, err := p.queryInfo(ctx, from)
		if err != nil {
			return none, err
		}
		if known = &info; from.incarnation(info) != p.run.incarnation {
			if scheduler, err = from.scheduler(ctx); err != nil {
				return none, err
			}
		}
	}
	if known != nil {
		p.setActive(from, *known)
	}
	scheduler.Assume = p.settings.assume
	sized, err := p.size(ctx, from, scheduler)
	if err != nil {
		return none, err
	}
	queues := scheduler.Queues(sized.totals)
	p.live = liveApplications(queues)
	p.addHeldBack(ctx, from, scheduler, queues)
	return providers.Snapshot{
		Server:      from.String(),
		Incarnation: p.run.incarnation,
		Untrusted:   p.run.untrusted(sized, p.now()),
		Doubts:      strings.Join(slices.DeleteFunc([]string{scheduler.Doubts(), scheduler.outgrown(queues)}, func(s string) bool { return s == "" }), "; "),
		Queues:      queues,

		Unaddressable: scheduler.Unaddressable, MoreUnaddressable: scheduler.MoreUnaddressable,
	}, nil
}

// liveApplications returns the number of applications in the root queue; nil: not in the answer.
func liveApplications(queues []providers.Queue) *int32 {
	for i := range queues {
		if queues[i].Parent == "" {
			return queues[i].Applications
		}
	}
	return nil
}

// queryInfo asks a server for its state, and returns an error if it is not active. The error is a
// *ServerError.
func (p *Provider) queryInfo(ctx context.Context, at *server) (clusterInfo, error) {
	info, err := at.info(ctx)
	if err == nil && !info.active() {
		err = at.notActive(info)
	}
	return info, err
}

func (s *server) notActive(info clusterInfo) *ServerError {
	return s.failed(NotInCharge, fmt.Errorf("it says that it is %s", s.forLog(strings.ToLower(info.state))))
}

// setActive stores the state that the active server reported.
func (p *Provider) setActive(from *server, info clusterInfo) {
	p.asked, p.dials = p.now(), from.dials.Load()
	if p.run.change(from.incarnation(info), p.now()) {
		p.nodes, p.pieces = nodesCache{}, piecesCache{}
		p.answers = map[string]answered{}
		p.listAgain = time.Time{}
	}
}

// Close closes connections and destroys tickets. The provider must not be used afterwards.
func (p *Provider) Close() error {
	p.closed.Do(func() {
		for _, s := range p.servers {
			s.close()
		}
		p.identity.close()
	})
	return nil
}

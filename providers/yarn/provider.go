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
	// infoEvery is how often the active server is asked whether it still is the same. It is also
	// asked after a connection was lost.
	infoEvery = time.Minute
	// probeTime is how long each server has to say what it is while the active one is looked for.
	probeTime = 2 * time.Second
)

// kind makes providers. Its fields are what tests put in the place of this machine.
type kind struct {
	now  func() time.Time
	dial dialer // nil: TCP
}

// Kind returns YARN as a kind of external system. Its settings are Settings and those of a pace.
func Kind() providers.Kind { return kind{now: time.Now} }

// Name is "yarn".
func (kind) Name() string { return "yarn" }

// Check looks at settings alone.
func (kind) Check(given map[string]string) error {
	_, err := parseSettings(given)
	return err
}

// Files are the settings that are paths.
func (kind) Files() []string {
	return providers.FileSettings(Settings())
}

// Open reads the files and makes no call. Those of passwords, keys and certificates are read again
// when they change; a site is not, since another address may be another cluster.
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

// readSite takes the addresses from the file that the settings name.
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

// Provider reads one YARN cluster. It keeps to the ResourceManager that was active last, until
// that one fails. Then it asks all of them at once what they are.
//
// Its methods may be called from any goroutine; Snapshot and Applications wait for one another.
type Provider struct {
	settings settings
	servers  []*server
	identity authenticator
	budget   *requestBudget
	now      func() time.Time
	closed   sync.Once

	mu sync.Mutex // guards all below; held while the cluster is asked
	// active is the server that answered last; nil: look for it.
	active *server
	took   time.Duration // to read active the last time; 0: it failed
	asked  time.Time     // when active was last asked what it is
	dials  int64         // of active, when it was last asked that
	run    serverRun
	nodes  nodesCache
	pieces piecesCache
	// answers are of applications that were asked for by the last call.
	answers map[string]answered
	// live is how many applications of the cluster have not ended; nil: it did not say. listAgain
	// is when a list of them may be asked for.
	live      *int32
	listAgain time.Time
}

// Requests is how many requests were sent so far.
func (p *Provider) Requests() int64 { return p.budget.sent.Load() }

// Snapshot reads all queues, in as much time as the setting timeout says and ctx allows. If there
// are other servers, the one that was active last gets half of it, so that one of them can be found
// and read in the other half.
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
	if !errors.Is(ctx.Err(), context.Canceled) { // else the caller has gone: that says nothing of the server
		p.active = nil
	}
	if within.Err() != nil { // no time is left: the next call begins with looking for it
		return snapshot, p.onlyAsked(within, last, err)
	}
	return p.findActive(within, err)
}

// readActive reads all queues from the server that was active last.
func (p *Provider) readActive(ctx context.Context) (providers.Snapshot, error) {
	begin := p.now()
	// One that is slow and answers is given the time that it needs.
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

// shareOf leaves an equal part of the time that ctx has to each of so many.
func shareOf(ctx context.Context, parts int) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited || parts <= 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(parts))
}

// onlyAsked is what is wrong if there was only time to ask one server.
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

// read reads all queues from a server that counts as the active one. known is what it just said of
// itself; nil: ask, when it is time. The error is a *ServerError.
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
		// The connection was lost, so the server may have been restarted before it answered: it is
		// asked whether it was, and what it said could be of the run before.
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

// liveApplications is how many applications the root has; nil: the answer does not say.
func liveApplications(queues []providers.Queue) *int32 {
	for i := range queues {
		if queues[i].Parent == "" {
			return queues[i].Applications
		}
	}
	return nil
}

// queryInfo asks a server what it is, and takes nothing but the active one. The error is a
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

// setActive keeps what the active server said of itself.
func (p *Provider) setActive(from *server, info clusterInfo) {
	p.asked, p.dials = p.now(), from.dials.Load()
	if p.run.change(from.incarnation(info), p.now()) {
		p.nodes, p.pieces = nodesCache{}, piecesCache{}
		p.answers = map[string]answered{}
		p.listAgain = time.Time{}
	}
}

// Close ends connections and forgets tickets. The provider must not be used any longer.
func (p *Provider) Close() error {
	p.closed.Do(func() {
		for _, s := range p.servers {
			s.close()
		}
		p.identity.close()
	})
	return nil
}

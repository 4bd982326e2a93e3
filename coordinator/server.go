package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/clusters"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/coordinator/launches"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/tracing"
	"github.com/bursar/bursar/providers"
)

// Dependencies are the caller's parts of a Server.
type Dependencies struct {
	// Store keeps the rows. The Server closes it.
	Store store.Store
	// Elect makes the coordinator's participation in an election. The Server runs it. Nil: the
	// coordinator is alone, and does not start if it cannot lead.
	Elect func(self Self) (election.Election, error)
	// Logger takes the log. Nil: nothing is logged.
	Logger *slog.Logger
	// Kinds are the kinds of external clusters that the Server can read.
	Kinds providers.Kinds
	// Registry takes the metrics, which /metrics then serves. Nil: a new registry, with the metrics
	// of the process and the runtime.
	Registry *prometheus.Registry
	// Clock tells the time. Nil: SystemClock.
	Clock core.Clock
	// Version is the version in Status.
	Version string
	// LocalMayLaunch are accounts for engines that callers of this machine launch if no identities
	// are configured. Root and the coordinator's own user may launch as any of them, another user
	// only as their own account if it is one of them. No settings of a coordinator allow that.
	LocalMayLaunch []string
	// Tracing takes traces of calls. Its maker closes it. Nil: no traces.
	Tracing *tracing.Tracing
}

// Self is a coordinator as an election sees it.
type Self struct {
	// URL is where others reach it.
	URL string
	// Alive reports whether the coordinator's loop runs. Without it the coordinator must not lead.
	Alive func(context.Context) error
	// Mismatch receives the reason why the coordinator's store keeps it from the election, and nil
	// once it may stand. Until then it is not ready.
	Mismatch func(error)
	// Shared receives the fault that another cluster's coordinators use this one's service name,
	// and whether this one must not serve meanwhile. It receives nil once that has ended.
	Shared func(err error, yields bool)
	// Prepared reports whether the coordinator could serve as soon as it leads. If not, others go
	// first.
	Prepared func() bool
}

// Server is a coordinator. Make it with New, then call Run, or Serve with a listener of your own,
// once.
type Server struct {
	config    Config
	running   Config // with the reloaded settings; only Reload uses it
	log       *slog.Logger
	store     store.Store
	registry  *prometheus.Registry
	metrics   *commit.Metrics
	feed      *commit.ChangeFeed
	core      *core.Core
	newPlacer func() ledger.Placer
	loop      *commit.Loop
	files     *quotaFiles
	pollers   *clusters.Pollers
	hub       *orders.Hub
	launcher  *launches.Launcher
	signals   *orders.Signals
	readers   *outputs.Readers
	clock     core.Steady
	timeouts  auth.Timeouts
	handler   http.Handler
	elect     func(Self) (election.Election, error)
	peers     *forward.Peers
	trust     *trust
	mismatch  *mismatch
	guard     *clusterid.Guard
	shared    *sharedService
	consul    *consulState
	seen      *sightings
	reached   reached
	tracing   *tracing.Tracing
	audit     *auth.AuditLog
	limits    *auth.Limits

	fatal  chan error     // holds one error, with which it cannot go on
	ready  chan struct{}  // closed when calls are taken
	calls  atomic.Int64   // under way
	tasks  sync.WaitGroup // background goroutines
	cancel context.CancelFunc

	mu      sync.Mutex
	address string // guarded by mu: where it is served
	url     string // guarded by mu: where others reach it
}

// New makes a coordinator. It starts nothing. Errors are *ConfigError, and *label.FieldError of the
// label rules. After an error the caller still owns the store; otherwise the server owns it.
func New(config Config, deps Dependencies) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.WithDefaults()
	labels, err := config.Labels.Compile()
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	if err := labels.Restrict(config.KnownLabels); err != nil {
		return nil, err
	}
	policy, err := placement.PolicyFromString(config.Placement)
	if err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	trust, err := openTrust(&config, deps.Logger)
	if err != nil {
		return nil, err
	}
	if deps.Elect != nil {
		if err := trust.checkPeers(config.advertised(config.Listen)); err != nil {
			return nil, err
		}
	}
	if deps.Clock == nil {
		deps.Clock = SystemClock()
	}
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
		deps.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	s := &Server{
		config: config, running: config, log: deps.Logger, store: deps.Store, registry: deps.Registry,
		metrics: commit.NewMetrics(deps.Registry), feed: commit.NewChangeFeed(config.Limits.WatchEvents, int(config.Limits.WatchBytes)), clock: core.NewSteady(deps.Clock),
		trust: trust, tracing: deps.Tracing, audit: newAuditLog(config.AuditLog, deps.Logger, deps.Registry),
		limits:   newLimits(&config.Limits, deps.Registry, deps.Logger),
		timeouts: defaultTimeouts(), elect: deps.Elect, fatal: make(chan error, 1), ready: make(chan struct{}),
	}
	s.mismatch = newMismatch(deps.Registry)
	s.guard = clusterid.NewGuard(config.Cluster, config.ReplacesStores)
	registerGuard(deps.Registry, s.guard)
	s.shared = newSharedService(deps.Registry)
	s.consul = newConsulState(deps.Registry)
	s.seen = newSightings()
	s.newPlacer = func() ledger.Placer { return placement.New(policy) }
	s.core = core.NewCore(config.ledger(deps.Kinds), func() ledger.Placer { return s.newPlacer() }, core.DrawLeadership)
	s.core.SetVersion(deps.Version)
	s.files = newQuotaFiles(config.QuotaFiles, labels, s.metrics, s.log)
	s.loop = commit.New(s.core, commit.Options{
		Store: s.store, Clock: s.clock, Feed: s.feed, Metrics: s.metrics, Spans: commit.NewTracer(s.tracing), Log: s.log,
		Queue: config.Limits.Queue, Batch: config.Limits.Batch, CommitTimeout: config.Limits.CommitTimeout,
		Remember: config.Times.RequestRetention, History: config.History.bounds(), Origin: originOf, Owner: ownerOf, Parked: auth.Parked, Resumed: auth.Resumed,
		Rules: s.files.latest, ClustersChanged: func() { s.pollers.Changed() },
	})
	s.readers = outputs.New(config.Output.rates())
	s.makeOrders()
	s.pollers = clusters.New(s.loop, deps.Kinds, clusters.Credentials(config.ProviderCredentials), rand.Float64, clusters.NewMetrics(deps.Registry), s.log)
	peers := trust.peersOptions(s.log, s.tracing.Clients())
	peers.Own = s.guard.Own
	peers.Unled = func() error {
		if err := s.shared.refusal(); err != nil {
			return err
		}
		return s.unled()
	}
	s.peers = forward.NewPeers(peers)
	deps.Registry.MustRegister(newLedgerCollector(s.loop, config.Limits.MetricAccounts))
	s.handler = s.routes(labels, deps.Version, deps.LocalMayLaunch)
	return s, nil
}

// makeOrders makes the parts that send orders to agents.
func (s *Server) makeOrders() {
	s.hub = orders.New()
	s.signals, s.launcher = orders.NewSignals(s.hub), launches.New(s.loop, s.store, s.hub, s.log)
}

// Handler serves the coordinator's calls, for an agent in the same process and for tests. Calls get
// UNAVAILABLE until the server is ready and after it has stopped.
func (s *Server) Handler() http.Handler { return s.handler }

// Ready is closed once the coordinator serves, and also leads if it is alone.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Address returns the served address as HOST:PORT; empty before Ready.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// URL returns the URL at which others reach it; empty before it serves.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Run listens on the configured address and serves until ctx ends, then shuts down in order. It
// returns nil after an orderly end. An error before Ready refuses the start and names the fault: of
// the address, the store, a quota file.
func (s *Server) Run(ctx context.Context) error {
	var config net.ListenConfig // keep-alives find connections whose other end is gone
	listener, err := config.Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), s.store.Close())
	}
	return s.Serve(ctx, listener)
}

// Serve is Run with a listener, which it closes. It does not check whether only local callers can
// reach the listener. If the listener has a method Take() error, another server still uses its
// address. Serve calls Take once it can answer calls.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.mu.Lock()
	s.address = listener.Addr().String()
	s.url = s.config.advertised(s.address)
	s.mu.Unlock()
	if err := openAuditLog(s.audit, s.config.AuditLog); err != nil {
		return errors.Join(err, listener.Close(), s.store.Close())
	}
	defer s.audit.Close()
	if err := s.start(ctx); err != nil {
		return errors.Join(err, listener.Close(), s.store.Close())
	}
	server := s.httpServer()
	if reserved, ok := listener.(interface{ Take() error }); ok {
		if err := reserved.Take(); err != nil {
			return errors.Join(err, s.shutDown(server), listener.Close()) //nolint:contextcheck // as below
		}
	}
	if s.trust.tls != nil {
		listener = s.limits.Connections.ListenSecured(listener, s.trust.tls.Config())
	} else {
		listener = s.limits.Connections.Listen(listener)
	}
	for _, lax := range s.trust.insecureWarnings() {
		s.log.Warn(lax)
	}
	failed := make(chan error, 1)
	s.tasks.Go(func() { failed <- server.Serve(listener) })
	s.log.Info("serving", "address", s.Address(), "url", s.URL(), "tls", s.trust.tls != nil, "insecure", s.config.Insecure)
	close(s.ready)

	var err error
	select {
	case <-ctx.Done():
		s.log.Info("shutting down")
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	case err = <-s.fatal:
	}
	return errors.Join(err, s.shutDown(server)) //nolint:contextcheck // the caller's has ended: that is why
}

// start starts the background goroutines. A coordinator that is alone leads when it returns.
func (s *Server) start(ctx context.Context) error {
	sets, err := s.files.start()
	if err != nil {
		return err
	}
	for _, f := range s.files.files {
		s.files.setDoubts(f)
	}
	if err := s.core.SetQuotaFiles(0, sets); err != nil {
		return err
	}
	configured, err := readProviders(s.config.ProvidersFile, s.pollers.Kinds)
	if err != nil {
		return err
	}
	s.loop.Configure(configured)
	meta, err := s.store.Meta(ctx)
	if err != nil {
		return err
	}
	s.guard.SetStore(meta.StoreID)
	elect := s.elect
	if elect == nil {
		elect = func(Self) (election.Election, error) { return election.Alone(s.URL), nil }
	}
	elected, err := elect(Self{URL: s.URL(), Alive: s.loop.Alive, Mismatch: s.mismatch.set, Shared: s.shared.set, Prepared: s.loop.Prepared})
	if err != nil {
		return err
	}
	campaign := &commit.Campaign{Election: elected, Loop: s.loop, Announced: s.peers.Epochs, Unreached: s.reached.unreached, Log: s.log}
	s.reached.watch(elected)
	s.consul.watch(elected)
	s.peers.Join(elected, s.URL())
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	first := make(chan error, 1)
	s.tasks.Go(s.loop.Run)
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	s.tasks.Go(func() { _ = elected.Run(electing) }) // it ends with its context
	s.tasks.Go(func() {
		defer stopElecting() // after the lead was handed over
		if err := campaign.Run(background, first); err != nil {
			s.fatal <- err
		}
	})
	s.tasks.Go(func() { s.peers.Follow(background) })
	s.tasks.Go(func() { s.pollers.Run(background) })
	if s.elect == nil {
		if err := <-first; err != nil {
			s.loop.Stop()
			cancel()
			s.tasks.Wait()
			return err
		}
	}
	s.tasks.Go(func() { s.loop.KeepHistory(background) })
	s.tasks.Go(func() { s.launcher.Run(background) })
	s.tasks.Go(func() { commit.AuditRegularly(background, s.loop) })
	if s.trust.identities != nil {
		s.tasks.Go(func() { s.trust.identities.Watch(background, identitiesPoll) })
	}
	s.tasks.Go(func() { s.files.watch(background, s.config.QuotaPoll, s.loop) })
	return nil
}

// httpServer makes a server that bounds the cost of misbehaving connections.
func (s *Server) httpServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // over TLS too: see admission.ListenSecured
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.calls.Add(1)
			defer s.calls.Add(-1)
			r, ended := s.limits.Connections.Start(r)
			defer ended()
			s.handler.ServeHTTP(w, r)
		}),
		Protocols:         protocols,
		ConnContext:       s.limits.ConnContext,
		ConnState:         s.limits.Connections.State,
		ReadHeaderTimeout: s.timeouts.Header,
		IdleTimeout:       s.timeouts.Idle,
		MaxHeaderBytes:    auth.HeaderBytes,
		HTTP2: &http.HTTP2Config{
			// Agents and gateways keep many calls waiting on one connection.
			MaxConcurrentStreams: s.limits.CallerCalls,
			// Each connection keeps a buffer for the largest frame that it has had.
			MaxReadFrameSize: 16 << 10,
			// The bytes that a connection may send before the server reads them.
			MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 256 << 10,
			// A connection that is silent for so long gets a ping, and is closed if it does not
			// answer.
			SendPingTimeout: 15 * time.Second,
			PingTimeout:     15 * time.Second,
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// endCalls waits for the calls under way and closes the connections. If an HTTP/2 connection
// arrives while the server begins to shut down, net/http does not notify it, and then waits for it.
// endCalls does not wait for a connection without a call under way.
func (s *Server) endCalls(ctx context.Context, server *http.Server) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown(ctx) }()
	const look, enough = 100 * time.Millisecond, 10
	tick := time.NewTicker(look)
	defer tick.Stop()
	for quiet := 0; ; {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		}
		if quiet++; s.calls.Load() > 0 {
			quiet = 0
		}
		if quiet == enough {
			_ = server.Close() // no call is under way on them
			return <-ended
		}
	}
}

// shutDown ends everything in order. New calls are refused, applied commands become durable and are
// answered, waiting callers are asked to retry, and the store is closed last.
func (s *Server) shutDown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Limits.Shutdown)
	defer cancel()
	s.loop.Stop()
	s.feed.Close(core.ErrStopping)
	s.readers.Close(core.ErrStopping)
	s.hub.Close(core.ErrStopping)
	s.cancel()
	var errs []error
	if err := s.endCalls(ctx, server); err != nil {
		errs = append(errs, fmt.Errorf("calls did not end in time: %w", err), server.Close())
	}
	ended := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(ended)
	}()
	// The store gets a second even if calls did not end in time.
	deadline, _ := ctx.Deadline()
	rest := time.NewTimer(max(time.Until(deadline), time.Second))
	defer rest.Stop()
	select {
	case <-ended:
	case <-rest.C:
		return errors.Join(append(errs, errors.New("the store does not answer: what was not confirmed may be lost"))...)
	}
	return errors.Join(append(errs, s.store.Close())...)
}

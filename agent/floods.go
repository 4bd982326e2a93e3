package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Defaults of CallersConfig.
const (
	DefaultCallerRate    = 50
	DefaultCallerBurst   = 200
	DefaultCallerWaiting = 64
)

const (
	// maxConns is how many connections one user may have open. Over HTTP/1.1 each request that waits has one.
	maxConns = 256
	// maxAllConns is how many all users together may have: one with a range of subordinate uids can be many users. A connection
	// takes some 20 KiB. Those of trusted callers are neither counted nor refused.
	maxAllConns = 4096
	// maxBodies is how many bytes of requests that are under way are held for one user, maxAllBodies for all: what they become when they are
	// read takes up to fourteen times as much memory. Requests have some hundred bytes; only a Launch with a large environment has more.
	maxBodies    = 4 << 20
	maxAllBodies = 16 << 20
	// maxUsers is how many users are told apart; more share one account, for the same reason.
	maxUsers = 1024
	// heldFor is how long the refusal of a request is held back, so that whoever asks again at once costs little; maxHeld is of how many
	// of a user's. The others are answered at once, and cost no memory.
	heldFor = 50 * time.Millisecond
	maxHeld = maxConns
	// forgetEvery is how often a full table of users is looked through.
	forgetEvery = time.Second
	// toldEvery is how often a user's refusals are logged: who floods the agent must not flood the log.
	toldEvery = time.Minute
)

// The reasons for which a caller is refused, as the metric has them.
const (
	tooFast        = "rate"
	tooManyCalls   = "calls"
	tooManyWaiting = "waiting"
	tooManyConns   = "connections"
	tooManyBytes   = "bytes"
)

// floods keeps one user of the machine from taking the agent away from the others. All methods may be called by any goroutine.
type floods struct {
	now     func() time.Time
	log     *slog.Logger
	refused *prometheus.CounterVec // by reason

	mu       sync.Mutex
	limits   CallersConfig           // guarded by mu
	users    map[uint32]*consumption // guarded by mu; by uid
	rest     *consumption            // guarded by mu; of those for whom users has no place
	loopback *consumption            // guarded by mu; of all that call over TCP
	conns    int                     // guarded by mu; of all users
	bodies   int                     // guarded by mu; bytes of all users
	forgot   time.Time               // guarded by mu; when users was last looked through
}

// consumption is what one user takes. It is guarded by the lock of floods.
type consumption struct {
	name    string
	limiter *rate.Limiter
	calls   int // under way
	waiting int // of these, those that may take long
	conns   int
	bodies  int       // bytes of requests that are under way
	held    int       // refusals that are held back
	told    time.Time // when a refusal was last logged
}

func newFloods(limits CallersConfig, registry prometheus.Registerer, log *slog.Logger) (*floods, error) {
	f := &floods{now: time.Now, log: log, limits: limits, users: make(map[uint32]*consumption)}
	f.rest, f.loopback = f.consumer("others"), f.consumer("local")
	f.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "bursar", Subsystem: "agent", Name: "refused_callers_total",
		Help: "Requests and connections refused because one user had too many.",
	}, []string{"reason"})
	for _, reason := range []string{tooFast, tooManyCalls, tooManyWaiting, tooManyConns, tooManyBytes} {
		f.refused.WithLabelValues(reason)
	}
	if err := registry.Register(f.refused); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return f, nil
}

func (f *floods) consumer(name string) *consumption {
	return &consumption{name: name, limiter: rate.NewLimiter(rate.Limit(f.limits.Rate), f.limits.Burst)}
}

// limit replaces the limits, of everybody.
func (f *floods) limit(limits CallersConfig) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limits = limits
	now := f.now()
	set := func(u *consumption) {
		u.limiter.SetLimitAt(now, rate.Limit(limits.Rate))
		u.limiter.SetBurstAt(now, limits.Burst)
	}
	set(f.rest)
	set(f.loopback)
	for _, u := range f.users {
		set(u)
	}
}

// ofLocked is what a caller's consumption is counted on; nil: it is trusted, and nothing is counted.
func (f *floods) ofLocked(c *caller) *consumption {
	switch {
	case c == nil || c.tcp:
		return f.loopback
	case c.trusted:
		return nil
	}
	if u := f.users[c.uid]; u != nil {
		return u
	}
	if now := f.now(); len(f.users) >= maxUsers && now.Sub(f.forgot) >= forgetEvery {
		f.forgot = now
		f.forgetLocked()
	}
	if len(f.users) >= maxUsers {
		return f.rest
	}
	u := f.consumer(c.actor.Name)
	f.users[c.uid] = u
	return u
}

// forgetLocked drops those who would be met as if they had never been here.
func (f *floods) forgetLocked() {
	now := f.now()
	for uid, u := range f.users {
		if u.calls+u.conns+u.bodies+u.held == 0 && u.limiter.TokensAt(now) >= float64(f.limits.Burst) {
			delete(f.users, uid)
		}
	}
}

// connect counts a connection of a caller, and returns what ends it; nil: it is refused.
func (f *floods) connect(c *caller) (closed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.ofLocked(c)
	if u == nil {
		return func() {}
	}
	if u.conns >= maxConns || f.conns >= maxAllConns {
		_ = f.refuseLocked(u, tooManyConns, "connections", u.conns)
		return nil
	}
	u.conns++
	f.conns++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		u.conns--
		f.conns--
	})
}

// begin counts a request of a caller, and returns what ends it, or an error that refuses it.
func (f *floods) begin(c *caller) (ended func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.ofLocked(c)
	switch {
	case u == nil:
		return func() {}, nil
	case u.calls >= f.limits.Burst+f.limits.Waiting:
		return nil, f.refuseLocked(u, tooManyCalls, "requests under way", u.calls)
	case !u.limiter.AllowN(f.now(), 1):
		return nil, f.refuseLocked(u, tooFast, "requests a second", f.limits.Rate)
	}
	u.calls++
	return f.less(&u.calls), nil
}

// wait counts a call of a caller that may take long: a request that waits for resources, or a watch.
func (f *floods) wait(c *caller) (ended func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.ofLocked(c)
	switch {
	case u == nil:
		return func() {}, nil
	case u.waiting >= f.limits.Waiting:
		return nil, f.refuseLocked(u, tooManyWaiting, "requests that wait, and watches", u.waiting)
	}
	u.waiting++
	return f.less(&u.waiting), nil
}

// intake counts what is read of one request.
type intake struct {
	floods *floods
	user   *consumption // nil: nothing is counted
	bytes  int          // guarded by the lock of floods
}

func (f *floods) intake(c *caller) *intake {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &intake{floods: f, user: f.ofLocked(c)}
}

// take counts bytes that were read, or refuses them.
func (i *intake) take(n int) error {
	f := i.floods
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case i.user == nil:
		return nil
	case i.user.bodies+n > maxBodies || f.bodies+n > maxAllBodies:
		return f.refuseLocked(i.user, tooManyBytes, "bytes of requests at a time", maxBodies)
	}
	i.bytes += n
	i.user.bodies += n
	f.bodies += n
	return nil
}

// end gives back what was counted.
func (i *intake) end() {
	f := i.floods
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.user != nil {
		i.user.bodies -= i.bytes
		f.bodies -= i.bytes
		i.bytes = 0
	}
}

// hold holds the refusal of a request back for a moment.
func (f *floods) hold(ctx context.Context, c *caller) {
	f.mu.Lock()
	u := f.ofLocked(c)
	if u == nil || u.held >= maxHeld {
		f.mu.Unlock()
		return
	}
	u.held++
	f.mu.Unlock()
	sleep(ctx, heldFor)
	f.less(&u.held)()
}

func (f *floods) less(count *int) func() {
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		*count--
	}
}

// refuseLocked says that a user has too many of something.
func (f *floods) refuseLocked(u *consumption, reason, what string, limit int) error {
	f.refused.WithLabelValues(reason).Inc()
	if now := f.now(); u.told.IsZero() || now.Sub(u.told) >= toldEvery {
		u.told = now
		f.log.Warn("a user is refused for having too many", "user", u.name, "of", what, "limit", limit)
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("too many requests: %s may have %d %s on this host: try again later", u.name, limit, what))
}

// refuse answers a request that was refused, in the protocol that it came in.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		_ = writer.Write(w, r, err) // whoever asked has gone
		return
	}
	if refused, ok := errors.AsType[*connect.Error](err); ok {
		err = errors.New(refused.Message())
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// checkCallers fills in and checks the limits.
func (s *settings) checkCallers() error {
	c := &s.Callers
	c.Rate, c.Burst, c.Waiting = orDefault(c.Rate, DefaultCallerRate), orDefault(c.Burst, DefaultCallerBurst), orDefault(c.Waiting, DefaultCallerWaiting)
	for _, limit := range []struct {
		field string
		value int
	}{{"callers.rate", c.Rate}, {"callers.burst", c.Burst}, {"callers.waiting", c.Waiting}} {
		if limit.value < 1 || limit.value > 1_000_000 {
			return &ConfigError{limit.field, fmt.Sprint(limit.value), "1 to 1000000"}
		}
	}
	return nil
}

package admission

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Caller identifies an account. The zero value counts nothing.
type Caller struct {
	// ID is unique.
	ID string
	// Name is for logs and refusals.
	Name string
}

// counted reports whether the caller is counted.
func (c Caller) counted() bool { return c.ID != "" }

// Limits bound the use of one caller, and of all callers together. Zero is no bound.
type Limits struct {
	// Rate is how many requests a second a caller may make in the long run, and Burst how many of
	// them may come at once. Requests that confirm or give back a grant have a second rate and
	// burst of the same size.
	Rate, Burst int
	// Connects is how many connections a second a caller may open in the long run, and ConnectBurst
	// how many of them may come at once.
	Connects, ConnectBurst int
	// Calls is how many requests may be in flight.
	Calls, AllCalls int
	// Waiting is how many of these may wait for resources, which takes long.
	Waiting, AllWaiting int
	// Streams is how many of these may be streams.
	Streams, AllStreams int
	// Sends is how many messages a second the streams of one caller may send together. Messages
	// beyond wait.
	Sends int
	// Bytes is how many bytes of requests in flight may be held.
	Bytes, AllBytes int
	// Answers is how many bytes of answers may be held until they are sent. One answer of any size
	// is always held.
	Answers, AllAnswers int
}

const (
	// maxCallers is how many callers have an account of their own. All others share one account. A
	// caller with a range of subordinate uids can be many callers.
	maxCallers = 4096
	// forgetEvery is how often a full table of callers is swept.
	forgetEvery = time.Second
)

// Controller admits and refuses requests. Make it with New.
type Controller struct {
	now     func() time.Time
	log     *slog.Logger
	refused *prometheus.CounterVec // by reason
	setting map[string]string      // by reason

	mu         sync.Mutex
	limits     Limits              // guarded by mu
	accounts   map[string]*account // guarded by mu; by the caller's ID
	others     *account            // guarded by mu; of callers that find accounts full
	all        usage               // guarded by mu
	refusalLog refusalLog          // guarded by mu
	forgot     time.Time           // guarded by mu; when accounts was last swept
}

// usage is the use of one caller, or of all. It is guarded by the lock of the controller.
type usage struct {
	calls, waiting, streams, bytes, answers int
}

// account is the use of one caller. It is guarded by the lock of the controller.
type account struct {
	usage
	Caller

	requests *pace // nil: no bound
	// followUps is the second rate, for requests that confirm or give back a grant; nil: no bound.
	followUps *pace
	connects  *pace // nil: no bound
	sends     *pace // nil: no bound
}

// Options are the outputs of a Controller and its clock.
type Options struct {
	// Refused counts refusals by the label "reason".
	Refused *prometheus.CounterVec
	// Settings maps the reason of a refusal to the name of the setting of its limit. The refusal
	// names the setting. Limits without a setting are fixed.
	Settings map[string]string
	// Log gets a line when a caller is refused.
	Log *slog.Logger
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

// New returns a controller without calls.
func New(limits Limits, options Options) *Controller {
	c := &Controller{now: options.Now, log: options.Log, refused: options.Refused, setting: options.Settings, limits: limits, accounts: make(map[string]*account), refusalLog: newRefusalLog()}
	if c.now == nil {
		c.now = time.Now
	}
	c.others = c.newAccount(Caller{Name: "others"})
	for _, reason := range reasons() {
		c.refused.WithLabelValues(reason)
	}
	return c
}

func (c *Controller) newAccount(caller Caller) *account {
	a := &account{Caller: caller}
	if c.limits.Rate > 0 {
		a.requests, a.followUps = newPace(c.limits.Rate, c.limits.Burst), newPace(c.limits.Rate, c.limits.Burst)
	}
	if c.limits.Connects > 0 {
		a.connects = newPace(c.limits.Connects, c.limits.ConnectBurst)
	}
	if c.limits.Sends > 0 {
		a.sends = newPace(c.limits.Sends, c.limits.Sends)
	}
	return a
}

// SetLimits replaces the limits of all callers. A controller without a rate does not get one, and
// one with a rate keeps one.
func (c *Controller) SetLimits(limits Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = limits
	now := c.now()
	set := func(a *account) {
		a.requests.set(now, limits.Rate, limits.Burst)
		a.followUps.set(now, limits.Rate, limits.Burst)
		a.connects.set(now, limits.Connects, limits.ConnectBurst)
		a.sends.set(now, limits.Sends, limits.Sends)
	}
	set(c.others)
	for _, a := range c.accounts {
		set(a)
	}
}

// ofLocked returns the account of a caller; nil if the caller is not counted.
func (c *Controller) ofLocked(caller Caller) *account {
	if !caller.counted() {
		return nil
	}
	if a := c.accounts[caller.ID]; a != nil {
		return a
	}
	if now := c.now(); len(c.accounts) >= maxCallers && now.Sub(c.forgot) >= forgetEvery {
		c.forgot = now
		c.forgetLocked(now)
	}
	if len(c.accounts) >= maxCallers {
		return c.others
	}
	a := c.newAccount(caller)
	c.accounts[caller.ID] = a
	return a
}

// forgetLocked drops accounts without any use left.
func (c *Controller) forgetLocked(now time.Time) {
	for id, a := range c.accounts {
		if a.usage == (usage{}) && a.requests.isUnused(now) && a.followUps.isUnused(now) && a.connects.isUnused(now) && a.sends.isUnused(now) {
			delete(c.accounts, id)
		}
	}
}

// Connect counts a connection that a caller opens. It returns the delay, at most most, before the
// server may take the connection. ok is false if the server must close it. Connect takes less than
// a microsecond: a caller may connect as fast as the kernel allows.
func (c *Controller) Connect(caller Caller, most time.Duration) (after time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.ofLocked(caller)
	if a == nil {
		return 0, true
	}
	if after, ok = a.connects.reserve(c.now(), most); ok {
		return after, true
	}
	c.refused.WithLabelValues(tooManyConnects).Inc()
	if c.refusalLog.shouldLog(a.ID, c.now()) {
		c.log.Warn("connections of a caller are closed at once, because they come too fast", "caller", a.Name, "limit", c.limits.Connects, "unit", "connections a second")
	}
	return 0, false
}

// Begin counts a request of a caller. It returns the function that ends it, or an error that
// refuses it.
func (c *Controller) Begin(caller Caller) (ended func(), err error) {
	return c.begin(caller, func(a *account) *pace { return a.requests })
}

// BeginFollowUp is Begin for a request that confirms or gives back a grant. Such requests have a
// rate of their own, so that a caller that has used up its rate can still end its grants.
func (c *Controller) BeginFollowUp(caller Caller) (ended func(), err error) {
	return c.begin(caller, func(a *account) *pace { return a.followUps })
}

func (c *Controller) begin(caller Caller, pace func(*account) *pace) (ended func(), err error) {
	return c.admit(caller, bound{
		reason: TooManyCalls, what: "requests under way", pace: pace, of: func(t *usage) *int { return &t.calls },
		limit: func(l *Limits) (one, all int) { return l.Calls, l.AllCalls }, again: time.Second,
	})
}

// Wait counts a request of a caller that waits for resources.
func (c *Controller) Wait(caller Caller) (ended func(), err error) {
	return c.admit(caller, bound{
		reason: TooManyWaiting, what: "requests that wait", of: func(t *usage) *int { return &t.waiting },
		limit: func(l *Limits) (one, all int) { return l.Waiting, l.AllWaiting }, again: 5 * time.Second,
	})
}

// Stream counts a stream of a caller.
func (c *Controller) Stream(caller Caller) (ended func(), err error) {
	return c.admit(caller, bound{
		reason: tooManyStreams, what: "streams", of: func(t *usage) *int { return &t.streams },
		limit: func(l *Limits) (one, all int) { return l.Streams, l.AllStreams }, again: 5 * time.Second,
	})
}

// Answer is the counted size of one answer, from before it is made until it is sent. The zero value
// counts nothing.
type Answer struct {
	controller *Controller
	account    *account
	bytes      int // guarded by the lock of the controller
}

// Answer counts an answer of so many bytes: before it is made, its largest possible size.
func (c *Controller) Answer(caller Caller, bytes int) (*Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.ofLocked(caller)
	if a == nil {
		return new(Answer), nil
	}
	bytes = max(1, bytes)
	err := c.acquireLocked(a, bound{
		reason: tooManyAnswers, what: "bytes of answers that are being made or sent", of: func(t *usage) *int { return &t.answers },
		limit: func(l *Limits) (one, all int) { return l.Answers, l.AllAnswers }, again: time.Second, single: true,
	}, bytes)
	if err != nil {
		return nil, err
	}
	return &Answer{controller: c, account: a, bytes: bytes}, nil
}

// Resize sets the size of the answer. It refuses nothing, because the answer exists already.
func (a *Answer) Resize(bytes int) {
	if a.account == nil {
		return
	}
	a.controller.mu.Lock()
	defer a.controller.mu.Unlock()
	a.account.answers += bytes - a.bytes
	a.controller.all.answers += bytes - a.bytes
	a.bytes = bytes
}

// End stops counting the answer: it was sent, or will not be. A second call does nothing.
func (a *Answer) End() { a.Resize(0) }

// bound describes one kind of limit.
type bound struct {
	reason, what string
	of           func(*usage) *int
	limit        func(*Limits) (one, all int)
	again        time.Duration        // when there may be room
	pace         func(*account) *pace // the rate; nil: none
	single       bool                 // the first is admitted, however large
}

func (c *Controller) admit(caller Caller, b bound) (ended func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.ofLocked(caller)
	if a == nil {
		return func() {}, nil
	}
	if err := c.acquireLocked(a, b, 1); err != nil {
		return nil, err
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		*b.of(&a.usage)--
		*b.of(&c.all)--
	}, nil
}

// acquireLocked adds number to an account, or refuses it in three cases: the caller would exceed
// its limit, all callers together would exceed theirs, or the caller would have more than is left
// for the others. So a few callers that use their whole limit never use up the limit of all.
func (c *Controller) acquireLocked(a *account, b bound, number int) error {
	own, all := b.of(&a.usage), b.of(&c.all)
	one, together := b.limit(&c.limits)
	no := refusal{reason: b.reason, who: a.Name, limit: one, what: b.what, again: b.again}
	switch left := together - *all - number; {
	case one > 0 && (*own > 0 || !b.single) && *own+number > one:
		return c.refuseLocked(a, no)
	case together > 0 && (*all > 0 || !b.single) && left < 0:
		no.who, no.limit = "all callers together", together
		return c.refuseLocked(a, no)
	case together > 0 && *own > 0 && *own+number > left:
		others := *all - *own
		no.what, no.limit = fmt.Sprintf("%s, while others have %d of %d,", b.what, others, together), (together-others)/2
		return c.refuseLocked(a, no)
	}
	if b.pace != nil {
		if now := c.now(); !b.pace(a).allow(now) {
			again := b.pace(a).turn(now)
			return c.refuseLocked(a, refusal{reason: TooFast, who: a.Name, limit: c.limits.Rate, what: "requests a second", again: again})
		}
	}
	*own += number
	*all += number
	return nil
}

// Intake counts the bytes that are held of one request.
type Intake struct {
	controller *Controller
	account    *account // nil: nothing is counted
	bytes      int      // guarded by the lock of the controller
}

// Intake begins to count the bytes of a request.
func (c *Controller) Intake(caller Caller) *Intake {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Intake{controller: c, account: c.ofLocked(caller)}
}

// Add counts bytes, or refuses them.
func (i *Intake) Add(n int) error {
	c := i.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.account == nil {
		return nil
	}
	err := c.acquireLocked(i.account, bound{
		reason: tooManyBytes, what: "bytes of requests at a time", of: func(t *usage) *int { return &t.bytes },
		limit: func(l *Limits) (one, all int) { return l.Bytes, l.AllBytes }, again: 200 * time.Millisecond,
	}, n)
	if err == nil {
		i.bytes += n
	}
	return err
}

// End stops counting the bytes of the request.
func (i *Intake) End() {
	c := i.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.account != nil {
		i.account.bytes -= i.bytes
		c.all.bytes -= i.bytes
		i.bytes = 0
	}
}

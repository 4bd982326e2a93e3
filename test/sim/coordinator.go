package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// retention is how long request ids are remembered: longer than a world lasts.
const retention = 10 * time.Minute

// mostSkew is how far a coordinator's time of day may be off, in both directions.
const mostSkew = 200 * time.Millisecond

// times are the durations of the ledger, short enough for a world of minutes.
func times() ledger.Config {
	return ledger.Config{
		ReservationTTL: 20 * time.Second, Interval: 2 * time.Second, LostAfter: 15 * time.Second,
		StarvationAfter: 10 * time.Second, CallerGrace: 5 * time.Second, RequestRetention: retention,
		Terms: func(ledger.ProviderRecord) ledger.Terms { return ledger.Terms{UserLabel: label.User} },
	}
}

// times are the durations of the world. In a third of the worlds a batch has little room for what
// comes due or free.
func (w *World) times() ledger.Config {
	config := times()
	if w.cfg.Seed%3 == 0 && w.crowd == nil {
		config.OwnChanges = 1 + int(w.cfg.Seed/3%3)
	}
	if w.limits != nil {
		config.Terms = func(ledger.ProviderRecord) ledger.Terms { return ledger.Terms{AwaitStarts: w.awaitsStarts()} }
	}
	return config
}

// errStopping is the answer of a coordinator that shuts down.
var errStopping = errors.New("shutting down")

// coord is one coordinator's machine, and the process on it.
type coord struct {
	w      *World
	number int
	name   string
	skew   time.Duration // of its time of day
	rate   float64       // of its own clock, 1 where that is right

	cutStore, cutConsul bool
	cutPeers            []bool // by number; both ways

	// Of the process:
	core        *core.Core  // nil while it is down
	disk        store.Store // as this process has opened it
	ahead       *core.Ahead // filed from it while another one leads
	ticks       int
	incarnation int
	paused      bool
	backlog     []func() // what happens when it goes on
	stopping    bool     // it shuts down
	pumping     bool     // a look at what has gathered is due

	// Of its leaderships:
	election    *candidate
	campaigning uint64 // the session of the campaign
	term        *term  // nil: it may not lead
	leading     bool   // a Lead is under way
	leadership  uint64 // the number in the sharedStore
	atLeast     uint64
	lastEpoch   uint64 // that this process has led in
	inFlight    *inFlight
	// durable is the revision of the latest commit that it knows to have succeeded.
	durable  uint64
	covering *inFlight                 // the one whose callers are being answered
	granted  uint64                    // the last revision whose grants were checked
	audited  uint64                    // the last revision that was audited; 0: look again
	files    map[string][]ledger.Quota // the rules of files, as they were read last
	rules    rules                     // of the ledger, at the last look

	// Of the clusters, in this leadership:
	records []ledger.ProviderRecord // that are followed
	pollers []*poller
	// rounds have read the queues, and still run.
	rounds   []*round
	since    map[ledger.ClusterName]ledger.Instant // when the settings became what they are
	standing map[ledger.ClusterName]*standing
	parts    map[ledger.ID][]resource.External // of live allocations, at the last look
	line     map[string][]*core.Request        // calls that wait, by caller and request id
	ledAt    ledger.Instant
	ends     durations
	reported map[ledger.ClusterName]bool // of which there was a report
	tries    map[ledger.ID]*orderTry     // of orders
	hub      *orders.Hub                 // has the streams of agents
	hubOf    uint64                      // the leadership that they are of
	streams  map[string]*attachment      // those that it has opened and that are open, by host
}

func newCoordinator(w *World, i int) *coord {
	c := &coord{
		w: w, number: i, name: fmt.Sprintf("c%d", i+1), cutPeers: make([]bool, w.cfg.Coordinators),
		skew: w.between(0, 2*mostSkew) - mostSkew, rate: []float64{1, 1, 1.3, 0.3}[w.rng.IntN(4)],
	}
	if w.cfg.Coordinators == 1 {
		c.skew = 0
	}
	return c
}

func (c *coord) up() bool { return c.core != nil }

// instant is the time by this machine's clock.
func (c *coord) instant() ledger.Instant { return ledger.At(c.w.now.Add(c.skew)) }

func (c *coord) tellf(format string, args ...any) {
	c.w.tellf("%s: %s", c.name, fmt.Sprintf(format, args...))
}

// wake makes something happen in the process, at once or when it continues. It does nothing if
// another process has taken its place.
func (c *coord) wake(incarnation int, do func()) {
	switch {
	case c.core == nil || c.incarnation != incarnation:
	case c.paused:
		c.backlog = append(c.backlog, do)
	default:
		do()
	}
}

// then makes something happen in this process after a while.
func (c *coord) then(d time.Duration, do func()) {
	incarnation := c.incarnation
	c.w.after(d, "", func() { c.wake(incarnation, do) })
}

// boot starts the process.
func (c *coord) boot() {
	if c.up() {
		return
	}
	c.incarnation++
	c.tellf("starts")
	c.setClock()
	c.disk = c.w.store.place.Open()
	c.core = core.NewCore(c.w.times(), c.w.newPlacer, c.w.drawLeadership)
	c.paused, c.backlog, c.stopping, c.pumping = false, nil, false, false
	c.term, c.leading, c.campaigning, c.atLeast, c.lastEpoch, c.inFlight = nil, false, 0, 0, 0, nil
	c.covering = &inFlight{batch: &core.Batch{}}
	c.core.SetProviders(c.w.fixed())
	c.ahead = c.core.Ahead(c.disk, func(s *ledger.Snapshot) {
		s.Quotas = append(slices.Clone(s.Quotas), core.QuotasOfFiles(c.files)...)
		s.Providers, _ = core.WithFile(s.Providers, c.w.fixed())
	})
	c.line, c.tries, c.hub = make(map[string][]*core.Request), make(map[ledger.ID]*orderTry), orders.New()
	c.streams = make(map[string]*attachment)
	c.forgetClusters()
	c.readRules()
	c.election = &candidate{c: c, alone: len(c.w.coords) == 1}
	c.election.watch()
	c.election.campaign()
	c.tick()
}

// kill ends the process. Messages that it has sent still arrive.
func (c *coord) kill() {
	if !c.up() {
		return
	}
	c.tellf("is killed")
	c.core, c.term, c.inFlight, c.backlog = nil, nil, nil, nil
}

func (c *coord) killAndRestart() {
	if c.up() {
		c.kill()
		c.w.after(c.w.between(100*time.Millisecond, 8*time.Second), "", c.boot)
	}
}

// pause stops the process in the middle of its work. After a while it continues as if nothing had
// happened.
func (c *coord) pause(d time.Duration) {
	if !c.up() || c.paused {
		return
	}
	c.tellf("is stopped for %s", d)
	c.paused = true
	incarnation := c.incarnation
	c.w.after(d, "", func() {
		if c.incarnation == incarnation {
			c.proceed()
		}
	})
}

// proceed continues a stopped process. All that came due meanwhile happens at once, in about the
// order in which it arrived.
func (c *coord) proceed() {
	if !c.up() || !c.paused {
		return
	}
	c.tellf("goes on, %d things to do", len(c.backlog))
	list := c.backlog
	c.paused, c.backlog = false, nil
	for _, do := range list {
		c.then(c.w.between(0, 500*time.Microsecond), do)
	}
}

// hiccup may stop the process at this point: its next step happens when it continues.
func (c *coord) hiccup(where string) {
	if c.w.calm || c.w.hiccups == 0 || !c.w.chance(c.w.hiccups) {
		return
	}
	c.tellf("%s:", where)
	c.pause(c.w.drawPause())
}

// shutDown ends the process in order: waiting callers get an answer, applied changes become
// durable, the lock is released.
func (c *coord) shutDown() {
	if !c.up() || c.paused || c.stopping {
		return
	}
	c.tellf("shuts down")
	c.stopping = true
	if c.core.Leading() {
		c.core.DetachAll(c.instant(), errStopping)
	}
	c.pump()
	c.finish()
}

// finish ends a process that shuts down, as soon as nothing is left to make durable.
func (c *coord) finish() {
	if !c.stopping || c.inFlight != nil || c.core.Pending() > 0 {
		return
	}
	c.core.Drop(errStopping)
	if c.term != nil {
		c.term.resign()
	}
	c.kill()
	c.w.after(c.w.between(100*time.Millisecond, 5*time.Second), "", c.boot)
}

// tick lets timers fire.
func (c *coord) tick() {
	c.then(100*time.Millisecond, func() {
		c.advance()
		c.pump()
		c.fileAhead()
		if c.w.starts != nil {
			c.sendOrders()
		}
		c.tick()
		if c.stopping {
			c.finish()
		}
	})
}

// fileAhead follows the store every second while another one leads.
func (c *coord) fileAhead() {
	if c.ticks++; c.ticks%10 != 0 || c.core.Leading() || c.leading || !c.w.store.reaches(c) {
		return
	}
	if err := c.ahead.Follow(context.Background()); err != nil && !errors.Is(err, core.ErrBehind) {
		c.w.failf(4, "%s cannot follow the store: %v", c.name, err)
	}
}

// advance does what is due.
func (c *coord) advance() {
	if err := c.core.Advance(c.instant()); err != nil {
		c.w.failf(2, "%v", err)
		return
	}
	c.w.callers.checkGrants(c)
}

// do applies a command and starts the batch.
func (c *coord) do(command core.Command) {
	c.advance() // so that what is checked below comes from the command
	if err := c.core.Do(c.instant(), command); err != nil {
		c.w.failf(2, "%v", err)
		return
	}
	c.follow()
	c.w.callers.checkGrants(c)
	if epoch, superseded := c.core.Superseded(); superseded {
		c.atLeast = max(c.atLeast, epoch+1)
		c.tellf("an agent has seen epoch %d", epoch)
		c.abandon(core.ErrNotLeading)
	}
	c.pumpSoon()
}

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// retention is how long request ids are remembered: longer than a world lasts.
const retention = 10 * time.Minute

// times are the ledger's, short enough for a world of minutes.
func times() ledger.Config {
	return ledger.Config{
		ReservationTTL: 20 * time.Second, Interval: 2 * time.Second, LostAfter: 15 * time.Second,
		StarvationAfter: 10 * time.Second, CallerGrace: 5 * time.Second, RequestRetention: retention,
	}
}

// coord is the coordinator's process, and the store that outlives it.
type coord struct {
	w           *World
	place       *storetest.Memory
	disk        store.Store       // as this process has opened it
	core        *coordinator.Core // nil while it is down
	incarnation int
	atLeast     uint64
	lastEpoch   uint64
	flight      *coordinator.Batch
}

func newCoordinator(w *World) *coord {
	return &coord{w: w, place: storetest.NewMemory("sim")}
}

func (c *coord) up() bool { return c.core != nil }

// boot starts the process: it takes the lead and loads what is stored.
func (c *coord) boot() {
	c.incarnation++
	c.disk = c.place.Open()
	c.core = coordinator.NewCore(times(), func() ledger.Placer { return placement.New(placement.Spread) })
	if err := c.core.SetFiles(c.w.instant(), c.w.files); err != nil {
		panic(err)
	}
	c.lead()
	c.tick(c.incarnation)
}

func (c *coord) lead() {
	ctx := context.Background()
	meta, err := c.disk.Lead(ctx, c.atLeast)
	if err != nil {
		panic(err)
	}
	if meta.Epoch <= c.lastEpoch {
		c.w.failf(6, "epoch %d after %d", meta.Epoch, c.lastEpoch)
	}
	c.lastEpoch = meta.Epoch
	snapshot, err := c.disk.Load(ctx, meta.Epoch, c.w.now.Add(-retention))
	if err != nil {
		panic(err)
	}
	if err := c.core.Lead(c.w.instant(), meta, snapshot); err != nil {
		panic(err)
	}
	c.w.book.seen = c.core.Ledger().Revision()
	c.w.tellf("coordinator leads in epoch %d with %d allocations at revision %d", meta.Epoch, len(snapshot.Allocations), snapshot.Revision)
	c.w.book.checkStored(c.disk)
}

// crash kills the process. A commit that was under way may or may not have happened.
func (c *coord) crash() {
	if !c.up() {
		return
	}
	c.w.tellf("coordinator is killed")
	if c.flight != nil && c.w.chance(2) {
		err := c.store(c.flight)
		c.w.tellf("  with the commit of revision %d done: %v", c.flight.Revision, err)
	}
	c.core, c.flight = nil, nil
	c.w.after(c.w.between(100*time.Millisecond, 8*time.Second), "coordinator starts", c.boot)
}

// tick lets timers fire.
func (c *coord) tick(incarnation int) {
	c.w.after(100*time.Millisecond, "", func() {
		if c.core == nil || c.incarnation != incarnation {
			return
		}
		c.advance()
		c.pump()
		c.tick(incarnation)
	})
}

// advance does what is due.
func (c *coord) advance() {
	if err := c.core.Advance(c.w.instant()); err != nil {
		c.w.failf(2, "%v", err)
		return
	}
	c.w.book.checkGrants(c.core.Ledger())
}

// do applies a command and lets the batch go.
func (c *coord) do(command coordinator.Command) {
	c.advance() // so that what is checked below is the command's doing
	if err := c.core.Do(c.w.instant(), command); err != nil {
		c.w.failf(2, "%v", err)
		return
	}
	c.w.book.checkGrants(c.core.Ledger())
	if epoch, outdone := c.core.Outdone(); outdone {
		c.atLeast = max(c.atLeast, epoch+1)
		c.abandon(errors.New("outdone"))
	}
	c.pump()
}

// pump begins the next commit.
func (c *coord) pump() {
	if c.flight != nil || !c.up() {
		return
	}
	b := c.core.Take()
	if b == nil {
		return
	}
	c.w.book.record(b.Transitions)
	c.flight = b
	took := c.w.between(100*time.Microsecond, 10*time.Millisecond)
	if !c.w.calm && c.w.chance(100) {
		took = c.w.between(time.Second, 6*time.Second)
	}
	c.w.after(took, "", func() { c.commit(b) })
}

// commit ends a commit in one of the ways that it can end.
func (c *coord) commit(b *coordinator.Batch) {
	if c.flight != b {
		return // the process was killed meanwhile
	}
	c.flight = nil
	happens, told := true, error(nil)
	if faults := c.w.commitFaults; !c.w.calm && faults > 0 && c.w.chance(faults) {
		switch c.w.rng.IntN(3) {
		case 0:
			happens, told = false, store.ErrIO
		case 1:
			happens, told = false, store.ErrUnknownOutcome
		case 2:
			told = store.ErrUnknownOutcome
		}
		c.w.tellf("coordinator: the commit of revision %d ends with %q, done: %t", b.Revision, told, happens)
	}
	if happens {
		if err := c.store(b); err != nil {
			told = err
		}
	}
	b.Answer(told)
	if told != nil {
		c.abandon(told)
		return
	}
	c.core.Done()
	c.pump()
}

// store makes a batch durable.
func (c *coord) store(b *coordinator.Batch) error {
	err := c.disk.Commit(context.Background(), b.Batch)
	if err == nil {
		c.w.book.stored(b.Transitions)
	}
	return err
}

// abandon ends the leadership and begins a new one.
func (c *coord) abandon(err error) {
	c.core.Drop(err)
	if c.flight != nil {
		c.flight.Answer(err)
		c.flight = nil
	}
	c.lead()
}

// answerTo is what comes back of a command on an allocation.
type answerTo struct {
	allocation *bursarv1.Allocation
	err        error // of the ledger
	broken     error // nothing is known
}

// allocate serves a request.
func (c *coord) allocate(command ledger.AllocateCommand, reply func(any)) (hangUp func()) {
	ask := &coordinator.Ask{Command: command}
	ask.Done = func(err error) {
		switch {
		case err != nil:
			reply(answerTo{broken: err})
		case ask.Err != nil:
			reply(answerTo{err: ask.Err})
		case ask.Result.Ended:
			a, err := c.disk.Get(context.Background(), ask.Result.Allocation.ID)
			if err != nil {
				c.w.failf(5, "%s is remembered and not stored: %v", ask.Result.Allocation.ID, err)
				return
			}
			reply(answerTo{allocation: coordinator.AllocationMessage(&a)})
		default:
			reply(answerTo{allocation: coordinator.AllocationMessage(&ask.Result.Allocation)})
		}
	}
	c.do(ask)
	return func() { c.do(ask.Leave()) }
}

// on serves a command on one allocation.
func (c *coord) on(reply func(any), f func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error)) {
	var a ledger.Allocation
	var failed error
	c.do(&coordinator.Call{
		Do: func(l *ledger.Ledger, now ledger.Instant) { a, failed = f(l, now) },
		Done: func(err error) {
			switch {
			case err != nil:
				reply(answerTo{broken: err})
			case failed != nil:
				reply(answerTo{err: failed})
			default:
				reply(answerTo{allocation: coordinator.AllocationMessage(&a)})
			}
		},
	})
}

// register serves an agent's announcement. The answer is a *RegisterResponse, or nil.
func (c *coord) register(q *bursarv1.RegisterRequest, reply func(any)) {
	enrolment, err := coordinator.NewEnrolment(q)
	if err != nil {
		c.w.failf(8, "register: %v", err)
		return
	}
	enrolment.Done = func(err error) {
		if err == nil && enrolment.Err == nil {
			reply(enrolment.Message())
		}
	}
	c.do(enrolment)
}

// sync serves a heartbeat. The answer is a *SyncResponse, or an error.
func (c *coord) sync(q *bursarv1.SyncRequest, reply func(any)) {
	report, err := coordinator.NewReport(q)
	if err != nil {
		c.w.failf(8, "sync: %v", err)
		return
	}
	report.Done = func(err error) {
		switch {
		case err != nil:
		case report.Err != nil:
			reply(report.Err)
		default:
			reply(report.Message())
		}
	}
	c.do(report)
}

package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/turns"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// ownerOfTest is the caller that callerContext names.
func ownerOfTest(ctx context.Context) turns.Owner {
	if origin := originOfTest(ctx); origin != nil {
		return turns.Owner{Class: turns.Callers, Name: origin.Caller}
	}
	return turns.Owner{Class: turns.Hosts}
}

// countingStore is a store that counts its commits.
type countingStore struct {
	store.Store

	mu      sync.Mutex
	commits int
}

func (s *countingStore) Commit(ctx context.Context, b store.Batch) error {
	s.mu.Lock()
	s.commits++
	s.mu.Unlock()
	return s.Store.Commit(ctx, b)
}

func (s *countingStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}

// queued makes calls of callers wait, in order, while the loop is busy with another one. Each call
// takes this long. When all are answered, it returns the order of their application.
func (d *loopRig) queued(callers []string, takes time.Duration) (applied []string) {
	d.t.Helper()
	hold := make(chan struct{})
	var answered sync.WaitGroup
	call := func(of string, f func()) {
		answered.Go(func() {
			if err := d.Do(callerContext(d.t.Context(), of), func(*ledger.Ledger, ledger.Instant) { f() }); err != nil {
				d.t.Error(err)
			}
		})
		synctest.Wait()
	}
	call("first", func() { <-hold })
	for _, of := range callers {
		call(of, func() {
			applied = append(applied, of)
			time.Sleep(takes)
		})
	}
	close(hold)
	answered.Wait()
	return applied
}

func TestCallersAreServedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Owner = ownerOfTest })
		defer d.Close()
		callers := slices.Repeat([]string{"mallory"}, 50)
		callers = append(callers, "alice", "bob", "alice")
		applied := d.queued(callers, 100*time.Microsecond)
		// two of 100 µs are a turn
		if want := []string{"mallory", "mallory", "alice", "alice", "bob", "mallory"}; !slices.Equal(applied[:6], want) {
			t.Errorf("applied in the order %v …; want %v", applied[:6], want)
		}
		if len(applied) != 53 {
			t.Errorf("%d were applied; want 53", len(applied))
		}
	})
}

// slowPlacer takes so long for each choice.
type slowPlacer struct {
	ledger.Placer

	takes *atomic.Int64 // ns
}

func (p slowPlacer) Choose(q ledger.Query) ledger.Slot {
	time.Sleep(time.Duration(p.takes.Load()))
	return p.Placer.Choose(q)
}

// Before a command is applied, the ledger continues its remaining work on waiting requests. The
// caller of the command does not pay for that.
func TestWhoComesNextDoesNotPayForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := defaults(NewMemoryStore(), &wallClock{start: time.Now()})
		made.Owner = ownerOfTest
		made.Feed = NewChangeFeed(made.WatchEvents, made.WatchBytes)
		takes := new(atomic.Int64)
		slow := func() ledger.Placer { return slowPlacer{placement.New(placement.Spread), takes} }
		d := &loopRig{Loop: New(core.NewCore(made.Ledger, slow, core.DrawLeadership), made.Options), t: t}
		Lead(t, d.Loop)
		defer d.Close()
		d.Host(100)
		err := d.Do(t.Context(), func(l *ledger.Ledger, now ledger.Instant) {
			ask := func(user string, memory, cpu int64) ledger.ID {
				c := *requestOf(user, memory)
				c.Resource.Vector = c.Resource.WithCPU(cpu)
				c.Async, c.Wait = true, time.Hour
				result, err := l.Allocate(now, c)
				if err != nil {
					t.Error(err)
				}
				return result.Allocation.ID
			}
			ends := ask("runner", 20, 0)
			ask("runner", 80, 1)
			for i := range 3000 {
				ask(fmt.Sprint("u", i), 60, 0)
			}
			ask("wide", 1, 1<<30) // so that what becomes free may be enough for one of them
			takes.Store(int64(50 * time.Microsecond))
			_, _ = l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: ends})
		})
		if err != nil {
			t.Fatal(err)
		}
		var applied []string
		hold := make(chan struct{})
		var answered sync.WaitGroup
		call := func(of string, f func(l *ledger.Ledger, now ledger.Instant)) {
			answered.Go(func() {
				if err := d.Do(callerContext(t.Context(), of), f); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		call("first", func(*ledger.Ledger, ledger.Instant) { <-hold })
		for _, of := range []string{"alice", "alice", "alice", "alice", "bob", "bob"} {
			call(of, func(l *ledger.Ledger, now ledger.Instant) {
				l.Detach(now, 0) // begins as every command does
				applied = append(applied, of)
				time.Sleep(100 * time.Microsecond)
			})
		}
		close(hold)
		answered.Wait()
		// two of 100 µs are a turn
		if want := []string{"alice", "alice", "bob", "bob", "alice", "alice"}; !slices.Equal(applied, want) {
			t.Errorf("applied in the order %v; want %v", applied, want)
		}
		takes.Store(0)
	})
}

func TestABatchClosesAfterAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &countingStore{Store: NewMemoryStore()}
		d := runLoop(t, counted, func(c *setup) { c.Owner = ownerOfTest })
		defer d.Close()
		before := counted.count()
		d.queued(slices.Repeat([]string{"alice"}, 30), 300*time.Microsecond)
		// the one that held the loop, and 30 in batches of four
		if n := counted.count() - before; n < 8 || n > 9 {
			t.Errorf("%d commits; want 8 or 9", n)
		}
	})
}

func TestAFullQueueIsFullForItsCallerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Owner, c.Queue = ownerOfTest, 4 })
		defer d.Close()
		hold := make(chan struct{})
		answers := make(map[string]chan error)
		for _, of := range []string{"mallory", "alice"} {
			answers[of] = make(chan error, 10)
		}
		call := func(of string, f func()) {
			go func() {
				answers[of] <- d.Do(callerContext(t.Context(), of), func(*ledger.Ledger, ledger.Instant) { f() })
			}()
			synctest.Wait()
		}
		call("mallory", func() { <-hold })
		for range 6 {
			call("mallory", func() {})
		}
		call("alice", func() {})
		for range 2 {
			if err := <-answers["mallory"]; !errors.Is(err, ErrBusy) {
				t.Errorf("one that is too many: %v", err)
			}
		}
		close(hold)
		for range 5 {
			if err := <-answers["mallory"]; err != nil {
				t.Error(err)
			}
		}
		if err := <-answers["alice"]; err != nil {
			t.Errorf("another caller: %v", err)
		}
	})
}

// A caller that goes away is heard even if its queue is full.
func TestWhoGoesAwayIsHeardWhenItsQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Owner, c.Queue, c.Ledger.Interval = ownerOfTest, 2, time.Hour })
		defer d.Close()
		d.Host(100)
		if _, err := d.allocate(t.Context(), "holder", 100, 0); err != nil {
			t.Fatal(err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		answers := make(chan error, 10)
		go func() {
			_, err := d.allocate(callerContext(ctx, "alice"), "", 100, time.Hour)
			answers <- err
		}()
		synctest.Wait()
		hold := make(chan struct{})
		for i := range 4 {
			go func() {
				answers <- d.Do(callerContext(t.Context(), "alice"), func(*ledger.Ledger, ledger.Instant) {
					if i == 0 {
						<-hold
					}
				})
			}()
			synctest.Wait()
		}
		if err := <-answers; !errors.Is(err, ErrBusy) {
			t.Errorf("the queue is not full: %v", err)
		}
		hangUp()
		synctest.Wait()
		close(hold)
		for range 4 {
			if err := <-answers; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if n := d.counts().Waiting; n != 0 {
			t.Errorf("%d wait whose caller has gone", n)
		}
	})
}

// fill puts so many rules and allocations into the ledger, so that an audit takes several steps.
func (d *loopRig) fill(users int) {
	d.t.Helper()
	selector, err := label.ParseSelector("user=*")
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = Decide(d.t.Context(), d.Loop, func(l *ledger.Ledger, now ledger.Instant) (struct{}, error) {
		return struct{}{}, l.PutQuota(now, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1 << 40)})
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.Host(1 << 40)
	for i := range users {
		result, err := d.Allocate(d.t.Context(), requestOf(fmt.Sprint("u", i), 1))
		if err != nil || result.Allocation.State != ledger.Reserved {
			d.t.Fatal(result.Allocation.State, err)
		}
	}
}

func TestAnAuditLetsOthersThroughBetweenItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Owner, c.Ledger.Interval = ownerOfTest, time.Hour })
		defer d.Close()
		d.fill(1500)
		hold := make(chan struct{})
		answered := make(chan error, 1)
		go func() { answered <- d.Do(t.Context(), func(*ledger.Ledger, ledger.Instant) { <-hold }) }()
		synctest.Wait()
		audited := make(chan AuditResult, 1)
		go func() {
			result, err := d.Audit()
			if err != nil {
				t.Error(err)
			}
			audited <- result
		}()
		synctest.Wait()
		const others = 100 // some turns
		done := make(chan error, others)
		for range others {
			go func() {
				_, err := d.Allocate(callerContext(t.Context(), "alice"), requestOf("alice", 5))
				done <- err
			}()
		}
		synctest.Wait()
		close(hold)
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		for range others {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		result := <-audited
		if len(result.Violations) > 0 || result.Accounts < 1501 || result.To <= result.From {
			t.Errorf("%+v: want no violations, 1501 accounts, and that something has changed meanwhile", result.AuditResult)
		}
	})
}

func TestAnAuditEndsWithTheLeadershipAndWithTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, end := range map[string]func(d *loopRig){
			"stepped down": func(d *loopRig) { d.StepDown() },
			"stopped":      func(d *loopRig) { d.Stop() },
		} {
			d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
			d.fill(600)
			hold := make(chan struct{})
			steps := 0
			failed := make(chan error, 1)
			go func() {
				run := &auditRun{loop: d.Loop, stop: func() {}}
				defer func() { run.stop() }()
				var err error
				for err == nil && !run.result.Done {
					if err = run.step(); steps == 0 {
						<-hold
					}
					steps++
				}
				failed <- err
			}()
			synctest.Wait()
			end(d)
			synctest.Wait()
			close(hold)
			if err := <-failed; !errors.Is(err, core.ErrNotLeading) && !errors.Is(err, core.ErrStopping) {
				t.Errorf("%s after %d steps: %v", what, steps, err)
			}
			if what != "stopped" {
				d.Stop()
			}
			<-d.done
		}
	})
}

func TestAnAuditGivesUpIfTheRulesNeverStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.fill(600)
		selector, err := label.ParseSelector("user=mallory")
		if err != nil {
			t.Fatal(err)
		}
		run := &auditRun{loop: d.Loop, stop: func() {}}
		defer func() { run.stop() }()
		for i := 0; run.result.Restarts <= mostRestarts; i++ {
			if err := run.step(); err != nil || run.result.Done || i > 3*mostRestarts+3 {
				t.Fatalf("step %d: %v, %+v", i, err, run.result.AuditResult)
			}
			_, err := Decide(t.Context(), d.Loop, func(l *ledger.Ledger, now ledger.Instant) (struct{}, error) {
				return struct{}{}, l.PutQuota(now, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(int64(i) + 1)})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

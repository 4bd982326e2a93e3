package commit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

func TestAfterAFailedCommitTheStoreDecides(t *testing.T) {
	for name, c := range map[string]struct {
		fault    storetest.Fault
		happened bool // the batch whose callers got no answer is in the store
	}{
		"refused":                      {storetest.FailBefore, false},
		"unknown, and it had happened": {storetest.FailAfter, true},
		"unknown, and it had not":      {storetest.Vanish, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faulty := storetest.NewFaulty(NewMemoryStore())
				d := runLoop(t, faulty, func(c *setup) { c.Ledger.Interval = time.Hour })
				defer d.Close()
				d.Host(100)
				if _, err := d.allocate(t.Context(), "known", 40, 0); err != nil {
					t.Fatal(err)
				}
				before, err := d.View(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				faulty.Next(c.fault)
				if _, err := d.allocate(t.Context(), "lost", 40, 0); !lost(err) {
					t.Fatalf("got %v", err)
				}
				time.Sleep(time.Second)
				after, err := d.View(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if after.Meta.Epoch <= before.Meta.Epoch {
					t.Errorf("epoch %d after %d: want a new one", after.Meta.Epoch, before.Meta.Epoch)
				}
				want := 1
				if c.happened {
					want = 2
				}
				if after.Counts.Reserved != want {
					t.Errorf("%d reserved: want %d", after.Counts.Reserved, want)
				}
				d.report(100, 2)
				a, err := d.allocate(t.Context(), "lost", 40, 0)
				if err != nil || a.State != ledger.Reserved {
					t.Errorf("the same request again: %v, %v", a.State, err)
				}
				if n := d.counts().Reserved; n != 2 {
					t.Errorf("%d reserved: want 2", n)
				}
			})
		})
	}
}

func TestACommitThatHangsIsGivenUp(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{"before": storetest.HangBefore, "after": storetest.HangAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faulty := storetest.NewFaulty(NewMemoryStore())
				d := runLoop(t, faulty, func(c *setup) { c.Ledger.Interval = time.Hour })
				defer d.Close()
				d.Host(100)
				faulty.Next(fault)
				start := time.Now()
				if _, err := d.allocate(t.Context(), "a", 40, 0); !lost(err) {
					t.Fatalf("got %v", err)
				}
				if took := time.Since(start); took > 15*time.Second {
					t.Errorf("answered after %s", took)
				}
				time.Sleep(time.Minute)
				if v, err := d.View(t.Context()); err != nil || v.Meta.Epoch < 2 {
					t.Errorf("does not lead again: %+v, %v", v, err)
				}
			})
		})
	}
}

// stuckStore has commits that return only when the test says so, even after the end of their
// context: a disk that hangs.
type stuckStore struct {
	store.Store

	stick chan struct{} // nil: commits go through
}

func (s *stuckStore) Commit(ctx context.Context, b store.Batch) error {
	if s.stick != nil {
		<-s.stick
	}
	return s.Store.Commit(context.WithoutCancel(ctx), b)
}

func TestAStoreThatIgnoresItsTimeoutHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckStore{Store: NewMemoryStore()}
		d := runLoop(t, stuck, func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		stuck.stick = make(chan struct{})
		start := time.Now()
		if _, err := d.allocate(t.Context(), "a", 40, 0); !lost(err) {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("answered after %s", took)
		}
		if _, err := d.allocate(t.Context(), "b", 40, 0); !errors.Is(err, core.ErrNotLeading) {
			t.Errorf("while it hangs: got %v", err)
		}
		if err := d.Alive(t.Context()); err != nil {
			t.Errorf("the loop does not turn: %v", err)
		}
		if err := d.Probe(t.Context()); err == nil {
			t.Error("it says that it is ready")
		}
		close(stuck.stick) // and now it says that it has happened
		time.Sleep(time.Second)
		if n := d.counts().Reserved; n != 1 {
			t.Errorf("%d reserved: want what the store has", n)
		}
	})
}

// A leader that was stopped finds two things when it continues: it has lost the lead, and a commit
// has taken too long.
func TestALeadThatIsLostWhileACommitHangsEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckStore{Store: NewMemoryStore()}
		d := runLoop(t, stuck, func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		stuck.stick = make(chan struct{})
		answered := make(chan error, 1)
		go func() {
			_, err := d.allocate(t.Context(), "a", 40, 0)
			answered <- err
		}()
		synctest.Wait()
		d.StepDown()
		if err := <-answered; !lost(err) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute) // more than a commit may take
		if err := d.Alive(t.Context()); err != nil {
			t.Errorf("the loop does not turn: %v", err)
		}
		close(stuck.stick)
	})
}

func TestACutOffStoreIsTriedUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storetest.NewFaulty(NewMemoryStore())
		d := runLoop(t, faulty, func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		if _, err := d.allocate(t.Context(), "known", 40, 0); err != nil {
			t.Fatal(err)
		}
		faulty.Cut()
		if _, err := d.allocate(t.Context(), "a", 40, 0); !lost(err) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := d.allocate(t.Context(), "b", 40, 0); !errors.Is(err, core.ErrNotLeading) {
			t.Errorf("while the store is away: got %v", err)
		}
		faulty.Mend()
		time.Sleep(10 * time.Second)
		if n := d.counts().Reserved; n != 1 {
			t.Errorf("%d reserved: want 1", n)
		}
	})
}

func TestAPanicOfTheLedgerCostsOneLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		if _, err := d.allocate(t.Context(), "known", 40, 0); err != nil {
			t.Fatal(err)
		}
		err := d.Do(t.Context(), func(*ledger.Ledger, ledger.Instant) { panic("lost count") })
		if _, ok := errors.AsType[*core.PanicError](err); !ok {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		if v, err := d.View(t.Context()); err != nil || v.Meta.Epoch != 2 || v.Counts.Reserved != 1 {
			t.Errorf("got %+v, %v", v, err)
		}
	})
}

func TestAnAgentsLaterEpochIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), nil)
		defer d.Close()
		r := &core.Report{Seen: core.SeenEpoch{Epoch: 41}, Command: ledger.SyncCommand{HostID: "h"}}
		if err := d.Sync(t.Context(), r); !errors.Is(err, core.ErrNotLeading) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		if v, err := d.View(t.Context()); err != nil || v.Meta.Epoch <= 41 {
			t.Errorf("got %+v, %v", v, err)
		}
	})
}

func TestAFullQueueRefusesAndLosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storetest.NewFaulty(NewMemoryStore())
		d := runLoop(t, faulty, func(c *setup) {
			c.Ledger.Interval = time.Hour
			c.Queue, c.Batch = 4, 2
		})
		defer d.Close()
		d.Host(100)
		faulty.Next(storetest.HangBefore)
		answers := make(chan error, 20)
		for i := range cap(answers) {
			go func() {
				_, err := d.allocate(t.Context(), fmt.Sprint("r", i), 1, 0)
				answers <- err
			}()
			synctest.Wait()
		}
		// One is being committed, two are applied, four wait in the queue.
		if refused := len(answers); refused != cap(answers)-7 {
			t.Errorf("%d were refused: want all but 7", refused)
		}
		faulty.Release()
		granted := 0
		for range cap(answers) {
			switch err := <-answers; {
			case err == nil:
				granted++
			case !errors.Is(err, ErrBusy):
				t.Errorf("got %v", err)
			}
		}
		if granted != 7 || d.counts().Reserved != 7 {
			t.Errorf("%d granted, %d reserved: want 7", granted, d.counts().Reserved)
		}
	})
}

func TestStopAnswersEverybodyAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storetest.NewMemory("test")
		faulty := storetest.NewFaulty(memory.Open())
		d := runLoop(t, faulty, func(c *setup) { c.Ledger.Interval = time.Hour })
		d.Host(100)
		if _, err := d.allocate(t.Context(), "holder", 90, 0); err != nil {
			t.Fatal(err)
		}
		answers := make(chan error, 2)
		go func() {
			_, err := d.allocate(t.Context(), "waits", 90, time.Hour)
			answers <- err
		}()
		synctest.Wait()
		faulty.Next(storetest.HangBefore)
		go func() {
			_, err := d.allocate(t.Context(), "flies", 5, 0)
			answers <- err
		}()
		synctest.Wait()
		d.Stop()
		synctest.Wait()
		if err := <-answers; !errors.Is(err, core.ErrStopping) {
			t.Errorf("who waits: got %v", err)
		}
		if _, err := d.allocate(t.Context(), "late", 5, 0); !errors.Is(err, core.ErrNotLeading) && !errors.Is(err, core.ErrStopping) {
			t.Errorf("who comes late: got %v", err)
		}
		faulty.Release()
		if err := <-answers; err != nil {
			t.Errorf("who was being committed: got %v", err)
		}
		<-d.done
		again := runLoop(t, memory.Open(), nil)
		defer again.Close()
		if c := again.counts(); c.Reserved != 2 || c.Waiting != 1 {
			t.Errorf("after the restart %+v: want 2 reserved, 1 waiting", c)
		}
	})
}

// TestNoAcknowledgedGrantIsEverLost makes commits fail in all ways at random while callers repeat
// unanswered calls, and compares the callers' knowledge with the store at the end.
func TestNoAcknowledgedGrantIsEverLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faults := rapid.SliceOfN(rapid.SampledFrom([]storetest.Fault{
			storetest.None, storetest.None, storetest.FailBefore, storetest.FailAfter, storetest.Vanish, storetest.HangAfter, storetest.HangBefore,
		}), 1, 30).Draw(rt, "faults")
		callers := rapid.IntRange(1, 8).Draw(rt, "callers")
		synctest.Test(t, func(t *testing.T) {
			memory := storetest.NewMemory("test")
			faulty := storetest.NewFaulty(memory.Open())
			d := runLoop(t, faulty, func(c *setup) {
				c.Ledger.Interval, c.Ledger.ReservationTTL, c.Ledger.LostAfter = time.Hour, 1000*time.Hour, 1000*time.Hour
				c.CommitTimeout = time.Second
			})
			d.Host(1 << 40)
			faulty.Next(faults...)
			type grant struct {
				request string
				id      ledger.ID
			}
			grants := make(chan grant, 1000)
			ended := make(chan struct{})
			for c := range callers {
				go func() {
					defer func() { ended <- struct{}{} }()
					for i := range 5 {
						request := fmt.Sprintf("%d-%d", c, i)
						for {
							a, err := d.allocate(context.Background(), request, 1, 0)
							if err == nil {
								grants <- grant{request, a.ID}
								break
							}
							if _, short := errors.AsType[*ledger.InsufficientError](err); short {
								break // the host has to report first, after a new load
							}
							time.Sleep(100 * time.Millisecond)
						}
					}
				}()
			}
			for range callers {
				<-ended
			}
			d.Close()
			close(grants)
			again := runLoop(t, memory.Open(), nil)
			defer again.Close()
			for g := range grants {
				var a ledger.Allocation
				var live bool
				if err := again.Do(t.Context(), func(l *ledger.Ledger, _ ledger.Instant) { a, live = l.Get(g.id) }); err != nil {
					rt.Fatal(err)
				}
				if !live || a.RequestID != g.request {
					rt.Errorf("%s was acknowledged as %s: got %+v, live %v", g.request, g.id, a, live)
				}
			}
			requests := make(map[string]int)
			if err := again.Do(t.Context(), func(l *ledger.Ledger, _ ledger.Instant) {
				l.Allocations(0, func(a *ledger.Allocation) bool {
					requests[a.RequestID]++
					return true
				})
			}); err != nil {
				rt.Fatal(err)
			}
			for request, n := range requests {
				if n != 1 {
					rt.Errorf("%s was granted %d times", request, n)
				}
			}
		})
	})
}

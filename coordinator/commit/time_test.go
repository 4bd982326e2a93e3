package commit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

func TestACallerWhoGoesAwayKeepsItsPlaceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		if _, err := d.allocate(t.Context(), "holder", 100, 0); err != nil {
			t.Fatal(err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			_, err := d.allocate(ctx, "w", 100, time.Hour)
			answer <- err
		}()
		synctest.Wait()
		hangUp()
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		time.Sleep(9 * time.Second)
		if n := d.counts().Waiting; n != 1 {
			t.Errorf("%d waiting after 9 s without a caller: want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := d.counts().Waiting; n != 0 {
			t.Errorf("%d waiting after 11 s without a caller: want 0", n)
		}
	})
}

func TestADeadlineBeforeTheEndOfTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		wait, deadline time.Duration
		want           func(error) bool
	}{
		"far before: keeps its place": {time.Hour, 10 * time.Second, func(err error) bool {
			_, ok := errors.AsType[*PatienceError](err)
			return ok
		}},
		"together: the wait is over": {10 * time.Second, 10 * time.Second, func(err error) bool {
			e, ok := errors.AsType[*ledger.InsufficientError](err)
			return ok && e.Reason == ledger.ReasonWaited
		}},
		"long after: the wait is over": {10 * time.Second, time.Hour, func(err error) bool {
			e, ok := errors.AsType[*ledger.InsufficientError](err)
			return ok && e.Reason == ledger.ReasonWaited
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
				defer d.Close()
				d.Host(100)
				if _, err := d.allocate(t.Context(), "holder", 100, 0); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				start := time.Now()
				_, err := d.allocate(ctx, "w", 100, c.wait)
				if !c.want(err) || ctx.Err() != nil {
					t.Errorf("got %v after %s, the call's own end: %v", err, time.Since(start), ctx.Err())
				}
			})
		})
	}
}

func TestAClockThatIsSetChangesNothing(t *testing.T) {
	for _, jump := range []time.Duration{100 * 24 * time.Hour, -100 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wall := &wallClock{start: time.Now()}
				made := defaults(NewMemoryStore(), wall)
				made.Ledger.Interval = time.Hour
				d := &loopRig{Loop: made.loop(), t: t}
				Lead(t, d.Loop)
				defer d.Close()
				d.Host(100)
				a, err := d.allocate(t.Context(), "a", 40, 0)
				if err != nil {
					t.Fatal(err)
				}
				wall.shift = jump
				time.Sleep(119 * time.Second)
				if n := d.counts().Reserved; n != 1 {
					t.Errorf("%d reserved before its 2 min were over: want 1", n)
				}
				b, err := d.allocate(t.Context(), "b", 40, 0)
				if err != nil || b.Created.Sub(a.Created) != 119*time.Second {
					t.Errorf("%s after the first, %v: want 119 s", b.Created.Sub(a.Created), err)
				}
				time.Sleep(2 * time.Second)
				if n := d.counts().Reserved; n != 1 {
					t.Errorf("%d reserved after 121 s: want the second alone", n)
				}
			})
		})
	}
}

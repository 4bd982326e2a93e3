package commit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// laterRig is a loop that takes a second for a command, with a request queued behind it.
func laterRig(t *testing.T, deadline time.Duration, meanwhile func(*LaterRequest)) (decided int, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		go func() {
			_ = d.Do(context.Background(), func(*ledger.Ledger, ledger.Instant) { time.Sleep(time.Second) })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		command := requestOf("alice", 1000)
		command.RequestID, command.Wait = "r", time.Hour
		later := d.NewLater(ctx, func(bool) { decided++ })
		go meanwhile(later)
		_, err = d.AllocateLater(ctx, command, later)
	})
	return decided, err
}

// Its deadline is 1,050 ms away, and the loop starts it after 1,000. The answer must arrive in
// time.
func TestALaterRequestWhoseDeadlineComesInTheQueueSaysSo(t *testing.T) {
	decided, err := laterRig(t, 1050*time.Millisecond, func(*LaterRequest) {})
	patience, is := errors.AsType[*PatienceError](err)
	if !is || patience.RequestID != "r" || decided != 1 {
		t.Errorf("%v, decided %d times: want a PatienceError, once", err, decided)
	}
}

func TestALaterRequestThatIsWithdrawnInTheQueueSaysSo(t *testing.T) {
	decided, err := laterRig(t, time.Minute, (*LaterRequest).Withdraw)
	if !errors.Is(err, core.ErrWithdrawn) || decided != 0 {
		t.Errorf("%v, decided %d times: want %v, never", err, decided, core.ErrWithdrawn)
	}
}

// The answer that a request waits says what it lacks. A request whose caller waits for the end
// costs no look for that: nobody reads it.
func TestOnlyAnAnswerSaysWhatARequestLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(100)
		ctx, cancel := context.WithCancel(t.Context())
		holder := requestOf("alice", 60)
		if _, err := d.Allocate(ctx, holder); err != nil {
			t.Fatal(err)
		}
		described := func() (n uint64) {
			if err := d.Do(t.Context(), func(l *ledger.Ledger, _ ledger.Instant) { n = l.Described() }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := described()
		waits := requestOf("bob", 60)
		waits.RequestID, waits.Wait = "b", time.Hour
		go func() { _, _ = d.Allocate(ctx, waits) }()
		synctest.Wait()
		if n := described() - before; n != 0 {
			t.Errorf("a request that waits for the end was described %d times", n)
		}
		later := requestOf("carol", 60)
		later.RequestID, later.Wait = "c", time.Hour
		result, err := d.AllocateLater(ctx, later, d.NewLater(ctx, func(bool) {}))
		if err != nil || !strings.Contains(result.Allocation.Reason, "lacks") {
			t.Errorf("%q, %v: want what it lacks", result.Allocation.Reason, err)
		}
		cancel()
	})
}

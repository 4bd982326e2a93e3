package callers

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/identity"
)

// detached are calls of a user whose callers have gone.
func detached(t *testing.T, d *detachedCalls, patience time.Duration, user string, n int) (calls []context.Context) {
	t.Helper()
	ctx := socket.WithCaller(t.Context(), socket.NewCaller(identity.Actor{}, 1, user))
	for range n {
		call, gone := context.WithTimeout(ctx, 24*time.Hour)
		own, end := d.detach(call, patience)
		t.Cleanup(end)
		if own.Err() != nil {
			t.Error("a call ends while its caller is there")
		}
		gone()
		synctest.Wait()
		calls = append(calls, own)
	}
	return calls
}

func goOn(calls []context.Context) (n int) {
	for _, call := range calls {
		if call.Err() == nil {
			n++
		}
	}
	return n
}

// counted is how many calls go on, and of how many users.
func (d *detachedCalls) counted() (calls, users int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count, len(d.users)
}

// Callers that allow days and go at once leave few calls behind, which end soon, and keep nobody
// else's from going on.
func TestCallsWhoseCallersHaveGoneAreFewAndEndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &detachedCalls{}
		for user := range 10 {
			calls := detached(t, d, time.Hour, strconv.Itoa(user), 2*mostDetachedOfUser)
			if user == 0 && goOn(calls) != mostDetachedOfUser {
				t.Errorf("%d calls of one user go on; want %d", goOn(calls), mostDetachedOfUser)
			}
			if goOn(calls[:mostDetachedOfUser]) != 0 {
				t.Error("older ones go on")
			}
		}
		if n, _ := d.counted(); n != mostDetached {
			t.Errorf("%d calls go on; want %d", n, mostDetached)
		}
		one := detached(t, d, time.Hour, "another", 1)
		if n, _ := d.counted(); goOn(one) != 1 || n != mostDetached {
			t.Errorf("of another user %d, of all %d", goOn(one), n)
		}
		time.Sleep(detachedFor)
		synctest.Wait()
		if n, users := d.counted(); n != 0 || users != 0 || goOn(one) != 0 {
			t.Errorf("%d calls of %d users go on", n, users)
		}
		one = detached(t, d, time.Second, "another", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if goOn(one) != 0 {
			t.Error("it goes on after the patience")
		}
	})
}

// A call whose caller stays has the caller's deadline, or the patience.
func TestACallEndsWithItsCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &detachedCalls{}
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		own, end := d.detach(long, time.Second)
		defer end()
		none, endNone := d.detach(t.Context(), time.Second)
		defer endNone()
		time.Sleep(time.Second)
		synctest.Wait()
		if own.Err() != nil || none.Err() == nil {
			t.Errorf("with a deadline: %v, without: %v", own.Err(), none.Err())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if own.Err() == nil {
			t.Error("it goes on after its caller's deadline and the patience")
		}
	})
}

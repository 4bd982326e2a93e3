package commit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
)

// runLong runs a coordinator with a wrong time of day, on which no host becomes lost.
func runLong(t *testing.T, place *storetest.Memory, shift time.Duration) *loopRig {
	t.Helper()
	d := newLoopRig(t, place.Open(), func(s *setup) { s.Ledger.LostAfter = 1000 * time.Hour })
	d.Clock = core.NewSteady(&wallClock{start: time.Now(), shift: shift})
	Lead(t, d.Loop)
	return d
}

// lease makes an engine that lives until the end of its lease.
func (d *loopRig) lease(id string, memory int64, length time.Duration) {
	d.t.Helper()
	a := d.async(id, memory, 0, 0)
	d.do(func(l *ledger.Ledger, now ledger.Instant) error {
		_, err := l.Confirm(now, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Address: "10.0.0.1:9000", Lease: length})
		return err
	})
}

// do runs a command that must not fail.
func (d *loopRig) do(command func(l *ledger.Ledger, now ledger.Instant) error) {
	d.t.Helper()
	var failed error
	err := d.Do(d.t.Context(), func(l *ledger.Ledger, now ledger.Instant) { failed = command(l, now) })
	if err = errors.Join(err, failed); err != nil {
		d.t.Fatal(err)
	}
}

// outages are cases in which the time of the store is behind the clock of the next leader.
func outages() map[string]struct{ before, down, after time.Duration } {
	return map[string]struct{ before, down, after time.Duration }{
		"the clock of the leader before was an hour behind":    {before: -time.Hour},
		"no coordinator ran for an hour":                       {down: time.Hour},
		"the clock of the leader before stood in 1969":         {before: -31 * 365 * 24 * time.Hour},
		"the clock is a year ahead":                            {after: 365 * 24 * time.Hour},
		"the clock is in 2039 at a machine that was never set": {after: 39 * 365 * 24 * time.Hour},
		"no coordinator ran for a week":                        {down: 7 * 24 * time.Hour},
	}
}

func TestTimeWithoutACoordinatorEndsNothing(t *testing.T) {
	for name, outage := range outages() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := storetest.NewMemory("test")
				before := runLong(t, place, outage.before)
				before.Host(100)
				before.lease("a lease", 10, 10*time.Minute)
				before.async("held", 20, 5*time.Minute, 0)
				before.async("waits", 80, 0, 20*time.Minute)
				ended := before.async("ended", 1, 0, 0)
				before.do(func(l *ledger.Ledger, now ledger.Instant) error {
					_, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: ended.ID})
					return err
				})
				time.Sleep(time.Minute)
				before.Close()
				time.Sleep(outage.down)

				d := runLong(t, place, outage.after)
				defer d.Close()
				d.Host(100)
				const slack = 5*time.Second + 200*time.Millisecond // the time in the store may be so old
				near := func(what string, got, want time.Duration) {
					t.Helper()
					if got < want-slack || got > want+slack {
						t.Errorf("%s ended after %s, want %s", what, got, want)
					}
				}
				took := d.waitFor(time.Hour, func(c ledger.Counts) bool { return c.Reserved == 0 })
				near("the reservation of 5 min", took, 4*time.Minute)
				took += d.waitFor(time.Hour, func(c ledger.Counts) bool { return c.Active == 0 })
				near("the lease of 10 min", took, 10*time.Minute)
				if c := d.counts(); c.Waiting+c.Reserved != 1 {
					t.Errorf("the request that waits for 20 min has ended after 11: %+v", c)
				}
				result, err := d.Allocate(t.Context(), &ledger.AllocateCommand{
					Actor: identity.Local(), RequestID: "ended", Labels: ended.Labels, Async: true, Resource: ended.Requested,
				})
				if err != nil || !result.Ended || result.Allocation.ID != ended.ID {
					t.Errorf("the request id of an hour ago is forgotten: %+v, %v", result, err)
				}
			})
		})
	}
}

// Outages add up over leaderships, and none counts twice.
func TestTimeWithoutACoordinatorAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		d := runLong(t, place, 0)
		d.Host(100)
		d.async("waits", 200, 0, time.Hour)
		led := time.Duration(0)
		for range 2 * 24 { // more than a store lists
			if d.counts().Waiting == 0 {
				break
			}
			time.Sleep(time.Minute)
			led += time.Minute
			d.Close()
			time.Sleep(3 * time.Hour)
			d = runLong(t, place, 0)
			d.Host(100)
		}
		defer d.Close()
		led += d.waitFor(10*time.Hour, func(c ledger.Counts) bool { return c.Waiting == 0 })
		if most := time.Hour + 48*6*time.Second; led < time.Hour-time.Second || led > most {
			t.Errorf("the wait of 1 h ended after %s in which coordinators led, want from 1 h to %s", led, most)
		}
	})
}

// The stored time advances while only leases depend on it: an idle hour does not count as an hour
// without a leader, and a lease that is not renewed ends despite repeated restarts of coordinators.
func TestTimeIsKeptWhileALeaseIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		d := runLong(t, place, 0)
		d.Host(100)
		d.lease("a lease", 10, 10*time.Minute)
		led := time.Duration(0)
		for led < 2*time.Hour && d.counts().Active > 0 {
			time.Sleep(time.Minute)
			led += time.Minute
			inForce := d.counts().Active > 0
			d.Close()
			s := place.Open()
			meta, err := s.Meta(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if kept := time.Since(meta.Time.Time()); inForce && kept > 6*time.Second {
				t.Fatalf("after a minute the store's time is %s old", kept)
			}
			d = runLong(t, place, 0)
			d.Host(100)
		}
		defer d.Close()
		if led < 10*time.Minute || led > 45*time.Minute {
			t.Errorf("the lease of 10 min that nobody renewed ended after %s", led)
		}
	})
}

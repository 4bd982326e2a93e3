package commit

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// runShifted runs a coordinator whose time of day is off.
func runShifted(t *testing.T, place *storetest.Memory, shift time.Duration) *loopRig {
	t.Helper()
	d := newLoopRig(t, place.Open(), nil)
	d.Clock = core.NewSteady(&wallClock{start: time.Now(), shift: shift})
	Lead(t, d.Loop)
	return d
}

// async asks without waiting for the decision.
func (d *loopRig) async(id string, memory int64, ttl, wait time.Duration) ledger.Allocation {
	d.t.Helper()
	result, err := d.Allocate(d.t.Context(), &ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: id, Labels: label.Of("user", "alice"), Wait: wait, Async: true, ReservationTTL: ttl,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return result.Allocation
}

// waitFor returns the real time until a condition holds, checked every 100 ms.
func (d *loopRig) waitFor(most time.Duration, holds func(ledger.Counts) bool) time.Duration {
	d.t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if took := time.Since(begin); holds(d.counts()) || took > most {
			return took
		}
	}
}

// Rows that a store can hold and that are ahead of a coordinator's clock.
func futures() map[string]func(t *testing.T, place *storetest.Memory) {
	hour := func(t *testing.T, place *storetest.Memory) {
		t.Helper()
		fast := runShifted(t, place, time.Hour)
		fast.Host(100)
		fast.async("held by a fast clock", 60, 4*time.Second, 0)
		fast.async("waits by a fast clock", 80, 0, 30*time.Second)
		fast.Close()
	}
	// alter commits changes of the rows, like a user of the database.
	alter := func(f func(*ledger.Changes)) func(t *testing.T, place *storetest.Memory) {
		return func(t *testing.T, place *storetest.Memory) {
			t.Helper()
			hour(t, place)
			s := place.Open()
			meta, err := s.Lead(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			snapshot, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := ledger.Changes{Revision: snapshot.Revision, LastID: snapshot.LastID, Time: snapshot.Time, Hosts: snapshot.Hosts, Transitions: snapshot.Allocations}
			f(&c)
			if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	years := ledger.ID(10*365*24*time.Hour/time.Millisecond) << 22
	return map[string]func(t *testing.T, place *storetest.Memory){
		"the clock of the leader before was an hour ahead": hour,
		"the last id is years ahead":                       alter(func(c *ledger.Changes) { c.LastID += years }),
		"the last id is the last that there is":            alter(func(c *ledger.Changes) { c.LastID = math.MaxUint64 }),
		"the time is at the end of its range":              alter(func(c *ledger.Changes) { c.Time = math.MaxInt64 }),
		"rows are from the end of time": alter(func(c *ledger.Changes) {
			for i := range c.Transitions {
				a := &c.Transitions[i]
				if a.State == ledger.Reserved {
					a.Created, a.Reserved, a.Expires = math.MaxInt64-7, math.MaxInt64-5, math.MaxInt64
				} else {
					a.Created, a.WaitDeadline = a.Created.Add(math.MaxInt64/2), a.WaitDeadline.Add(math.MaxInt64/2)
				}
			}
			c.Hosts[0].Registered = math.MaxInt64
		}),
		"rows are from years ahead": alter(func(c *ledger.Changes) {
			for i := range c.Transitions {
				a := &c.Transitions[i]
				for _, at := range []*ledger.Instant{&a.Created, &a.Reserved, &a.Expires, &a.WaitDeadline} {
					if *at != 0 {
						*at = at.Add(10 * 365 * 24 * time.Hour)
					}
				}
			}
		}),
	}
}

// interval is a host's, and the grace that deadlines get after a load.
const interval = 5 * time.Second

// slewed is how long d may last while a skew is worked off.
func slewed(d time.Duration) time.Duration { return d*10/9 + 200*time.Millisecond }

func TestTimeGoesOnUnderAClockThatIsBehindTheStore(t *testing.T) {
	for name, future := range futures() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := storetest.NewMemory("test")
				future(t, place)
				d := runShifted(t, place, 0)
				defer d.Close()
				none := func(c ledger.Counts) bool { return c.Reserved == 0 }
				if took := d.waitFor(time.Minute, none); took > slewed(interval) {
					t.Errorf("the reservation of 4 s of before ended after %s", took)
				}
				if took := d.waitFor(time.Minute, func(c ledger.Counts) bool { return c.Waiting == 0 }); took > slewed(30*time.Second-4*time.Second) {
					t.Errorf("the wait of 30 s of before ended after %s more", took)
				}
				// New reservations and waits have their full length, and ids increase.
				d.Host(100)
				a := d.async("held", 60, 4*time.Second, 0)
				b := d.async("waits", 80, 0, 30*time.Second)
				if a.State != ledger.Reserved || b.State != ledger.Waiting || b.ID <= a.ID || a.ID == 0 {
					t.Fatalf("%s, then %s; ids %d, %d", a.State, b.State, a.ID, b.ID)
				}
				granted := func(c ledger.Counts) bool { return c.Waiting == 0 }
				if took := d.waitFor(time.Minute, granted); took < 4*time.Second || took > slewed(4*time.Second) {
					t.Errorf("a reservation of 4 s ended after %s", took)
				}
			})
		})
	}
}

// A coordinator that takes over from one whose clock was ahead can tell a host whose agent was
// killed from one that lives.
func TestASilentHostIsFoundOutUnderASkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		futures()["the clock of the leader before was an hour ahead"](t, place)
		d := runShifted(t, place, 0)
		defer d.Close()
		d.Host(100) // and then it is silent
		if took := d.waitFor(time.Minute, func(c ledger.Counts) bool { return c.HostsSuspect == 1 }); took > slewed(3*interval) {
			t.Errorf("suspect after %s", took)
		}
		if took := d.waitFor(10*time.Minute, func(c ledger.Counts) bool { return c.HostsLost == 1 }); took > slewed(5*time.Minute-3*interval) {
			t.Errorf("lost after %s more", took)
		}
	})
}

// The skew is shown, and worked off while time goes on.
func TestASkewIsToldAndWorkedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		futures()["the clock of the leader before was an hour ahead"](t, place)
		began := time.Now()
		d := runShifted(t, place, 0)
		defer d.Close()
		look := func() (core.View, ledger.Instant) {
			t.Helper()
			v, err := d.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return v, d.Clock.Now()
		}
		v, now := look()
		if left := v.Skew.Left(now); left < 59*time.Minute || left > time.Hour || left != d.Behind() {
			t.Errorf("the skew is %s, %s by the metric", left, d.Behind())
		}
		if told := v.Skew.Warning(now); len(told) != 1 || !strings.Contains(told[0], "1h0m0s ahead") {
			t.Errorf("told %q", told)
		}
		time.Sleep(5 * time.Hour)
		v, now = look()
		if left := v.Skew.Left(now); left < 29*time.Minute || left > 30*time.Minute {
			t.Errorf("after 5 hours the skew is %s", left)
		}
		time.Sleep(5 * time.Hour)
		v, now = look()
		if left := v.Skew.Left(now); left != 0 || v.Skew.Warning(now) != nil {
			t.Errorf("after 10 hours the skew is %s, told %q", left, v.Skew.Warning(now))
		}
		d.Host(100)
		if a := d.async("a", 1, 0, 0); a.Created.Time().Sub(began) != time.Since(began) {
			t.Errorf("after 10 hours and %s it is %s", time.Since(began), a.Created.Time().Sub(began))
		}
	})
}

// A change of the quota file does not advance the time: a command gets the ledger's time, not the
// clock's.
func TestRulesOfFilesMoveNoTimeUnderASkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		futures()["the clock of the leader before was an hour ahead"](t, place)
		d := runShifted(t, place, 0)
		defer d.Close()
		d.Host(100)
		selector, err := label.ParseSelector("user=alice")
		if err != nil {
			t.Fatal(err)
		}
		rules := []ledger.Quota{{Selector: selector, Limit: resource.Vector{}.WithMemory(100)}}
		if err := d.SetQuotaFiles(t.Context(), nil, map[string][]ledger.Quota{"file:q": rules}); err != nil {
			t.Fatal(err)
		}
		if a := d.async("a", 1, time.Minute, 0); a.Created > d.Now() {
			t.Errorf("the ledger's time has jumped ahead by %s", a.Created.Sub(d.Now()))
		}
	})
}

// The ledger's time is stored even if no row changes while something depends on it: the next leader
// continues from there.
func TestTimeIsKeptWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		fast := runShifted(t, place, time.Hour)
		fast.Host(100) // which is lost soon
		fast.async("held", 60, 0, 0)
		fast.async("waits", 80, 0, time.Hour)
		time.Sleep(59 * time.Minute)
		fast.Close()
		d := runShifted(t, place, 0)
		defer d.Close()
		if took := d.waitFor(time.Hour, func(c ledger.Counts) bool { return c.Waiting == 0 }); took < slewed(time.Minute)-time.Second || took > slewed(time.Minute+5*time.Second) {
			t.Errorf("the last minute of an hour took %s", took)
		}
	})
}

// Coordinators whose clocks differ take turns: the ledger's time does not run away.
func TestTurnsOfClocksThatDifferDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		for range 20 {
			for _, shift := range []time.Duration{0, time.Hour, time.Hour - time.Second} {
				d := runShifted(t, place, shift)
				d.Host(100)
				d.async("a", 1, time.Second, 0)
				time.Sleep(10 * time.Second)
				if ahead := time.Until(d.Now().Time()); ahead < 0 || ahead > time.Hour+time.Minute {
					t.Fatalf("the ledger is %s ahead", ahead)
				}
				d.Close()
			}
		}
	})
}

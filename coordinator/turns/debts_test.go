package turns

import (
	"testing"
	"time"
)

// one serves one command and charges it.
func one(t *testing.T, q *Queue[string], cost time.Duration) string {
	t.Helper()
	of, ok := q.Next()
	if !ok {
		t.Fatal("nothing waits")
	}
	q.Charge(Cost{Time: cost})
	return of
}

// until serves commands of 100 µs, each followed by another one of quick, until one of the owner
// other comes. It returns the time that this took.
func until(t *testing.T, q *Queue[string], quick Owner, other string) (had time.Duration) {
	t.Helper()
	const cost = 100 * time.Microsecond
	for one(t, q, cost) != other {
		had += cost
		q.Force(quick, quick.Name)
		if had > time.Second {
			t.Fatalf("%s has not had its turn within %s", other, had)
		}
	}
	return had
}

func near(t *testing.T, what string, had, want time.Duration) {
	t.Helper()
	if (had - want).Abs() > 2*quantum {
		t.Errorf("%s: it has waited for %s; want %s", what, had, want)
	}
}

// A caller pays its debt whether or not its commands wait, and whether or not it has had half of
// the batch.
func TestADebtIsPaidWhileNothingWaits(t *testing.T) {
	for what, limits := range map[string]Limits{"it has little of the batch": ample(), "it has half of the batch": {Time: 8 * time.Millisecond, Commands: 1000, Bytes: 1 << 20}} {
		for pays, want := range map[time.Duration]time.Duration{0: 4 * time.Millisecond, time.Millisecond: 3 * time.Millisecond, 3 * time.Millisecond: time.Millisecond} {
			q := New[string](limits)
			slow, quick := owner("slow"), owner("quick")
			q.Force(slow, "slow")
			one(t, q, 4*time.Millisecond)
			q.Force(quick, "quick")
			q.Force(quick, "quick")
			for had := time.Duration(0); had < pays; had += 100 * time.Microsecond {
				one(t, q, 100*time.Microsecond)
				q.Force(quick, "quick")
			}
			q.NextBatch()
			q.Force(slow, "slow")
			near(t, what, until(t, q, quick, "slow"), want)
		}
	}
}

// A caller that has paid its debt leaves nothing behind, neither in the batch nor in later ones.
func TestWhoHasPaidIsForgotten(t *testing.T) {
	q := New[string](ample())
	quick := owner("quick")
	q.Force(owner("slow"), "slow")
	one(t, q, time.Millisecond)
	q.NextBatch() // it is in line, and has no part of this batch
	for range 30 {
		q.Force(quick, "quick")
		q.Force(quick, "quick")
		one(t, q, 100*time.Microsecond)
	}
	if c := q.groups[Callers].callers["slow"]; c != nil {
		t.Errorf("it has paid for long, and there is still %+v", c)
	}
	q.NextBatch()
	for _, list := range [][]*caller[string]{q.resting[:cap(q.resting)], q.above[:cap(q.above)]} {
		for _, c := range list {
			if c != nil {
				t.Errorf("a new batch, and a list keeps %+v", c.Owner)
			}
		}
	}
}

// A class pays its debt, too, while none of its commands wait. It saves up no credit meanwhile.
func TestAClassPaysAndSavesNothing(t *testing.T) {
	report, alice := Owner{Hosts, "h1"}, owner("alice")
	for idle, want := range map[time.Duration]time.Duration{
		0: 4 * time.Millisecond, 2 * time.Millisecond: 2 * time.Millisecond, 5 * time.Millisecond: 0, 500 * time.Millisecond: 0,
	} {
		q := New[string](ample())
		q.Force(report, "report")
		one(t, q, 4*time.Millisecond)
		q.Force(alice, "alice")
		q.Force(alice, "alice")
		for had := time.Duration(0); had < idle; had += 100 * time.Microsecond {
			one(t, q, 100*time.Microsecond)
			q.Force(alice, "alice")
		}
		for i := range 10 {
			q.Force(Owner{Hosts, string(rune('a' + i))}, "report")
		}
		near(t, "after "+idle.String(), until(t, q, alice, "report"), want)
		hosts, callers := 100*time.Microsecond, time.Duration(0) // since then
		for range 8 {
			if one(t, q, 100*time.Microsecond) == "report" {
				hosts += 100 * time.Microsecond
			} else {
				callers += 100 * time.Microsecond
				q.Force(alice, "alice")
			}
		}
		if (hosts - callers).Abs() > 2*quantum {
			t.Errorf("after %s hosts have had %s, and callers %s; want the same", idle, hosts, callers)
		}
	}
}

// The debt of a class is forgiven when no commands wait.
func TestNothingIsOwedWhenNothingWaits(t *testing.T) {
	q := New[string](ample())
	report, alice := Owner{Hosts, "h1"}, owner("alice")
	q.Force(report, "report")
	one(t, q, 5*time.Millisecond)
	if _, ok := q.Next(); ok {
		t.Fatal("something waits")
	}
	q.Force(alice, "alice")
	q.Force(alice, "alice")
	q.Force(report, "report")
	near(t, "nothing waited", until(t, q, alice, "report"), 0)
}

// The bound of half a batch starts anew with each batch, and holds for the last command of a
// caller, too.
func TestHalfIsOfEachBatch(t *testing.T) {
	limits := ample()
	limits.Commands = 10
	q := New[string](limits)
	for range 3 {
		for range 4 {
			q.Force(owner("mallory"), "mallory")
			one(t, q, 0)
		}
		q.NextBatch()
	}
	for range 6 {
		q.Force(owner("mallory"), "mallory")
	}
	for range 7 {
		q.Force(owner("alice"), "alice")
	}
	count := 0
	for range 10 {
		if one(t, q, 0) == "mallory" {
			count++
		}
	}
	if count != 5 {
		t.Errorf("mallory has had %d commands of a batch of 10; want half of it, whatever he had before, while alice has some waiting", count)
	}

	q = New[string](limits)
	for range 5 {
		q.Force(owner("mallory"), "mallory")
		one(t, q, 0)
	}
	q.Force(owner("mallory"), "his last")
	q.Force(owner("alice"), "alice")
	q.Force(owner("alice"), "alice")
	for range 2 {
		if of := one(t, q, 0); of != "alice" {
			t.Errorf("mallory has had half of the batch, and alice waits; next is %s", of)
		}
	}
}

// An uncharged command has the smallest cost, and Charge before Next charges nothing.
func TestEachCommandIsCharged(t *testing.T) {
	limits := ample()
	limits.Commands = 2
	q := New[string](limits)
	q.Charge(Cost{Time: time.Hour})
	for range 3 {
		q.Force(owner("alice"), "alice")
	}
	q.Next()
	if q.Next(); q.Full() {
		t.Error("one is charged, and a batch of two is full")
	}
	if q.Next(); !q.Full() {
		t.Error("two are charged, and a batch of two is not full")
	}
}

package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// However much is due at one time, no batch has more of it than its bound, and other commands run
// in between.
func TestWhatIsDueAtOnceIsDoneInBatchesOfBoundedSize(t *testing.T) {
	const most, many = 10, 95
	for what, test := range map[string]struct {
		wait, lasts time.Duration
	}{
		"waits that end":        {wait: time.Minute},
		"reservations that end": {lasts: time.Minute},
	} {
		w := newLiveWorld(t, ledger.Config{OwnChanges: most, Interval: time.Hour}, "h1")
		allocate := func(user string, memory int64, wait, lasts time.Duration) ledger.Allocation {
			result, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{
				Actor: identity.Local(), Labels: label.Of("user", user), Wait: wait, ReservationTTL: lasts, Async: true,
				Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
			})
			must(t, err)
			return result.Allocation
		}
		limit := int64(1)
		if test.wait == 0 {
			limit = many + 1
		}
		must(t, w.ledger.PutQuota(w.now, ledger.Quota{Limit: resource.Vector{}.WithMemory(limit * many)}))
		if test.wait > 0 {
			allocate("runner", many, 0, 2*time.Hour)
		}
		ids := make([]ledger.ID, many)
		for i := range ids {
			sooner := time.Duration(0)
			if i < most-1 {
				sooner = 30 * time.Second
			}
			ids[i] = allocate(fmt.Sprint("user", i%7), 1, max(0, test.wait-sooner), max(0, test.lasts-sooner)).ID
		}
		w.ledger.Changes()
		w.ledger.Durable(w.now, w.ledger.Revision())
		batches := 0
		drain := func() {
			for more := true; more; batches++ {
				// A command does what is due before itself, and no batch has more for it.
				_, _ = w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: 1 << 60})
				w.ledger.Advance(w.now)
				if due, set := w.ledger.NextTimer(); set && due <= w.now {
					t.Fatalf("%s: more is due in a batch at %d", what, due)
				}
				w.audit()
				if n := len(w.ledger.Changes().Transitions); n > most {
					t.Errorf("%s: a batch has %d transitions: want %d at most", what, n, most)
				}
				due, set := w.ledger.NextTimer()
				more = set && due <= w.now
			}
		}
		w.now = w.now.Add(30 * time.Second)
		drain() // a batch that is not full
		w.now = w.now.Add(31 * time.Second)
		drain()
		if least := (many - most) / most; batches < least {
			t.Errorf("%s: all was done in %d batches", what, batches)
		}
		for i, id := range ids {
			if a, live := w.ledger.Get(id); live {
				t.Fatalf("%s: request %d is %s", what, i, a.State)
			}
		}
	}
}

// A batch that is full has nothing to do until it is taken, even if no host is left whose silence
// counts.
func TestAFullBatchHasNothingToDo(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{OwnChanges: 1, LostAfter: time.Minute}, "h1")
	must(t, w.ledger.PutQuota(w.now, ledger.Quota{Limit: resource.Vector{}.WithMemory(1)}))
	for range 3 {
		_, err := w.allocate("c", "", "h1", 1, time.Hour)
		must(t, err)
	}
	// suspect, then lost
	for _, after := range []time.Duration{30 * time.Second, 10 * time.Minute} {
		w.now = w.now.Add(after)
		for range 5 {
			w.ledger.Advance(w.now)
			w.ledger.Changes()
		}
	}
	if info, _ := w.ledger.Host("h1"); info.State != ledger.LostHost || w.ledger.Behind() {
		t.Fatalf("the host is %v", info.State)
	}
	w.now = w.now.Add(time.Hour)
	w.ledger.Advance(w.now)
	if due, set := w.ledger.NextTimer(); set || !w.ledger.Behind() {
		t.Errorf("due at %d: %t", due, set)
	}
	w.ledger.Changes()
	if due, set := w.ledger.NextTimer(); !set || due != w.now {
		t.Errorf("after it was taken, due at %d: %t", due, set)
	}
}

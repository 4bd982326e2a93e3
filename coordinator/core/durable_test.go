package core

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A store may be slow, and a time to live short.
func TestATimeToLiveCountsFromTheCommit(t *testing.T) {
	const ttl, slow = 4 * time.Second, 6 * time.Second
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	request := r.askAs("a", ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: "a", Labels: label.Of("user", "alice"), ReservationTTL: ttl,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(100)),
	})
	state := func() ledger.State {
		t.Helper()
		if err := r.core.Advance(r.now); err != nil {
			t.Fatal(err)
		}
		a, _ := r.core.Ledger().Get(request.Result.Allocation.ID)
		return a.State
	}
	// slowly commits the batch, while the coordinator goes on.
	slowly := func() {
		t.Helper()
		batch := r.core.Take()
		for range 6 {
			r.now = r.now.Add(slow / 6)
			if state() != ledger.Reserved {
				t.Fatal("it is gone before its commit has ended")
			}
		}
		if err := r.store.Commit(t.Context(), batch.Batch); err != nil {
			t.Fatal(err)
		}
		batch.Stored(r.now)
		batch.Answer(nil)
		r.core.Done(r.now)
	}
	// lives is how long it goes on from there.
	lives := func() time.Duration {
		t.Helper()
		for from := r.now; ; r.now = r.now.Add(100 * time.Millisecond) {
			if state() != ledger.Reserved {
				return r.now.Sub(from)
			}
		}
	}
	slowly()
	r.answered("a reserved")
	if told := request.Result.Allocation.Expires; told != r.now.Add(ttl) {
		t.Errorf("its caller is told %s: want the whole time to live, %s", told.Sub(r.now), ttl)
	}
	r.now = r.now.Add(ttl / 2)
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.Renew(now, ledger.RenewCommand{Actor: identity.Local(), ID: request.Result.Allocation.ID}); err != nil {
			t.Fatalf("within its time to live: %v", err)
		}
	})
	slowly()
	if told, got := request.Result.Allocation.Expires, lives(); got != ttl || r.now < told {
		t.Errorf("it has lived for %s after its renewal was durable, until %d: want %s, and not less than %d, which its caller was told", got, r.now, ttl, told)
	}
}

// A commit is abandoned, its callers get that answer, and the Request is reused for another one:
// then the commit becomes durable.
func TestACommitThatEndsLateTouchesNoAskOfAnother(t *testing.T) {
	request := &Request{Done: func(error) {}}
	batch := &Batch{Commands: []Command{request}, grace: time.Hour}
	batch.Answer(store.ErrUnknownOutcome)
	request.Result.Allocation = ledger.Allocation{State: ledger.Reserved, GrantRevision: 1, ReservationTTL: time.Minute}
	batch.Stored(ledger.Instant(time.Hour))
	batch.Answer(nil)
	if got := request.Result.Allocation.Expires; got != 0 {
		t.Errorf("another request's grant is told to last until %d", got)
	}
}

func TestABatchGivesItsTransitionsBackWhenItIsDurable(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.commit()
	r.ask("a", 10, 0)
	first := r.core.Take()
	array := &first.Transitions[0]
	r.ask("b", 10, 0)
	if first.Transitions[0].RequestID != "a" {
		t.Error("the batch was written over while it is under way")
	}
	first.Answer(nil)
	r.core.Done(r.now)
	second := r.core.Take() // its array was taken before the first was durable
	if &second.Transitions[0] == array {
		t.Error("the second batch has the array of the first, which was under way")
	}
	r.ask("c", 10, 0)
	second.Answer(nil)
	r.core.Done(r.now)
	if third := r.core.Take(); &third.Transitions[0] != array {
		t.Error("the third batch does not have the array of the first")
	}
}

package core

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/trapplacer"
)

// TestAStoredRequestThatMakesTheLedgerPanicIsSetAside: the command that frees the resources for it
// is not to blame. The request must not keep coordinators from leading, as it would if each load
// decided it again.
func TestAStoredRequestThatMakesTheLedgerPanicIsSetAside(t *testing.T) {
	disk := storetest.NewMemory("test")
	sprung := new(atomic.Int64)
	r := newRig(t, disk.Open())
	r.host()
	if _, err := r.asks("full", 100, 0, false); err != nil {
		t.Fatal(err)
	}
	request, err := r.asks("poisoned", trapMemory, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	r.commit()
	r.answers = nil
	r.core.Drop(ErrNotLeading)

	r.core.newPlacer = trapplacer.Trap("Choose", trapMemory, sprung)
	meta, err := r.store.Lead(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := r.store.Load(context.Background(), meta.Epoch, r.now.Time(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.core.Lead(r.now, meta, snapshot); err == nil || r.core.Leading() {
		t.Fatalf("%v; want a fault: the placer panics over a stored row", err)
	}
	r.lead(0) // the second attempt leads
	r.commit()
	if _, live := r.core.Ledger().Get(request.Result.Allocation.ID); live || sprung.Load() != 1 {
		t.Errorf("the poisoned request is live: %t, after %d panics", live, sprung.Load())
	}
	stored, err := r.store.Get(context.Background(), request.Result.Allocation.ID)
	if err != nil || stored.State != ledger.Canceled || !strings.Contains(stored.Reason, "a trap in Choose") {
		t.Errorf("the store has it as %s (%s), %v", stored.State, stored.Reason, err)
	}
}

// TestAStoredRequestWhoseGrantPanicsIsSetAside: neither the command that releases the resources for
// it nor the next one is to blame.
func TestAStoredRequestWhoseGrantPanicsIsSetAside(t *testing.T) {
	r, sprung := trapRig(t, "Book")
	r.host()
	full, err := r.asks("full", 100, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	poisoned, err := r.asks("poisoned", trapMemory, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	r.commit()
	release := func() error {
		return r.core.Do(r.now, &Call{
			Do: func(c *Core, now ledger.Instant) {
				_, _ = c.ledger.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: full.Result.Allocation.ID})
			},
			From: &Origin{Procedure: "/Release", Caller: "alice", Message: &bursarv1.ReleaseRequest{Id: full.Result.Allocation.ID.String()}},
			Done: func(error) {},
		})
	}
	r.faulted(release())
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	if err := release(); err != nil {
		t.Fatal(err)
	}
	r.commit()
	if now, live := r.core.Ledger().Get(full.Result.Allocation.ID); live {
		t.Errorf("what was given back is %s", now.State)
	}
	if _, live := r.core.Ledger().Get(poisoned.Result.Allocation.ID); live || sprung.Load() != 1 {
		t.Errorf("the request whose grant panics is live: %t, after %d panics", live, sprung.Load())
	}
}

// TestAGrantThatPanicsAfterAVetoIsNotLookedAtAgain: later reports of its host do not end another
// leadership.
func TestAGrantThatPanicsAfterAVetoIsNotLookedAtAgain(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	poisoned, err := r.asks("poisoned", trapMemory, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	r.commit()
	r.answers = nil
	sprung := new(atomic.Int64)
	r.core.newPlacer = trapplacer.Trap("Choose", trapMemory, sprung)
	id := poisoned.Result.Allocation.ID
	veto := func(sequence uint64) error {
		r.core.Drop(ErrNotLeading)
		r.lead(0)
		return r.core.Do(r.now, &Call{
			Do: func(c *Core, now ledger.Instant) {
				free := int64(90)
				_, _ = c.ledger.Sync(now, ledger.SyncCommand{
					HostID: "h", Incarnation: 1, Sequence: sequence, Seen: c.ledger.Revision(), Sample: &ledger.Sample{Time: now, MemoryAvailable: &free},
					Vetoes: []ledger.Veto{{ID: id, Revision: c.ledger.Revision(), Headroom: 80}},
				})
			},
			From: &Origin{Procedure: "/Sync", Caller: "h", Message: &bursarv1.ReleaseRequest{Id: id.String()}},
			Done: func(error) {},
		})
	}
	r.faulted(veto(100))
	if err := veto(101); err != nil {
		t.Fatal(err)
	}
	r.commit()
	if a, live := r.core.Ledger().Get(id); live || sprung.Load() != 1 {
		t.Errorf("it is %s, after %d panics", a.State, sprung.Load())
	}
}

// TestWhoRepeatsTheRequestThatPanicsIsToBlame: a waiting request makes the ledger panic while
// another request of its caller arrives. If that is its repeat, it is refused. A request without an
// id is not.
func TestWhoRepeatsTheRequestThatPanicsIsToBlame(t *testing.T) {
	for name, c := range map[string]struct {
		id, first, then string
		memory          int64
	}{
		"a repeat":   {id: "r", memory: trapMemory, first: "fault", then: "refused"},
		"without id": {id: "", memory: 1, first: "try again", then: "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := trapRig(t, "Choose")
			r.host()
			r.do(func(l *ledger.Ledger, now ledger.Instant) {
				selector, err := label.ParseSelector("user=*")
				if err == nil {
					err = l.PutQuota(now, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(trapMemory)})
				}
				if err != nil {
					t.Fatal(err)
				}
			})
			request := func(id string, memory int64, wait time.Duration) {
				if _, err := r.asks(id, memory, wait, true); err != nil {
					t.Fatal(err)
				}
			}
			request("full", 10, 0)
			request(c.id, trapMemory, time.Hour) // it waits behind the quota: no host is looked for
			r.commit()
			r.answered("full: reserved", c.id+": waiting")
			r.now = r.now.Add(3 * time.Minute) // the reservation expires as the next command begins
			_, err := r.asks(c.id, c.memory, 0, true)
			r.faulted(err)
			r.answered(c.id + ": " + c.first)
			r.do(func(l *ledger.Ledger, now ledger.Instant) { r.heartbeat(l, now, 100, 2) })
			request(c.id, c.memory, 0)
			r.commit()
			r.answered(c.id + ": " + c.then)
		})
	}
}

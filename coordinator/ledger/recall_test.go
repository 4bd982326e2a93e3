package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// recalling is a ledger that knew all remembered request ids from the beginning, another one that
// is told of them page by page, and the store of the second.
type recalling struct {
	whole, paged *ledger.Ledger
	store        *mirror
	now          ledger.Instant
	pages        []ledger.Remembered // that are still to come, the one that ended last first
	sequence     uint64
	grants       int
}

var recalledNames = []string{"a", "b", "c", "d", "e", "f"}

func newRecalling(t *rapid.T) *recalling {
	r := &recalling{store: newMirror(), now: start}
	r.store.hosts["h1"] = ledger.HostRecord{ID: "h1", Capacity: resource.Vector{}.WithMemory(100), Incarnation: 1, Registered: 1}
	r.store.lastID, r.store.revision = 100, 100
	for id := range rapid.IntRange(0, 12).Draw(t, "rows") {
		a := ledger.Allocation{
			ID: ledger.ID(id + 1), State: ledger.Released, Caller: "alice", RequestID: rapid.SampledFrom(recalledNames).Draw(t, "name"), RequestHash: 7,
			Labels: label.Of("user", "alice"), Ended: start.Add(time.Duration(id-12) * 2 * time.Hour), Forget: rapid.IntRange(0, 4).Draw(t, "forget") == 0,
		}
		r.store.rows[a.ID] = a
	}
	snapshot := r.store.snapshot(start)
	r.pages = slices.Clone(snapshot.Remembered)
	slices.SortFunc(r.pages, func(a, b ledger.Remembered) int { return int(b.Ended - a.Ended) })
	// One whose columns do not say when it ended comes before the others.
	damaged := rapid.SampledFrom(recalledNames).Draw(t, "damaged")
	if i := slices.IndexFunc(r.pages, func(p ledger.Remembered) bool { return p.RequestID == damaged }); i >= 0 {
		r.pages = slices.Concat(r.pages[i:i+1], r.pages[:i], r.pages[i+1:])
	}
	r.whole, r.paged = ledger.New(ledger.Config{}, newPlainPlacer()), ledger.New(ledger.Config{}, newPlainPlacer())
	if err := r.whole.Restore(start, snapshot); err != nil {
		t.Fatal(err)
	}
	snapshot.Remembered, snapshot.Recalling = nil, true
	if err := r.paged.Restore(start, snapshot); err != nil {
		t.Fatal(err)
	}
	r.report(t)
	return r
}

// both gives both ledgers the same command, and the store what became of it.
func both[R any](r *recalling, f func(*ledger.Ledger) (R, error)) (ofWhole, ofPaged R, errWhole, errPaged error) {
	ofWhole, errWhole = f(r.whole)
	ofPaged, errPaged = f(r.paged)
	r.whole.Changes()
	r.store.fold(r.paged.Changes())
	return ofWhole, ofPaged, errWhole, errPaged
}

func (r *recalling) report(t *rapid.T) {
	r.sequence++
	free := int64(100)
	a, b, err, _ := both(r, func(l *ledger.Ledger) (ledger.SyncResult, error) {
		return l.Sync(r.now, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: r.sequence, Seen: l.Revision(), Full: true, Sample: &ledger.Sample{MemoryAvailable: &free},
		})
	})
	if err != nil || a.Interval != b.Interval {
		t.Fatalf("%+v, %+v, %v", a, b, err)
	}
}

// past is what the store has of a request id now.
func (r *recalling) past(name string) *ledger.Remembered {
	var latest ledger.Allocation
	for _, a := range r.store.rows {
		if a.RequestID == name && !a.Forget && a.ID > latest.ID {
			latest = a
		}
	}
	if latest.ID == 0 || latest.State.Live() {
		return &ledger.Remembered{}
	}
	return &ledger.Remembered{Caller: latest.Caller, RequestID: name, RequestHash: latest.RequestHash, ID: latest.ID, Ended: latest.Ended}
}

func (r *recalling) allocate(t *rapid.T) {
	name, hash := rapid.SampledFrom(recalledNames).Draw(t, "name"), rapid.SampledFrom([]uint64{7, 7, 7, 8}).Draw(t, "hash")
	c := ledger.AllocateCommand{
		Actor: identity.Actor{Name: "alice", Anyone: true}, RequestID: name, RequestHash: hash, Labels: label.Of("user", "alice"),
		Resource: resource.NewResource(resource.Vector{}.WithMemory(30)), Past: r.past(name),
	}
	a, b, errA, errB := both(r, func(l *ledger.Ledger) (ledger.AllocateResult, error) { return l.Allocate(r.now, c) })
	r.grants += len(a.Allocation.HostID)
	if a.Ended != b.Ended || a.Allocation.ID != b.Allocation.ID || fmt.Sprint(errA) != fmt.Sprint(errB) {
		t.Fatalf("invariant 5: request %s is %s, ended %t, %v; one that knew all from the beginning says %s, ended %t, %v",
			name, b.Allocation.ID, b.Ended, errB, a.Allocation.ID, a.Ended, errA)
	}
}

// end ends one that is live, so that its request id is remembered or may be used again.
func (r *recalling) end(t *rapid.T) {
	var live []ledger.ID
	r.paged.Allocations(0, func(a *ledger.Allocation) bool { live = append(live, a.ID); return true })
	if len(live) == 0 {
		return
	}
	id, forget := rapid.SampledFrom(live).Draw(t, "which"), rapid.Bool().Draw(t, "by a veto")
	if forget {
		r.sequence++
		_, _, errA, errB := both(r, func(l *ledger.Ledger) (ledger.SyncResult, error) {
			return l.Sync(r.now, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: r.sequence, Seen: l.Revision(), Vetoes: []ledger.Veto{{ID: id, Revision: l.Revision()}}})
		})
		r.must(t, errA, errB)
		r.report(t) // which opens the host again
		return
	}
	_, _, errA, errB := both(r, func(l *ledger.Ledger) (ledger.Allocation, error) {
		return l.Release(r.now, ledger.ReleaseCommand{Actor: identity.Actor{Name: "alice", Anyone: true}, ID: id})
	})
	r.must(t, errA, errB)
}

func (r *recalling) must(t *rapid.T, errs ...error) {
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (r *recalling) recall(t *rapid.T) {
	n := rapid.IntRange(0, len(r.pages)).Draw(t, "n")
	r.paged.Recall(r.now, r.pages[:n], n == len(r.pages))
	r.pages = r.pages[n:]
}

// A request is answered in the same way at any point of the recalling, whatever happened since the
// restart; and once all are recalled, nothing differs.
func TestARequestIDIsAnsweredAlikeWhileIDsAreRecalled(t *testing.T) {
	grants := 0
	defer func() {
		if grants == 0 {
			t.Error("nothing was granted")
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		r := newRecalling(t)
		defer func() { grants += r.grants }()
		t.Repeat(map[string]func(*rapid.T){
			"allocate": r.allocate, "allocate again": r.allocate, "end": r.end, "recall": r.recall,
			"time passes": func(t *rapid.T) {
				r.now = r.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(t, "time"))
				r.report(t)
			},
		})
		r.paged.Recall(r.now, r.pages, true)
		r.whole.Advance(r.now)
		for _, name := range recalledNames {
			id, live, known := r.whole.ByRequest("alice", name)
			if gotID, gotLive, gotKnown := r.paged.ByRequest("alice", name); gotID != id || gotLive != live || gotKnown != known {
				t.Fatalf("in the end request %s is %s %t %t; want %s %t %t", name, gotID, gotLive, gotKnown, id, live, known)
			}
		}
		if got, want := r.paged.Counts().Remembered, r.whole.Counts().Remembered; got != want || r.paged.Recalling() {
			t.Fatalf("%d are remembered, recalling %t; want %d", got, r.paged.Recalling(), want)
		}
		due, waits := r.whole.NextTimer()
		if gotDue, gotWaits := r.paged.NextTimer(); gotDue != due || gotWaits != waits {
			t.Fatalf("the next is due at %d %t; want %d %t", gotDue, gotWaits, due, waits)
		}
	})
}

func TestARequestThatWasNotLookedUpIsNotGranted(t *testing.T) {
	l := restored(t, ledger.Snapshot{Recalling: true})
	c := ledger.AllocateCommand{Actor: identity.Local(), RequestID: "r", Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1))}
	if _, err := l.Allocate(start, c); !errors.Is(err, ledger.ErrNotRecalled) {
		t.Errorf("%v; want that it was not looked up", err)
	}
	l.Recall(start, nil, true)
	if _, err := l.Allocate(start, c); errors.Is(err, ledger.ErrNotRecalled) {
		t.Error(err)
	}
}

// An engine that the ledger does not know may have ended as another request, which only its row
// says: it is adopted once that is known.
func TestAnUnknownEngineIsAdoptedOnceAllIsRecalled(t *testing.T) {
	l := restored(t, ledger.Snapshot{Recalling: true})
	engines := func(names ...string) (list []ledger.EngineReport) {
		for i, name := range names {
			list = append(list, ledger.EngineReport{ID: ledger.ID(i + 1), Grant: &ledger.Allocation{
				Caller: "alice", RequestID: name, Labels: label.Of("user", "alice"), Process: ledger.Process{PID: 7, StartTime: 7, BootID: "boot"},
				Entitled: resource.NewResource(resource.Vector{}.WithMemory(1)),
			}})
		}
		return list
	}
	sync := func(sequence uint64) ledger.SyncResult {
		result, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: sequence, Seen: l.Revision(), Full: true, Engines: engines("mine", "other")})
		must(t, err)
		return result
	}
	if result := sync(1); result.Action != ledger.ActionResync || len(result.Grants) != 0 || result.NotTaken.Count != 0 {
		t.Errorf("while it is recalling: %+v; want it asked again", result)
	}
	l.Recall(start, []ledger.Remembered{{Caller: "alice", RequestID: "another", ID: 2, Ended: start.Add(-time.Hour)}}, true)
	if result := sync(2); len(result.Grants) != 1 || result.Grants[0].ID != 1 || result.NotTaken.Count != 1 {
		t.Errorf("after that: %+v; want the first adopted, and the second not taken", result)
	}
}

package sim

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// sharedStore is the database of all coordinators, the network in front of it, and the second
// record of what was committed.
type sharedStore struct {
	w     *World
	place *storetest.Memory
	known storeRecord
	down  bool
	slow  bool

	leaderships uint64 // how many have begun, in all of its pasts
	restored    int    // how often it was put back
	backups     []backup
}

// backup is an earlier state of the store.
type backup struct {
	at    time.Time
	place *storetest.Memory
	known storeRecord
}

func newSharedStore(w *World) *sharedStore {
	return &sharedStore{w: w, place: storetest.NewMemory("store"), known: newStoreRecord()}
}

// reaches reports whether a coordinator can talk to the store.
func (s *sharedStore) reaches(c *coord) bool { return !s.down && !c.cutStore }

// latency is that of one way, with the work at its end.
func (s *sharedStore) latency() time.Duration {
	if !s.w.calm && (s.w.chance(200) || s.slow && s.w.chance(4)) {
		return s.w.between(500*time.Millisecond, 3*time.Second)
	}
	return s.w.between(50*time.Microsecond, 5*time.Millisecond)
}

// exchange sends something to the store and its answer back, if both ways are open. The message
// may arrive after its sender has died, but not in a place that the store was copied to.
func (s *sharedStore) exchange(c *coord, do func(), then func()) {
	incarnation, place := c.incarnation, s.place
	s.w.after(s.latency(), "", func() {
		if !s.reaches(c) || s.place != place {
			return
		}
		do()
		s.w.after(s.latency(), "", func() {
			if s.reaches(c) {
				c.wake(incarnation, then)
			}
		})
	})
}

// lead begins a leadership and, a moment later, reads what is there. If the store cannot be
// reached, done does not run.
func (s *sharedStore) lead(c *coord, atLeast uint64, done func(led)) {
	var o led
	disk, ahead := c.disk, c.ahead
	s.exchange(c, func() {
		if o.meta, o.err = disk.Lead(context.Background(), atLeast); o.err != nil {
			return
		}
		s.leaderships++
		o.leadership = s.leaderships
		s.known.lead(s.w, o.leadership, o.meta.Epoch)
		s.w.tellf("store: %s takes epoch %d", c.name, o.meta.Epoch)
	}, func() {
		if o.err != nil {
			done(o)
			return
		}
		s.exchange(c, func() {
			var loaded core.Loaded
			if loaded, o.err = ahead.Load(context.Background(), o.meta, s.w.now.Add(-retention), false); loaded.Prove != nil {
				s.w.tally.Filed++
				if err := loaded.Prove(context.Background()); err != nil {
					s.w.failf(4, "what was filed cannot be proven: %v", err)
				}
			}
			o.snapshot = loaded.Snapshot
			if o.err == nil && o.snapshot.Filed != nil {
				s.checkFiled(disk, o)
			}
			if o.err == nil {
				s.w.callers.checkStored(disk)
			}
		}, func() { done(o) })
	})
}

// checkFiled compares what a coordinator has filed, ahead or while it was loaded, with the rows.
func (s *sharedStore) checkFiled(disk store.Store, o led) {
	loaded, err := core.Load(context.Background(), disk, o.meta, s.w.now.Add(-retention), false, nil)
	if err != nil {
		s.w.failf(4, "what was filed is used, and the store cannot be loaded: %v", err)
		return
	}
	filed := o.snapshot
	filed.Filed.Rows(&filed)
	filed.Filed = nil
	byID := func(a, b ledger.Allocation) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(filed.Allocations, byID)
	slices.SortFunc(loaded.Allocations, byID)
	if reflect.DeepEqual(loaded.Allocations, filed.Allocations) { // nearly always, and cheap
		loaded.Allocations, filed.Allocations = nil, nil
	}
	if diff := gocmp.Diff(loaded, filed, cmpopts.EquateEmpty()); diff != "" {
		s.w.failf(4, "what was filed is not what is stored (-stored +filed):\n%s", diff)
	}
}

// commit makes a batch durable, or fails in one of the possible ways. If the store cannot be
// reached, done does not run.
func (s *sharedStore) commit(c *coord, f *inFlight, done func(error)) {
	disk := c.disk
	happens, told := true, error(nil)
	if faults := s.w.commitFaults; !s.w.calm && faults > 0 && s.w.chance(faults) {
		switch s.w.rng.IntN(3) {
		case 0:
			happens, told = false, store.ErrIO
		case 1:
			happens, told = false, store.ErrUnknownOutcome
		case 2:
			told = store.ErrUnknownOutcome
		}
	}
	s.exchange(c, func() {
		if told != nil {
			s.w.tellf("store: the commit of revision %d by %s will end with %q, done: %t", f.batch.Revision, c.name, told, happens)
		}
		if !happens {
			return
		}
		if err := disk.Commit(context.Background(), f.batch.Batch); err != nil {
			s.w.tellf("store: %s: %v", c.name, err)
			s.w.checkTaken(c.name, err)
			told = err
			return
		}
		s.known.commit(s.w, c.name, f)
	}, func() { done(told) })
}

// mark is a moment in the store's history: what begins after it must not see less.
type mark struct {
	restored int
	revision uint64
}

func (s *sharedStore) mark() mark { return mark{s.restored, s.known.sequence} }

// mostBackups is how many are kept.
const mostBackups = 4

func (s *sharedStore) backUp() {
	if len(s.backups) == mostBackups {
		s.backups = s.backups[1:]
	}
	s.backups = append(s.backups, backup{s.w.now, s.place.Copy(s.id()), s.known.clone()})
}

func (s *sharedStore) id() string {
	meta, err := s.place.Open().Meta(context.Background())
	if err != nil {
		panic(err)
	}
	return meta.StoreID
}

// goAway makes the store unreachable for a while.
func (s *sharedStore) goAway(d time.Duration, then func()) {
	if s.down {
		return
	}
	s.w.tellf("store: is away for %s", d)
	s.down = true
	s.w.after(d, "", func() {
		then()
		s.w.tellf("store: is back")
		s.down = false
	})
}

// putBack replaces the database with one that lacks the latest commits, or those of the last
// minute. Nobody is told.
func (s *sharedStore) putBack() {
	if len(s.backups) == 0 {
		return
	}
	b := s.backups[s.w.rng.IntN(len(s.backups))]
	if s.w.chance(2) {
		b = s.backups[len(s.backups)-1]
	}
	s.goAway(s.w.between(time.Second, 5*time.Second), func() {
		s.w.tellf("store: is as it was at %s, in epoch %d at revision %d", b.at.Sub(start()), b.known.epoch, b.known.sequence)
		s.w.tally.Restored++
		s.place.Restore(b.place)
		s.becomes(b.known.clone())
	})
}

// copyTo moves everybody to a copy of the store, which has another identity: all coordinators are
// ended first.
func (s *sharedStore) copyTo(b backup) {
	if s.down {
		return
	}
	w := s.w
	w.tally.Copied++
	for _, c := range w.coords {
		c.kill()
		w.after(w.between(2*time.Second, 6*time.Second), "", c.boot)
	}
	name := fmt.Sprintf("copy%d", w.tally.Copied)
	w.tellf("store: moves to %s, as it was at %s", name, b.at.Sub(start()))
	s.place = b.place.Copy(name)
	s.becomes(b.known.clone())
	s.backups = nil
}

// becomes begins another past of the store. What was only in the one before is undone.
func (s *sharedStore) becomes(past storeRecord) {
	s.restored++
	for id, r := range s.known.rows {
		if past.rows[id] != r {
			s.w.callers.pastOf(id.String()).undone = true
		}
	}
	s.known = past
}

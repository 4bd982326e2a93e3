package tracker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// world is an agent, a coordinator, the processes of the host, and a network between them that
// drops, repeats, delays and reorders messages.
type world struct {
	now     time.Time
	books   *books
	backup  books
	tracker *tracker.Tracker
	saved   tracker.Snapshot
	starts  uint64          // of the agent
	alive   map[int32]bool  // processes
	engines map[string]bool // that were confirmed; false: it was released
	pid     int32
	wire    []func(t *rapid.T) // deliveries that are under way
}

func newWorld() *world {
	w := &world{now: start, books: newBooks(), alive: map[int32]bool{}, engines: map[string]bool{}}
	w.backup = w.books.backup()
	w.restart(nil)
	return w
}

// restart makes a new incarnation of the agent, with the saved state.
func (w *world) restart(*rapid.T) {
	w.starts++
	w.tracker = tracker.New(w.now, host(w.starts), w.saved)
	w.measure(nil)
}

func (w *world) measure(*rapid.T) {
	var m tracker.Measurement
	m.Sample = free(100_000)
	for _, e := range w.tracker.Engines() {
		m.Usages = append(m.Usages, tracker.Usage{
			ID: e.ID, PID: e.Process.GetPid(), StartTime: e.Process.GetStartTime(), Ended: !w.alive[e.Process.GetPid()],
			UnreclaimableBytes: int64(e.Process.GetPid()) * mib,
		})
	}
	w.tracker.Measure(w.now, m)
}

// send puts a delivery on the wire: it may happen once, twice, later, or never. A delivery for an
// agent that has restarted since is lost with its connection.
func (w *world) send(t *rapid.T, deliver func(t *rapid.T)) {
	to := w.tracker
	for range rapid.IntRange(0, 2).Draw(t, "deliveries") {
		w.wire = append(w.wire, func(t *rapid.T) {
			if w.tracker == to {
				deliver(t)
			}
		})
	}
}

func (w *world) deliver(t *rapid.T) {
	if len(w.wire) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.wire)-1).Draw(t, "delivery")
	next := w.wire[i]
	w.wire = slices.Delete(w.wire, i, i+1)
	next(t)
}

// answer sends the result of a local caller's call back through the agent.
func (w *world) answer(t *rapid.T, asOf uint64, a *bursarv1.Allocation) {
	if a != nil {
		w.send(t, func(*rapid.T) { w.tracker.Observe(w.now, a, asOf) })
	}
}

func (w *world) allocate(t *rapid.T) {
	w.answer(t, w.tracker.Epoch(), w.books.grant(rapid.Int64Range(0, 1000).Draw(t, "memory")))
}

func (w *world) confirm(t *rapid.T) {
	ids := w.books.ids(reserved)
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "confirm")
	if _, vetoed := w.tracker.Veto(id); vetoed {
		return
	}
	w.pid++
	w.alive[w.pid], w.engines[id] = true, true
	w.answer(t, w.tracker.Epoch(), w.books.confirm(id, w.pid))
}

// confirmForSure makes a Confirm whose answer reaches the caller. The agent has recorded and stored
// it before.
func (w *world) confirmForSure(t *rapid.T) {
	ids := w.books.ids(reserved)
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "confirm")
	w.pid++
	w.alive[w.pid], w.engines[id] = true, true
	asOf := w.tracker.Epoch()
	confirmed := w.books.confirm(id, w.pid)
	w.tracker.Show(id, confirmed.GetProcess())
	w.tracker.Observe(w.now, confirmed, asOf)
	w.save(t)
}

func (w *world) release(t *rapid.T) {
	ids := append(w.books.ids(reserved), w.books.ids(active)...)
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "release")
	w.engines[id] = false
	w.answer(t, w.tracker.Epoch(), w.books.end(id))
}

func (w *world) die(t *rapid.T) {
	if w.pid > 0 {
		delete(w.alive, rapid.Int32Range(1, w.pid).Draw(t, "dies"))
	}
}

func (w *world) lead(*rapid.T) { w.books.lead() }

func (w *world) keep(*rapid.T) { w.backup = w.books.backup() }

func (w *world) restore(*rapid.T) { w.books.restore(w.backup) }

func (w *world) sync(t *rapid.T) {
	w.now = w.now.Add(time.Second)
	if w.tracker.NeedsRegister() {
		q := w.tracker.BuildRegister()
		w.send(t, func(t *rapid.T) {
			r := w.books.register(q)
			if r == nil {
				return
			}
			w.send(t, func(*rapid.T) { _ = w.tracker.Registered(r) }) // refused where it is old
		})
		return
	}
	q := proto.CloneOf(w.tracker.BuildSync(w.now))
	if want := digest(w.tracker.Engines()); q.GetDigest() != want {
		t.Fatalf("digest %x, want %x", q.GetDigest(), want)
	}
	w.send(t, func(t *rapid.T) {
		r := proto.CloneOf(w.books.sync(q))
		if r == nil {
			return
		}
		w.send(t, func(t *rapid.T) { w.take(t, q, r) })
	})
}

// take delivers an answer to a Sync. The agent must not forget an engine that runs and was not
// released.
func (w *world) take(t *rapid.T, q *bursarv1.SyncRequest, r *bursarv1.SyncResponse) {
	before := w.tracker.Epoch()
	outcome, _ := w.tracker.Answer(w.now, q, r) // refused where it is old
	if w.tracker.Epoch() < before {
		t.Fatalf("epoch went from %d to %d", before, w.tracker.Epoch())
	}
	for _, a := range outcome.Forgotten {
		if w.alive[a.GetProcess().GetPid()] && w.engines[a.GetId()] {
			t.Fatalf("engine %s runs and was forgotten", a.GetId())
		}
	}
}

// settle is a quiet period: all heartbeats arrive, some of them as full reports, and nothing else
// happens.
func (w *world) settle(t *rapid.T) {
	w.wire = nil
	for range 6 {
		w.now = w.now.Add(5 * time.Minute)
		w.measure(t)
		if w.tracker.NeedsRegister() {
			if r := w.books.register(w.tracker.BuildRegister()); r == nil || w.tracker.Registered(r) != nil {
				t.Fatal("a registration was refused in a quiet period")
			}
		}
		q := w.tracker.BuildSync(w.now)
		r := w.books.sync(q)
		if r == nil {
			// a sequence that was used before the answer to the registration came
			w.tracker.Resync()
			continue
		}
		w.take(t, q, r)
	}
}

// Invariant 8: after a quiet period the ledger equals the agent's report, and the agent has the
// allocations of the ledger.
func (w *world) agree(t *rapid.T) {
	var tracked []string
	for _, e := range w.tracker.Engines() {
		tracked = append(tracked, e.ID)
		if !w.alive[e.Process.GetPid()] {
			t.Errorf("engine %s is tracked, its process has ended", e.ID)
		}
	}
	if diff := cmp.Diff(w.books.ids(active), append([]string{}, tracked...)); diff != "" {
		t.Errorf("engines (-ledger +agent):\n%s", diff)
	}
	all := append(w.books.ids(active), w.books.ids(reserved)...)
	slices.Sort(all)
	if diff := cmp.Diff(all, held(w.tracker)); diff != "" {
		t.Errorf("held (-ledger +agent):\n%s", diff)
	}
	for id, wanted := range w.engines {
		if a := w.books.live[id]; wanted && a.GetState() == active && !w.alive[a.GetProcess().GetPid()] {
			t.Errorf("engine %s has ended and is in the ledger", id)
		}
	}
	if s := w.tracker.Stats(); s.Tombstones+s.Vetoes > 0 || w.tracker.Urgent() {
		t.Errorf("left over: %+v, urgent %v", s, w.tracker.Urgent())
	}
}

func TestAgentAndLedgerAgreeWhateverTheNetworkDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		steps := map[string]func(*rapid.T){
			"allocate": w.allocate, "confirm": w.confirm, "release": w.release, "die": w.die,
			"deliver": w.deliver, "deliver too": w.deliver, "deliver also": w.deliver, "deliver again": w.deliver,
			"sync": w.sync, "sync too": w.sync, "sync again": w.sync, "measure": w.measure,
			"save": w.save, "save in vain": w.saveInVain, "restart": w.restart, "": w.sums, "lead": w.lead, "backup": w.keep, "restore": w.restore,
		}
		t.Repeat(steps)
		w.settle(t)
		w.agree(t)
	})
}

// After any restarts, and after any restore of the store, an engine whose Confirm was answered
// stays in the ledger.
func TestEnginesThatRunAreNeverGivenUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		steps := map[string]func(*rapid.T){
			"allocate": w.allocate, "deliver": w.deliver, "deliver too": w.deliver, "sync": w.sync, "sync too": w.sync,
			"confirm": w.confirmForSure,
			"measure": w.measure, "restart": w.restart, "": w.sums, "lead": w.lead, "backup": w.keep, "restore": w.restore,
		}
		t.Repeat(steps)
		w.settle(t)
		w.agree(t)
		for id := range w.engines {
			if w.books.live[id] == nil {
				t.Errorf("engine %s runs and is not in the ledger", id)
			}
		}
	})
}

package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// turnover is a ledger with live allocations, of which the oldest ends for each new one.
type turnover struct {
	ledger *ledger.Ledger
	now    ledger.Instant
	ring   []ledger.ID
	next   int
}

// newTurnover has so many live allocations, and on another host so many engines whose ids are from
// the future by their agent's report.
func newTurnover(tb testing.TB, live, future int) *turnover {
	tb.Helper()
	roomy := ledger.Config{Interval: time.Hour, HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40, ReservationTTL: time.Hour}
	t := &turnover{ledger: ledger.New(roomy, newPlainPlacer()), now: start}
	for _, host := range []string{"h1", "h2"} {
		_, err := t.ledger.Register(t.now, ledger.RegisterCommand{HostID: host, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 50)})
		must(tb, err)
	}
	available := int64(1 << 50)
	c := ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}}
	_, err := t.ledger.Sync(t.now, c)
	must(tb, err)
	c = ledger.SyncCommand{HostID: "h2", Incarnation: 1, Full: true}
	for i := range future {
		id := ledger.ID(1<<63) + ledger.ID(i)
		c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: &ledger.Allocation{Process: ledger.Process{PID: 1}}})
	}
	for t.ledger.Counts().Active < future { // a report at a time
		c.Sequence++
		_, err = t.ledger.Sync(t.now, c)
		must(tb, err)
	}
	for range live {
		t.ring = append(t.ring, t.allocate(tb))
		t.stored()
	}
	return t
}

func (t *turnover) allocate(tb testing.TB) ledger.ID {
	t.now += ledger.Instant(10 * time.Microsecond)
	a, err := t.ledger.Allocate(t.now, ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(1))})
	must(tb, err)
	return a.Allocation.ID
}

// pair ends the oldest allocation and makes a new one.
func (t *turnover) pair(tb testing.TB) {
	_, err := t.ledger.Release(t.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: t.ring[t.next]})
	must(tb, err)
	t.ring[t.next] = t.allocate(tb)
	if t.next++; t.next == len(t.ring) {
		t.next = 0
	}
	if t.next%64 == 0 {
		t.stored()
	}
}

// stored is what the write loop does after each batch.
func (t *turnover) stored() {
	changes := t.ledger.Changes()
	t.ledger.Durable(t.now, changes.Revision)
	t.ledger.Reuse(&changes)
}

func BenchmarkAllocate(b *testing.B) {
	for _, live := range []int{1000, 100_000} {
		for _, future := range []int{0, 16_384} {
			b.Run(fmt.Sprintf("live=%d/future=%d", live, future), func(b *testing.B) {
				t := newTurnover(b, live, future)
				b.ReportAllocs()
				for b.Loop() {
					t.pair(b)
				}
			})
		}
	}
}

// BenchmarkReport applies a report of engines that the ledger does not know, whose ids are all
// below those of the others.
func BenchmarkReport(b *testing.B) {
	const engines = 8000
	c := ledger.SyncCommand{HostID: "h2", Incarnation: 1, Sequence: 1, Full: true}
	for i := range engines {
		c.Engines = append(c.Engines, ledger.EngineReport{ID: ledger.ID(engines - i), Grant: &ledger.Allocation{Process: ledger.Process{PID: 1}}})
	}
	for b.Loop() {
		b.StopTimer()
		t := newTurnover(b, 100_000, 0)
		b.StartTimer()
		_, err := t.ledger.Sync(t.now, c)
		must(b, err)
	}
}

// BenchmarkList reads all that is live, in the order of ids.
func BenchmarkList(b *testing.B) {
	const live = 100_000
	t := newTurnover(b, live, 0)
	for range live / 2 { // some has ended
		t.pair(b)
	}
	for b.Loop() {
		n := 0
		t.ledger.Allocations(0, func(*ledger.Allocation) bool { n++; return true })
		if n != live {
			b.Fatalf("%d of %d", n, live)
		}
	}
}

// A host's agent may make up ids, also of a far future. Others do not wait because of that.
func TestEnginesWithIDsFromTheFutureDoNotSlowOthersDown(t *testing.T) {
	const engines, pairs = 16_384, 200
	pair := func(w *turnover) func() time.Duration {
		return func() time.Duration {
			return took(func() {
				for range pairs {
					w.pair(t)
				}
			})
		}
	}
	wantRatio(t, "200 pairs of a release and an allocation, with engines from the future,", 4,
		pair(newTurnover(t, 1000, 0)), pair(newTurnover(t, 1000, engines)))
}

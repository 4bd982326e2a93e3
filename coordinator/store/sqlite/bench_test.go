package sqlite

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// workload makes the commits of a closed loop of clients: each allocates, confirms and releases, so
// that a third of all transitions inserts a row and a third ends one.
type workload struct {
	revision uint64
	id       ledger.ID
	live     []ledger.Allocation
	mint     func() string // request ids; nil: they are like the allocation's
}

// batch makes the next batch of so many transitions.
func (w *workload) batch(n int) ledger.Changes {
	var c ledger.Changes
	for range n {
		w.revision++
		var a ledger.Allocation
		switch oldest := len(w.live) > 64; {
		case oldest && w.live[0].State == ledger.Active:
			a = w.live[0]
			a.State, a.Ended = ledger.Released, a.Created.Add(time.Minute)
			w.live = w.live[1:]
		case oldest && w.revision%2 == 0:
			w.live[0].State = ledger.Active
			w.live[0].Process = ledger.Process{PID: 4711, StartTime: 123456, Cgroup: "/bursar.slice/e.scope", BootID: "0c9a4f0e-8a5f-4a0f-9d06-0a4d3c8b7e21"}
			a = w.live[0]
		default:
			w.id++
			a = storetest.Typical(w.id, ledger.Reserved, w.revision)
			if w.mint != nil {
				a.RequestID = w.mint()
			}
			w.live = append(w.live, a)
		}
		a.Revision = w.revision
		c.Transitions = append(c.Transitions, a)
	}
	c.Revision, c.LastID = w.revision, w.id
	return c
}

// size is the bytes of the rows of a batch.
func size(b *testing.B, c ledger.Changes) (bytes int) {
	b.Helper()
	for i := range c.Transitions {
		payload, err := store.AppendAllocation(nil, &c.Transitions[i])
		if err != nil {
			b.Fatal(err)
		}
		bytes += len(payload)
	}
	return bytes
}

// BenchmarkCommit commits batches and, in turn, appends the same number of bytes to a file and
// syncs it. The ratio compares the rates: 1 would be a store whose only cost is the sync.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) { benchmarkCommit(b, n) })
	}
}

func benchmarkCommit(b *testing.B, n int) {
	dir := b.TempDir()
	s := at(b, filepath.Join(dir, "bursar.db"))
	defer s.Close()
	meta, err := s.Lead(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	w := &workload{}
	var commits, appends []time.Duration
	for b.Loop() {
		batch := store.Batch{Epoch: meta.Epoch, Changes: w.batch(n)}
		bytes := make([]byte, size(b, batch.Changes))
		begin := time.Now()
		if err := s.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		if _, err := raw.Write(bytes); err != nil {
			b.Fatal(err)
		}
		if err := raw.Sync(); err != nil {
			b.Fatal(err)
		}
		commits, appends = append(commits, between.Sub(begin)), append(appends, time.Since(between))
	}
	b.ReportMetric(0, "ns/op") // both together mean nothing
	total, rawTotal := sum(commits), sum(appends)
	b.ReportMetric(float64(len(commits)*n)/total.Seconds(), "rows/s")
	b.ReportMetric(float64(len(commits))/total.Seconds(), "commits/s")
	b.ReportMetric(float64(rawTotal)/float64(total), "ratio")
	slices.Sort(commits)
	slices.Sort(appends)
	b.ReportMetric(float64(commits[len(commits)/2])/float64(appends[len(appends)/2]), "p50-ratio")
	b.ReportMetric(float64(commits[len(commits)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(commits[len(commits)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(appends[len(appends)*99/100].Microseconds()), "raw-p99-us")
}

// BenchmarkRequestIDs commits batches to two stores, turn by turn: with the request ids that
// clients and agents mint, which rise with time, and with random ones. Both have a history already.
// The ratio is that of the times; written-ratio that of the bytes in their logs, which other
// programs on the machine do not change.
func BenchmarkRequestIDs(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) { benchmarkRequestIDs(b, n) })
	}
}

func benchmarkRequestIDs(b *testing.B, n int) {
	type side struct {
		store   *Store
		epoch   uint64
		load    workload
		took    time.Duration
		written int
	}
	rising, random := &side{load: workload{mint: client.NewRequestID}}, &side{load: workload{mint: rand.Text}}
	commit := func(s *side, n int) {
		batch := store.Batch{Epoch: s.epoch, Changes: s.load.batch(n)}
		begin := time.Now()
		if err := s.store.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		s.took += time.Since(begin)
	}
	for i, s := range []*side{rising, random} {
		// The log is never checkpointed, so that its length is the number of written bytes.
		var err error
		if s.store, err = Open(b.Context(), filepath.Join(b.TempDir(), fmt.Sprint(i)), Options{carry: 1 << 30}); err != nil {
			b.Fatal(err)
		}
		defer s.store.Close()
		meta, err := s.store.Lead(b.Context(), 0)
		if err != nil {
			b.Fatal(err)
		}
		s.epoch = meta.Epoch
		for range 40 {
			commit(s, 1000)
		}
		s.took, s.written = 0, -logSize(b, s.store)
	}
	for b.Loop() {
		commit(rising, n)
		commit(random, n)
	}
	rising.written, random.written = rising.written+logSize(b, rising.store), random.written+logSize(b, random.store)
	b.ReportMetric(0, "ns/op") // both together mean nothing
	b.ReportMetric(float64(rising.took)/float64(random.took), "ratio")
	b.ReportMetric(float64(rising.written)/float64(random.written), "written-ratio")
	b.ReportMetric(float64(rising.written)/float64(b.N)/1000, "kB/commit")
}

func logSize(b *testing.B, s *Store) int {
	b.Helper()
	info, err := os.Stat(s.path + walSuffix)
	if err != nil {
		b.Fatal(err)
	}
	return int(info.Size())
}

func sum(list []time.Duration) (total time.Duration) {
	for _, d := range list {
		total += d
	}
	return total
}

// BenchmarkLoad opens a store with 100,000 live allocations and as many that have ended and are
// remembered, and loads it.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bursar.db")
	s := at(b, path)
	meta, err := s.Lead(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	const live = 100_000
	var c ledger.Changes
	for id := ledger.ID(1); id <= 2*live; id++ {
		state := ledger.Active
		if id%2 == 0 {
			state = ledger.Released
		}
		c.Transitions = append(c.Transitions, storetest.Typical(id, state, 1))
		if len(c.Transitions) == 1000 {
			c.Revision, c.LastID = uint64(id), id
			if err := s.Commit(b.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
				b.Fatal(err)
			}
			c = ledger.Changes{}
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for name, since := range map[string]time.Time{"live": time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "live+remembered": {}} {
		b.Run(name, func(b *testing.B) {
			var opening, leading, loading time.Duration
			for b.Loop() {
				begin := time.Now()
				s := at(b, path)
				opened := time.Now()
				meta, err := s.Lead(b.Context(), 0)
				if err != nil {
					b.Fatal(err)
				}
				led := time.Now()
				snapshot, err := s.Load(b.Context(), meta.Epoch, since, nil)
				if err != nil || len(snapshot.Allocations) != live {
					b.Fatal(len(snapshot.Allocations), err)
				}
				opening, leading, loading = opening+opened.Sub(begin), leading+led.Sub(opened), loading+time.Since(led)
				s.Close()
			}
			for unit, d := range map[string]time.Duration{"open-ms": opening, "lead-ms": leading, "load-ms": loading} {
				b.ReportMetric(float64(d.Microseconds())/1e3/float64(b.N), unit)
			}
		})
	}
}

// BenchmarkIntact measures the check in each commit that the files are in their places.
func BenchmarkIntact(b *testing.B) {
	s := at(b, filepath.Join(b.TempDir(), "bursar.db"))
	defer s.Close()
	for b.Loop() {
		if err := s.files.intact(); err != nil {
			b.Fatal(err)
		}
	}
}

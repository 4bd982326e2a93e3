package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/sqlite"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// BenchmarkCommit commits batches of new allocations to PostgreSQL and, turn by turn, to the
// embedded store, on the same disk. The ratio is how the rates compare: 1 would be a database that
// costs no more than a file.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) { benchmarkCommit(b, n) })
	}
}

func benchmarkCommit(b *testing.B, n int) {
	file, err := sqlite.Open(b.Context(), b.TempDir()+"/bursar.db", sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	database := opened(b, emptySchema(b))
	var took [2][]time.Duration
	var epochs [2]uint64
	stores := [2]store.Store{database, file}
	for i, s := range stores {
		meta, err := s.Lead(b.Context(), 0)
		if err != nil {
			b.Fatal(err)
		}
		epochs[i] = meta.Epoch
	}
	var id ledger.ID
	for b.Loop() {
		c := ledger.Changes{Revision: uint64(id) + uint64(n), LastID: id + ledger.ID(n)}
		for range n {
			id++
			c.Transitions = append(c.Transitions, storetest.Typical(id, ledger.Active, uint64(id)))
		}
		for i, s := range stores {
			begin := time.Now()
			if err := s.Commit(b.Context(), store.Batch{Epoch: epochs[i], Changes: c}); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begin))
		}
	}
	b.ReportMetric(0, "ns/op") // both together mean nothing
	var totals [2]time.Duration
	for i := range took {
		for _, d := range took[i] {
			totals[i] += d
		}
		slices.Sort(took[i])
	}
	commits := len(took[0])
	b.ReportMetric(float64(commits*n)/totals[0].Seconds(), "rows/s")
	b.ReportMetric(float64(commits)/totals[0].Seconds(), "commits/s")
	b.ReportMetric(float64(totals[1])/float64(totals[0]), "ratio")
	b.ReportMetric(float64(took[0][commits/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[0][commits*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(commits*n)/totals[1].Seconds(), "file-rows/s")
}

// BenchmarkCheckEpoch measures a batch without rows.
func BenchmarkCheckEpoch(b *testing.B) {
	s := opened(b, emptySchema(b))
	meta, err := s.Lead(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.Commit(b.Context(), store.Batch{Epoch: meta.Epoch}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad loads 100,000 live allocations.
func BenchmarkLoad(b *testing.B) {
	s := opened(b, emptySchema(b))
	meta, err := s.Lead(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	const live, page = 100_000, 1000
	for id := ledger.ID(1); id < live; id += page {
		if err := s.Commit(b.Context(), store.Batch{Epoch: meta.Epoch, Changes: allocations(id, page, uint64(id))}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		snapshot, err := s.Load(b.Context(), meta.Epoch, time.Time{}, nil)
		if err != nil || len(snapshot.Allocations) != live {
			b.Fatal(len(snapshot.Allocations), err)
		}
	}
}

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

// BenchmarkPutQuota changes the limit of one rule of two while so many allocations live: each of
// them gets its accounts again, in one step (ADR 12).
func BenchmarkPutQuota(b *testing.B) {
	for _, live := range []int{2_000, 20_000, 200_000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			l := ledger.New(ledger.Config{HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40}, newPlainPlacer())
			_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 40).WithCPU(1 << 40)})
			orFatal(b, err)
			available := int64(1 << 40)
			_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
			orFatal(b, err)
			selector, err := label.ParseSelector("user=*")
			orFatal(b, err)
			orFatal(b, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(1 << 40)}))
			rule := ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1 << 40)}
			orFatal(b, l.PutQuota(start, rule))
			for i := range live {
				_, err := l.Allocate(start, ledger.AllocateCommand{
					Actor: identity.Local(), Labels: label.Of("user", fmt.Sprint("u", i%1000)), ReservationTTL: 24 * time.Hour,
					Resource: resource.NewResource(resource.Vector{}.WithMemory(1)), Wishes: &ledger.Wishes{Host: "h1"},
				})
				orFatal(b, err)
			}
			l.Changes()
			for b.Loop() {
				rule.Limit = rule.Limit.WithMemory(rule.Limit.Memory() - 1)
				orFatal(b, l.PutQuota(start, rule))
				l.Changes()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*live), "ns/allocation")
		})
	}
}

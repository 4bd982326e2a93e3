package clusters

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/fakecluster"
)

// manyQueues returns a root, ten queues below it and the rest below these.
func manyQueues(n int) []providers.Queue {
	list := []providers.Queue{fakecluster.NewQueue("root", 1<<50)}
	for i := 1; i < n; i++ {
		path := fmt.Sprintf("root.q%d", i)
		if i > 10 {
			path = fmt.Sprintf("root.q%d.q%d", i%10+1, i)
		}
		list = append(list, fakecluster.NewQueue(path, 1<<40))
	}
	return list
}

// BenchmarkClusterReport measures the cost of a snapshot with many queues and 200 of our
// applications: "outside" the loop, where no call waits for it, and "inside", where every call
// waits. The inside part is the first step.
func BenchmarkClusterReport(b *testing.B) {
	for _, n := range []int{50, 500, 5000} {
		queues := manyQueues(n)
		b.Run(fmt.Sprintf("outside/queues=%d", n), func(b *testing.B) {
			for b.Loop() {
				reports, err := QueueReports(queues)
				report := ledger.ClusterReport{Queues: reports}
				if err := cmp.Or(err, report.Prepare()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("inside/queues=%d", n), func(b *testing.B) { benchmarkReport(b, queues) })
	}
}

func benchmarkReport(b *testing.B, queues []providers.Queue) {
	b.Helper()
	d := runLoop(b, storetest.NewMemory("test").Open(), nil)
	defer d.close()
	d.host(1 << 40)
	report := ledger.ClusterReport{ClusterName: prod, GoodFor: time.Hour}
	var err error
	if report.Queues, err = QueueReports(queues); err != nil {
		b.Fatal(err)
	}
	tell := func(run func(l *ledger.Ledger, now ledger.Instant) error) {
		if err := d.DoPriority(b.Context(), nil, func(c *core.Core, now ledger.Instant) error { return run(c.Ledger(), now) }); err != nil {
			b.Fatal(err)
		}
	}
	tell(func(l *ledger.Ledger, now ledger.Instant) error {
		if err := l.PutProvider(now, ledger.ProviderRecord{ClusterName: prod}); err != nil {
			return err
		}
		report.Asked = now
		return l.ReportCluster(now, report)
	})
	for i := range 200 {
		at := resource.Address{Kind: "fake", Path: queues[1+i%(len(queues)-1)].Path}
		id := fmt.Sprintf("application_%d", i)
		tell(func(l *ledger.Ledger, now ledger.Instant) error {
			res, err := l.Allocate(now, ledger.AllocateCommand{
				Actor: identity.Local(), Labels: label.Of("user", "alice"),
				Resource: resource.NewResource(resource.Vector{}.WithMemory(1)).WithPart(at, resource.Vector{}.WithMemory(1<<30)),
			})
			if err == nil {
				_, err = l.Confirm(now, ledger.ConfirmCommand{Actor: identity.Local(), ID: res.Allocation.ID, HostID: "h", ApplicationIDs: []string{id}})
			}
			return err
		})
		report.Applications = append(report.Applications, ledger.ApplicationReport{
			ID: id, Known: true, Queue: at.Path, Allocated: map[string]resource.Vector{"": resource.Vector{}.WithMemory((1 << 30) / 2)},
		})
	}
	b.ReportAllocs()
	var total time.Duration
	for i := 0; b.Loop(); i++ {
		// Every queue's use has changed.
		report := report
		report.Queues = slices.Clone(report.Queues)
		for j := range report.Queues {
			report.Queues[j].Used = resource.Vector{}.WithMemory(int64(i%2) * (1 << 30))
		}
		if err := report.Prepare(); err != nil {
			b.Fatal(err)
		}
		tell(func(l *ledger.Ledger, now ledger.Instant) error {
			report.Asked = now
			start := time.Now()
			err := l.ReportCluster(now, report)
			total += time.Since(start)
			return err
		})
	}
	b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "in-loop-ns/op")
}

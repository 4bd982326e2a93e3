package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// BenchmarkReportCluster applies a report of so many queues, in which we have as many allocations
// with an application each: what the write loop does at every reading of a cluster.
func BenchmarkReportCluster(b *testing.B) {
	for _, queues := range []int{50, 500, 5000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			l := ledger.New(ledger.Config{HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40}, newPlainPlacer())
			r := clusterOfQueues(queues)
			must(b, l.PutProvider(start, ledger.ProviderRecord{ClusterName: r.ClusterName}))
			must(b, l.ReportCluster(start, r))
			fill(b, l, &r)
			now := start
			b.ReportAllocs()
			for b.Loop() {
				now++
				r.Asked = now
				must(b, l.ReportCluster(now, r))
			}
		})
	}
}

// clusterOfQueues is a report of a tree that is three queues deep.
func clusterOfQueues(n int) ledger.ClusterReport {
	r := ledger.ClusterReport{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Asked: start, GoodFor: time.Hour, Settle: time.Minute}
	much := resource.Vector{}.WithMemory(1 << 50).WithCPU(1 << 40)
	add := func(path string) {
		r.Queues = append(r.Queues, ledger.QueueReport{Path: path, Limit: much, Used: resource.Vector{}.WithMemory(1 << 40).WithCPU(1 << 20), State: "RUNNING"})
	}
	add("root")
	for len(r.Queues) < n {
		i := len(r.Queues) - 1
		if i%10 == 0 {
			add(fmt.Sprintf("root.q%d", i/10))
		} else {
			add(fmt.Sprintf("root.q%d.c%d", i/10, i))
		}
	}
	return r
}

// fill puts an allocation with an application into every queue.
func fill(b *testing.B, l *ledger.Ledger, r *ledger.ClusterReport) {
	b.Helper()
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 50)})
	must(b, err)
	available := int64(1 << 50)
	_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
	must(b, err)
	v := resource.Vector{}.WithMemory(1 << 30).WithCPU(1000)
	for i, q := range r.Queues {
		part := resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: q.Path}, Vector: v}
		a, err := l.Allocate(start, ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(v, part)})
		must(b, err)
		id := fmt.Sprintf("application_%d", i)
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.Allocation.ID, Process: ledger.Process{PID: 1}, ApplicationIDs: []string{id}})
		must(b, err)
		r.Applications = append(r.Applications, ledger.ApplicationReport{
			ID: id, Known: true, Queue: q.Path, Allocated: map[string]resource.Vector{ledger.AnyPartition: v},
		})
	}
	l.Durable(start, l.Changes().Revision)
}

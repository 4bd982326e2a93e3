package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// BenchmarkReportCluster takes in a report of so many queues, in which we have as many allocations
// with an application each, as the commit loop does at every reading of a cluster. Either nothing
// has changed, or all applications have. longest-us is the longest step, of each step the shortest
// time: what other processes took is not in it. ns/op includes Prepare, which does not hold the
// loop.
func BenchmarkReportCluster(b *testing.B) {
	for _, queues := range []int{50, 500, 5000} {
		b.Run(fmt.Sprintf("same/queues=%d", queues), func(b *testing.B) { reportOften(b, queues, false) })
		b.Run(fmt.Sprintf("changed/queues=%d", queues), func(b *testing.B) { reportOften(b, queues, true) })
	}
}

func reportOften(b *testing.B, queues int, change bool) {
	b.Helper()
	l := ledger.New(ledger.Config{HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40}, newPlainPlacer())
	r := clusterOfQueues(queues)
	must(b, l.PutProvider(start, ledger.ProviderRecord{ClusterName: r.ClusterName}))
	must(b, l.ReportCluster(start, r))
	for l.TakingIn() {
		l.Advance(start)
	}
	fill(b, l, &r)
	two := [2]ledger.ClusterReport{r, r}
	if change {
		two[1].Applications = slices.Clone(r.Applications)
		for i := range r.Applications {
			two[1].Applications[i].Allocated = map[string]resource.Vector{ledger.AnyPartition: resource.Vector{}.WithMemory(1 << 29).WithCPU(500)}
		}
	}
	now, steps := start, 0
	var least [4][]time.Duration // that each step took, of each of the reports that follow on another
	b.ReportAllocs()
	for b.Loop() {
		now++
		report := two[now/2%2] // what is certain changes with every second report
		report.Asked = now
		must(b, report.Prepare())
		at, of := 0, &least[now%4]
		step := func(do func()) {
			if at == len(*of) {
				*of = append(*of, time.Hour)
			}
			(*of)[at] = min((*of)[at], took(do))
			at++
		}
		step(func() { must(b, l.ReportCluster(now, report)) })
		for l.TakingIn() {
			step(func() { l.Advance(now) })
		}
		steps += at
	}
	longest := time.Duration(0)
	for _, of := range least {
		longest = max(longest, slices.Max(append(of, 0)))
	}
	b.ReportMetric(float64(longest.Nanoseconds())/1000, "longest-us")
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
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
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.Allocation.ID, Process: ledger.Process{PID: int32(i + 1)}, ApplicationIDs: []string{id}})
		must(b, err)
		r.Applications = append(r.Applications, ledger.ApplicationReport{
			ID: id, Known: true, Queue: q.Path, Allocated: map[string]resource.Vector{ledger.AnyPartition: v},
		})
	}
	l.Durable(start, l.Changes().Revision)
}

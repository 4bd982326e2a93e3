package ledger_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// reportQueues reports a cluster's queues to the ledger.
func reportQueues(l *ledger.Ledger, name ledger.ClusterName, queues ...ledger.QueueReport) error {
	return l.ReportCluster(start, ledger.ClusterReport{ClusterName: name, Asked: start, GoodFor: time.Hour, Queues: queues})
}

// Whatever numbers a cluster reports, the sums of the accepted ones cannot overflow.
func TestTheFiguresOfAClusterAreTakenWithinRange(t *testing.T) {
	const most = resource.MaxQuantity
	for said, want := range map[int64]int64{
		math.MinInt64: 0, -1: 0, 0: 0, 1: 1, most - 1: most - 1, most: most, most + 1: most, math.MaxInt64: most,
	} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		figures := resource.Vector{}.WithMemory(said).WithCPU(7).With("gpu", said)
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root", Limit: figures, Used: figures}))
		q, err := l.Queue(resource.Address{Kind: "yarn", Path: "root"})
		must(t, err)
		if want := (resource.Vector{}).WithMemory(want).WithCPU(7).With("gpu", want); !q.Report.Limit.Equal(want) || !q.Report.Used.Equal(want) {
			t.Errorf("%d is taken as the limit %s, used %s; want %s", said, q.Report.Limit, q.Report.Used, want)
		}
	}
}

// Queues are read page by page, over all clusters, from behind the last one of a page.
func TestListsOfQueuesResumeWhereAPageEnded(t *testing.T) {
	l := ready(t)
	var want []string
	for _, name := range []ledger.ClusterName{{Kind: "k8s", Cluster: "b"}, {Kind: "yarn", Cluster: "a"}, {Kind: "yarn", Cluster: "b"}} {
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: name}))
		queues := []ledger.QueueReport{{Path: "root"}}
		want = append(want, name.String()+":root")
		for i := range 30 { // more than are put in order one by one
			queues = append(queues, ledger.QueueReport{Path: fmt.Sprintf("root.q%02d", i)})
			want = append(want, fmt.Sprintf("%s:root.q%02d", name, i))
		}
		slices.Reverse(queues)
		must(t, reportQueues(l, name, queues...))
	}
	for _, page := range []int{1, 4, 1000} {
		var got []string
		for last, more := (resource.Address{}), true; more; {
			more = false
			n := 0
			l.Queues(last, func(q ledger.QueueInfo) bool {
				if n == page {
					t.Fatalf("a page of %d goes on with %s", page, q.Address)
				}
				got = append(got, q.Address.String())
				last, more = q.Address, true
				n++
				return n < page
			})
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v; want %v", page, got, want)
		}
	}
}

// A queue that is named by its last element alone must be one. Of those that it could be, eight
// are listed.
func TestANameOfManyQueuesIsRefusedWithEightOfThem(t *testing.T) {
	for _, test := range []struct {
		queues int
		want   string
	}{
		{2, ": root.0.x, root.1.x"},
		{8, ": root.0.x, root.1.x, root.2.x, root.3.x, root.4.x, root.5.x, root.6.x, root.7.x"},
		{9, ": root.0.x, root.1.x, root.2.x, root.3.x, root.4.x, root.5.x, root.6.x, root.7.x and 1 more"},
	} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		var queues []ledger.QueueReport
		for i := range test.queues {
			queues = append(queues, ledger.QueueReport{Path: fmt.Sprintf("root.%d.x", i)})
		}
		must(t, reportQueues(l, yarnProd, queues...))
		if _, err := l.Queue(resource.Address{Kind: "yarn", Path: "x"}); err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%d queues: %v; want %s", test.queues, err, test.want)
		}
	}
}

// A queue that its cluster makes is not there before it is used, and that is what is said.
func TestAQueueThatUsingItMakesIsSaidToBeMissingUntilThen(t *testing.T) {
	l := ready(t)
	must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
	must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root"}, ledger.QueueReport{Path: "root.users", CreatesChildren: true}))
	for path, want := range map[string]string{
		"root.users.kim": `no such queue until it is used: "yarn:prod:root.users.kim"`,
		"root.kim":       `no such queue: "yarn:prod:root.kim"`,
	} {
		if _, err := l.Queue(resource.Address{Kind: "yarn", Path: path}); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", path, err, want)
		}
	}
}

// What was read of a cluster is known for as long as it is good for. Nothing is left of it, and
// nothing is due, once it is forgotten.
func TestNothingIsLeftOfAClusterThatIsForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		forget   func(*ledger.Ledger) error
		clusters []ledger.ClusterInfo
	}{
		"nobody is in charge there": {
			func(l *ledger.Ledger) error { l.ClusterSilent(start, yarnProd, "failover", true); return nil },
			[]ledger.ClusterInfo{{ClusterName: yarnProd, Configured: true, Asked: start, Queues: 2, Unavailable: "last read 0s ago: failover"}},
		},
		"other settings": {
			func(l *ledger.Ledger) error {
				l.ClusterSilent(start, yarnProd, "timeout", false)
				return l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd, Settings: map[string]string{"user": "bursar"}})
			},
			[]ledger.ClusterInfo{{ClusterName: yarnProd, Configured: true, Unavailable: "not read yet"}},
		},
		"no provider": {func(l *ledger.Ledger) error { return l.DeleteProvider(start, yarnProd) }, []ledger.ClusterInfo{}},
	} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root"}, ledger.QueueReport{Path: "root.a"}))
		if at, due := l.NextTimer(); !due || at != start.Add(time.Hour) {
			t.Errorf("%s: before that something is due %s after the start, %t; want what was read to be known for an hour", name, at.Sub(start), due)
		}
		q, err := l.Queue(resource.Address{Kind: "yarn", Path: "a"})
		if must(t, err); q.Parent != "root" || !q.Known {
			t.Errorf("%s: before that the queue is below %q, known %t", name, q.Parent, q.Known)
		}
		must(t, test.forget(l))
		if at, due := l.NextTimer(); due {
			t.Errorf("%s: something is due %s after the start", name, at.Sub(start))
		}
		if got := l.Clusters(); !slices.Equal(got, test.clusters) {
			t.Errorf("%s: clusters %+v; want %+v", name, got, test.clusters)
		}
		if q, err := l.Queue(resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.a"}); err == nil && q.Known {
			t.Errorf("%s: the queue is known", name)
		}
	}
}

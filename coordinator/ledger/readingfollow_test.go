package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// While a report that shows an application in another queue is taken in, its part counts in one of
// the two queues at each moment, and nothing of it is taken for shown in the other queue before
// that has gone over to a report which shows it.
func TestAPartMovesInOneStepOfAReport(t *testing.T) {
	prepare := func(t *testing.T) (*ledger.Ledger, ledger.ClusterReport) {
		l := readyWith(t, ledger.Config{Terms: func(ledger.ProviderRecord) ledger.Terms { return ledger.Terms{UserLabel: "user"} }})
		return l, inTheSecond(busy(t, l, 2), start)
	}
	check := func(t *testing.T, l *ledger.Ledger) {
		t.Helper()
		var moments []string
		for _, path := range []string{"root.q00", "root.q01"} {
			q := readQueuesOf(l)[resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: path}]
			moments = append(moments, fmt.Sprintf("%d+%d of %d", q.Account.Used.Memory()>>30, q.Account.Others.Memory()>>30, q.Report.Used.Memory()>>30))
		}
		if got := fmt.Sprint(moments); !slices.Contains([]string{
			"[20+5 of 10 20+5 of 10]", // before
			"[0+10 of 10 40+5 of 10]", // it has moved
			"[0+5 of 5 40+5 of 10]",   // and its old queue is as by the report
			"[0+5 of 5 40+10 of 15]",  // and its new one
		}, got) {
			t.Errorf("ours and others': %s", got)
		}
	}
	atEachStep(t, prepare, check)

	l, r := prepare(t)
	for i := range 2 {
		must(t, l.ReportCluster(start.Add(time.Duration(i)), inTheSecond(r, start.Add(time.Duration(i)))))
	}
	if q := readQueuesOf(l)[resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: "root.q01"}]; q.Account.Others.Memory() != 5<<30 {
		t.Errorf("by the second report others use %s; want 5 GiB", q.Account.Others)
	}
}

// inTheSecond is the report of two busy queues with the first application in the second queue.
func inTheSecond(r ledger.ClusterReport, asked ledger.Instant) ledger.ClusterReport {
	r = used(r, asked, 5, 5)
	r.Queues[0].Used, r.Queues[1].Used = gib(5), gib(15)
	r.Applications[0].Queue = r.Queues[1].Path
	return r
}

package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// atEachStep does something at each moment of the time in which a report is taken in: each time
// with a new ledger, until that has taken the report in before.
func atEachStep(t *testing.T, prepare func(t *testing.T) (*ledger.Ledger, ledger.ClusterReport), do func(t *testing.T, l *ledger.Ledger)) {
	t.Helper()
	for steps := 0; ; steps++ {
		l, r := prepare(t)
		l.SetReadingStep(1)
		must(t, l.ReportCluster(start, r))
		for range steps {
			l.Advance(start)
		}
		done := !l.TakingIn()
		do(t, l)
		for sound(t, l); l.TakingIn(); sound(t, l) {
			l.Advance(start)
		}
		if n := l.Lingering(); n > 0 {
			t.Errorf("after %d steps: %d allocations that have ended are still there", steps, n)
		}
		if done {
			if steps < 4 {
				t.Fatalf("the report was taken in within %d steps: nothing is tested", steps)
			}
			return
		}
	}
}

func theOne(t *testing.T, l *ledger.Ledger) ledger.Allocation {
	t.Helper()
	var found []ledger.Allocation
	l.Allocations(0, func(a *ledger.Allocation) bool {
		found = append(found, *a)
		return true
	})
	if len(found) != 1 {
		t.Fatalf("%d allocations; want one", len(found))
	}
	return found[0]
}

// The application of an allocation has more than its part, and by the next report still more: of
// the part just as much is shown.
func beyondItsPart(t *testing.T) (*ledger.Ledger, ledger.ClusterReport) {
	l, r := busyCluster(t, 1)
	for _, ours := range []int64{25, 25, 30} {
		must(t, l.ReportCluster(start, used(r, start, ours, 5)))
	}
	return l, used(r, start, 30, 5)
}

func TestAnAllocationMayEndWhileAReportOfItIsTakenIn(t *testing.T) {
	atEachStep(t, beyondItsPart, func(t *testing.T, l *ledger.Ledger) {
		_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: theOne(t, l).ID})
		must(t, err)
	})
}

func TestAnAllocationMayShrinkWhileAReportOfItIsTakenIn(t *testing.T) {
	atEachStep(t, beyondItsPart, func(t *testing.T, l *ledger.Ledger) {
		a := theOne(t, l)
		to := a.Entitled
		to.External = slices.Clone(to.External)
		to.External[0].Vector = gib(3)
		_, err := l.Resize(start, ledger.ResizeCommand{Actor: identity.Local(), ID: a.ID, Entitled: to})
		must(t, err)
	})
}

// What is read of a cluster is forgotten when its settings change. Allocations stay as they are,
// also those whose applications have ended by a report that is being taken in.
func TestAllocationsStayWhenTheSettingsOfTheirClusterChange(t *testing.T) {
	atEachStep(t, func(t *testing.T) (*ledger.Ledger, ledger.ClusterReport) {
		l, r := busyCluster(t, 1)
		r = used(r, start, 0, 5)
		r.Applications[0].Ended = true
		return l, r
	}, func(t *testing.T, l *ledger.Ledger) {
		before := l.Clusters()[0].Allocations
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd, Settings: map[string]string{"x": "y"}}))
		if after := l.Clusters()[0].Allocations; after != before {
			t.Errorf("%d allocations are left of %d", after, before)
		}
	})
}

// A queue that is made by use may be asked for before the cluster has made it, when it has, and
// when it has removed it again, also while the report that says so is taken in.
func TestAQueueMadeByUseMayBeAskedForAtAnyTime(t *testing.T) {
	report := func(paths ...string) ledger.ClusterReport {
		r := ledger.ClusterReport{ClusterName: yarnProd, Asked: start, GoodFor: time.Hour, Settle: time.Minute}
		for _, path := range paths {
			r.Queues = append(r.Queues, ledger.QueueReport{Path: path, Limit: gib(100), CreatesChildren: path == "root.users"})
		}
		return r
	}
	without := report("root", "root.a", "root.b", "root.users", "root.users.bob")
	with := report("root", "root.a", "root.b", "root.users", "root.users.alice", "root.users.bob")
	for what, reports := range map[string][2]ledger.ClusterReport{"it is made": {without, with}, "it is removed": {with, without}} {
		t.Run(what, func(t *testing.T) {
			atEachStep(t, func(t *testing.T) (*ledger.Ledger, ledger.ClusterReport) {
				l := ready(t)
				must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
				must(t, l.ReportCluster(start, reports[0]))
				return l, reports[1]
			}, func(t *testing.T, l *ledger.Ledger) {
				_, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
					at := resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: "root.users.alice"}
					c.Resource.External = []resource.External{{Address: at, Vector: gib(1)}}
				})
				if missing, is := errors.AsType[*ledger.NotFoundError](err); is {
					t.Errorf("%v: want it granted", missing)
				}
				must(t, err)
			})
		})
	}
}

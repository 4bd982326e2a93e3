package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// books is a ledger of a cluster with the queues root and root.a. An engine has 4 bytes of root.a,
// 3 of which the cluster shows, and a request waits for 90.
type books struct {
	*Ledger

	cluster     *cluster
	root, a     *clusterQueue
	runs, waits *entry
}

func rightBooks(t *testing.T) books {
	t.Helper()
	l, memory := New(Config{}, noPlacer{}), int64(100)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bytes := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(n) }
	_, err := l.Register(1, RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: bytes(memory).WithInstances(9)})
	check(err)
	_, err = l.Sync(1, SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &Sample{MemoryAvailable: &memory}})
	check(err)
	prod := ClusterName{"yarn", "prod"}
	check(l.PutProvider(1, ProviderRecord{ClusterName: prod}))
	report := func() {
		check(l.ReportCluster(1, ClusterReport{
			ClusterName: prod, Asked: 1, GoodFor: time.Hour,
			Queues: []QueueReport{{Path: "root", Limit: bytes(90), Used: bytes(5)}, {Path: "root.a", Limit: bytes(90), Used: bytes(5)}},
			Applications: []ApplicationReport{{
				ID: "app", Known: true, Queue: "root.a", Allocated: map[string]resource.Vector{AnyPartition: bytes(3)},
			}},
		}))
	}
	report()
	allocate := func(n int64) *entry {
		r, err := l.Allocate(1, AllocateCommand{
			Actor: identity.Local(), Labels: label.Of(userKey, "alice"), Wishes: &Wishes{Host: "h1"}, Wait: time.Hour, Async: true,
			Resource: resource.NewResource(bytes(1), resource.External{Address: resource.Address{Kind: "yarn", Path: "a"}, Vector: bytes(n)}),
		})
		check(err)
		return l.entry(r.Allocation.ID)
	}
	runs, waits := allocate(4), allocate(90)
	_, err = l.Confirm(1, ConfirmCommand{Actor: identity.Local(), ID: runs.ID, Process: Process{PID: 1}, ApplicationIDs: []string{"app"}})
	check(err)
	report()
	report()
	c := l.clusters[prod]
	b := books{l, c, c.queues[queueKey{"root", ""}], c.queues[queueKey{"root.a", ""}], runs, waits}
	if found := b.audit(); len(found) > 0 || runs.State != Active || waits.State != Waiting || b.a.shown.Memory() != 3 {
		t.Fatalf("the ledger is not as this test needs it: %v", found)
	}
	return b
}

// audit is what Audit finds, with names for ids, in order.
func (b books) audit() []string {
	found := []string{}
	for _, v := range b.Audit() {
		text := fmt.Sprintf("%d: %s", v.Invariant, v.Message)
		found = append(found, strings.NewReplacer(b.runs.ID.String(), "A", b.waits.ID.String(), "B").Replace(text))
	}
	slices.Sort(found)
	return found
}

// A ledger with wrong sums can only be made by hand: each of these changes one thing that must
// agree with others.
func TestTheAuditTellsWhereTheBooksOfAClusterAreWrong(t *testing.T) {
	for what, test := range map[string]struct {
		spoil func(b books)
		want  []string
	}{
		"a touch that is missing": {
			func(b books) { b.waits.external.charges = b.waits.external.charges[1:] },
			[]string{
				"3: allocation B touches 1 cluster queues, its parts 2",
				"3: queue yarn:prod:root.a: said to be touched by 2, is by 1, reported true, 0 below",
				"3: queue yarn:prod:root: said to be touched by 2, is by 1, reported true, 1 below",
			},
		},
		"a touch of another size than its parts": {
			func(b books) { b.waits.external.charges[1].vector = resource.Vector{}.WithMemory(5) },
			[]string{"3: allocation B has memory=5B in yarn:prod:root.a, its parts there are memory=90B"},
		},
		"a touch of a queue that has none of its parts": {
			func(b books) {
				b.waits.external.charges[1] = queueCharge{queue: newClusterQueue(b.cluster, queueKey{"root.b", ""})}
			},
			[]string{
				"3: allocation B has none in yarn:prod:root.b, its parts there are none",
				"3: queue yarn:prod:root.a: said to be touched by 2, is by 1, reported true, 0 below",
			},
		},
		"a queue that is in no table": {
			func(b books) { delete(b.cluster.queues, queueKey{"root.a", ""}) },
			[]string{
				"3: allocation A touches yarn:prod:root.a, which is in no table",
				"3: allocation B touches yarn:prod:root.a, which is in no table",
				"3: cluster yarn:prod: 1 cluster queues, 2 in order",
				"3: queue yarn:prod:root.a: in order and in no table",
			},
		},
		"more shown of an engine than it has": {
			func(b books) { b.runs.external.charges[1].shown = resource.Vector{}.WithMemory(5) },
			[]string{
				"2: allocation A is active with memory=4B in yarn:prod:root.a, and its cluster is said to show memory=5B of it",
				"2: queue yarn:prod:root.a: others use memory=2B, by the report memory=5B less memory=5B",
				"2: queue yarn:prod:root.a: shows memory=3B of our allocations, by these memory=5B",
			},
		},
		"something shown of a request that waits": {
			func(b books) { b.waits.external.charges[1].shown = resource.Vector{}.WithMemory(1) },
			[]string{
				"2: allocation B is waiting with memory=90B in yarn:prod:root.a, and its cluster is said to show memory=1B of it",
				"2: queue yarn:prod:root.a: others use memory=2B, by the report memory=5B less memory=4B",
				"2: queue yarn:prod:root.a: shows memory=3B of our allocations, by these memory=4B",
			},
		},
		"one in the place of another among those that hold something": {
			func(b books) { b.cluster.members[0] = b.waits },
			[]string{
				"3: allocation A is active; that it holds something in yarn:prod is false",
				"3: allocation B is waiting; that it holds something in yarn:prod is true",
			},
		},
		"nobody among those that hold something": {
			func(b books) { b.cluster.members = nil },
			[]string{"3: allocation A is active; that it holds something in yarn:prod is false"},
		},
		"a provider whose cluster says that it has none": {
			func(b books) { b.cluster.configured = false },
			[]string{"3: cluster yarn:prod: configured false, 2 allocations"},
		},
		"a cluster that says it has a provider": {
			func(b books) { b.providers = nil },
			[]string{"3: cluster yarn:prod: configured true, 2 allocations"},
		},
		"a cluster that nobody speaks of": {
			func(b books) { b.Ledger.cluster(ClusterName{"yarn", "dev"}) },
			[]string{"3: cluster yarn:dev: configured false, 0 allocations"},
		},
		"a queue that is missing in the order": {
			func(b books) { b.cluster.order.Delete(b.a) },
			[]string{"3: cluster yarn:prod: 2 cluster queues, 1 in order"},
		},
		"a queue in order that was dropped": {
			func(b books) { b.a.dropped = true },
			[]string{"3: queue yarn:prod:root.a: in order and in no table"},
		},
		"a queue below none": {
			func(b books) { b.a.parent = nil },
			[]string{"3: queue yarn:prod:root.a: is not below root"},
		},
		"a count of touches": {
			func(b books) { b.a.attached++ },
			[]string{"3: queue yarn:prod:root.a: said to be touched by 3, is by 2, reported true, 0 below"},
		},
		"a queue that nobody needs": {
			func(b books) { b.cluster.queue(queueKey{"root.b", ""}, nil) },
			[]string{"3: queue yarn:prod:root.b: said to be touched by 0, is by 0, reported false, 0 below"},
		},
		"a queue that is reported and counts as brought": {
			func(b books) { b.a.setCreator(b.hosts["h1"]) },
			[]string{"3: queue yarn:prod:root.a: is reported, and counts on host h1"},
		},
		"a count of what a host's agent has brought": {
			func(b books) { b.hosts["h1"].createdQueues++ },
			[]string{"2: host h1: its agent has brought 1 cluster queues, of those that are there 0"},
		},
		"another sum of what is shown": {
			func(b books) { _ = b.a.shown.Add(resource.Vector{}.WithMemory(1)) },
			[]string{"2: queue yarn:prod:root.a: shows memory=4B of our allocations, by these memory=3B"},
		},
		"another figure of what others use": {
			func(b books) { b.a.account.others = resource.Vector{}.WithMemory(3) },
			[]string{"2: queue yarn:prod:root.a: others use memory=3B, by the report memory=5B less memory=3B"},
		},
	} {
		b := rightBooks(t)
		test.spoil(b)
		if got := b.audit(); !slices.Equal(got, test.want) {
			t.Errorf("%s: the audit finds\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// Queues that only a refused report has are removed with it, each once, in any order.
func TestARefusedReportLeavesNoQueues(t *testing.T) {
	b := rightBooks(t)
	err := b.ReportCluster(1, ClusterReport{
		ClusterName: b.cluster.ClusterName, Asked: 1, GoodFor: time.Hour,
		Queues: []QueueReport{{Path: "root.x.y"}, {Path: "root.x"}, {Path: "root.x"}},
	})
	if err == nil || len(b.audit()) > 0 || b.root.below != 1 || len(b.cluster.queues) != 2 {
		t.Errorf("%v: %d queues, %d below root, %v; want root and root.a", err, len(b.cluster.queues), b.root.below, b.audit())
	}
}

func TestAFleetHasNothingOfWhatItsHostsDoNotLimit(t *testing.T) {
	l := New(Config{}, noPlacer{})
	if _, err := l.Register(1, RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithInstances(9)}); err != nil {
		t.Fatal(err)
	}
	if l.fleet.memory+l.fleet.cpu != 0 || len(l.fleet.custom) > 0 {
		t.Errorf("the fleet has %+v", l.fleet)
	}
}

func TestBroughtBackIsWhatHoldsSomethingAfterItsEngineStarted(t *testing.T) {
	for _, test := range []struct {
		a    Allocation
		want bool
	}{
		{Allocation{ReservationTTL: 1, Confirmed: 1, Reserved: 2}, true},
		{Allocation{ReservationTTL: 1, Confirmed: 2, Reserved: 2}, false},
		// it has no engine
		{Allocation{ReservationTTL: 1, Reserved: 2}, false},
		// it was adopted
		{Allocation{State: Active, Confirmed: 1, Reserved: 2}, false},
		// what is reserved never is
		{Allocation{State: Reserved, ReservationTTL: 0, Confirmed: 1, Reserved: 2}, true},
		{Allocation{State: Released, ReservationTTL: 1, Confirmed: 1, Reserved: 2}, true},
	} {
		if got := test.a.BroughtBack(); got != test.want {
			t.Errorf("%+v: %t", test.a, got)
		}
	}
}

package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// A report is as old as when the cluster was asked, and one that came from the future is as old as
// the ledger.
func TestAReportHoldsFromWhenTheClusterWasAsked(t *testing.T) {
	second := func(n int) ledger.Instant { return start.Add(time.Duration(n) * time.Second) }
	queue := []ledger.QueueReport{{Path: "root"}}
	for name, test := range map[string]struct {
		// the last report came at second 10, about second 5; the settings are of second 3
		asked   ledger.Instant
		goodFor time.Duration
		taken   bool
		shown   ledger.Instant
		until   ledger.Instant // zero: it is not known
	}{
		"now":                      {second(10), time.Minute, true, second(10), second(70)},
		"later than now":           {second(11), time.Minute, true, second(10), second(70)},
		"some time ago":            {second(6), time.Minute, true, second(6), second(66)},
		"when the last was":        {second(5), time.Minute, true, second(5), second(65)},
		"before the last was":      {second(5) - 1, time.Minute, false, second(5), second(15)},
		"until now":                {second(6), 4 * time.Second, true, second(6), 0},
		"until after now":          {second(6), 4*time.Second + 1, true, second(6), second(10) + 1},
		"good for nothing at once": {second(10), 0, true, second(10), 0},
	} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		must(t, l.PutProvider(second(3), ledger.ProviderRecord{ClusterName: yarnProd}))
		must(t, l.ReportCluster(second(3), ledger.ClusterReport{ClusterName: yarnProd, Asked: second(3) - 1, GoodFor: time.Hour, Queues: queue}))
		if c := l.Clusters()[0]; c.Known || c.Asked != 0 {
			t.Errorf("%s: a report from before the settings is taken: %+v", name, c)
		}
		must(t, l.ReportCluster(second(3), ledger.ClusterReport{ClusterName: yarnProd, Asked: second(3), GoodFor: time.Hour, Queues: queue}))
		must(t, l.ReportCluster(second(10), ledger.ClusterReport{ClusterName: yarnProd, Asked: second(5), GoodFor: 10 * time.Second, Queues: queue}))
		must(t, l.ReportCluster(second(10), ledger.ClusterReport{ClusterName: yarnProd, Asked: test.asked, GoodFor: test.goodFor, Queues: append(queue, ledger.QueueReport{Path: "root.a"})}))
		want := ledger.ClusterInfo{ClusterName: yarnProd, Configured: true, Known: test.until != 0, Asked: test.shown, Queues: 1}
		if test.taken {
			want.Queues = 2
		}
		got := l.Clusters()[0]
		if got.Unavailable == "" == (test.until == 0) {
			t.Errorf("%s: known until %d, unavailable: %q", name, test.until, got.Unavailable)
		}
		got.Unavailable = ""
		if got != want {
			t.Errorf("%s: %+v; want %+v", name, got, want)
		}
		if at, _ := l.NextTimer(); at != test.until {
			t.Errorf("%s: something is due %s after the start; want %s", name, at.Sub(start), test.until.Sub(start))
		}
	}
}

// A report with an invalid queue is refused, and changes nothing.
func TestAReportOfAQueueThatCannotBeChangesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		queues []ledger.QueueReport
		field  string
	}{
		"no path":   {[]ledger.QueueReport{{Path: "root"}, {Path: "root.b"}, {}}, "queues[2].path"},
		"one twice": {[]ledger.QueueReport{{Path: "root"}, {Path: "root.b"}, {Path: "root.b"}}, "queues[2].path"},
	} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root"}, ledger.QueueReport{Path: "root.a"}))
		err := reportQueues(l, yarnProd, test.queues...)
		if wrong, refused := errors.AsType[*ledger.FieldError](err); !refused || wrong.Field != test.field {
			t.Errorf("%s: %v; want the field %q", name, err, test.field)
		}
		var paths string
		l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
			paths += " " + q.Address.Path
			return true
		})
		if paths != " root root.a" || len(l.Audit()) > 0 {
			t.Errorf("%s: the queues are%s; want root and root.a; %v", name, paths, l.Audit())
		}
	}
}

// What an application held by the last report says nothing about now once that report is too old.
// It may have held nothing when the queues were read, and as much again when it was asked for.
func TestAnAnswerCountsNoLongerThanItsReport(t *testing.T) {
	second := func(n int) ledger.Instant { return start.Add(time.Duration(n) * time.Second) }
	held := resource.Vector{}.WithMemory(8)
	for name, test := range map[string]struct {
		// seconds; the first report is asked for at second 0, and good until 10
		taken, asked, takenNext int
		others                  int64
	}{
		"while it is good":                       {1, 9, 9, 0},
		"when it is not":                         {1, 10, 10, 8},
		"when it is not before the next arrives": {1, 9, 10, 8},
		"when it was too old when it came":       {10, 11, 11, 8},
	} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		report := func(asked, taken int) {
			must(t, l.ReportCluster(second(taken), ledger.ClusterReport{
				ClusterName: yarnProd, Asked: second(asked), GoodFor: 10 * time.Second,
				Queues: []ledger.QueueReport{{Path: "root", Limit: resource.Vector{}.WithMemory(100), Used: held}},
				Applications: []ledger.ApplicationReport{{
					ID: "app", Known: true, Queue: "root", Allocated: map[string]resource.Vector{"": held},
				}},
			}))
		}
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root", Limit: resource.Vector{}.WithMemory(100)}))
		root := resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: "root"}
		a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
			c.Resource.External = []resource.External{{Address: root, Vector: held}}
		})
		must(t, err)
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, ApplicationIDs: []string{"app"}})
		must(t, err)
		report(0, test.taken)
		report(test.asked, test.takenNext)
		q, err := l.Queue(root)
		must(t, err)
		if others, _ := q.Account.Others.Get(resource.Memory); others != test.others {
			t.Errorf("%s: others use %d; want %d", name, others, test.others)
		}
	}
}

// Two readings may overlap: then what the first says of an application may be from after the
// queues of the second. An application that began in between is not in these, and both say that it
// holds something.
func TestAnAnswerThatMayBeFromAfterTheQueuesCountsForNothing(t *testing.T) {
	second := func(n int) ledger.Instant { return start.Add(time.Duration(n) * time.Second) }
	held := resource.Vector{}.WithMemory(8)
	root := resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: "root"}
	for name, test := range map[string]struct {
		asked  int   // the first reading is asked for at second 0, and handed in at second 3
		others int64 // after a second one
	}{
		"they overlap":                      {1, 8},
		"they overlap by a second":          {2, 8},
		"one begins when the other ends":    {3, 0},
		"one begins when the other is over": {4, 0},
	} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root", Limit: resource.Vector{}.WithMemory(100)}))
		a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
			c.Resource.External = []resource.External{{Address: root, Vector: held}}
		})
		must(t, err)
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, ApplicationIDs: []string{"app"}})
		must(t, err)
		others := func(asked, taken int) int64 {
			must(t, l.ReportCluster(second(taken), ledger.ClusterReport{
				ClusterName: yarnProd, Asked: second(asked), GoodFor: time.Hour,
				Queues: []ledger.QueueReport{{Path: "root", Limit: resource.Vector{}.WithMemory(100), Used: held}},
				Applications: []ledger.ApplicationReport{{
					ID: "app", Known: true, Queue: "root", Allocated: map[string]resource.Vector{"": held},
				}},
			}))
			q, err := l.Queue(root)
			must(t, err)
			n, _ := q.Account.Others.Get(resource.Memory)
			return n
		}
		others(0, 3)
		if n := others(test.asked, 5); n != test.others {
			t.Errorf("%s: others use %d; want %d", name, n, test.others)
		}
		if n := others(6, 7); n != 0 {
			t.Errorf("%s: others use %d after one more reading; want 0", name, n)
		}
	}
}

// What one step leaves to the next is done before the next command. So what a report frees is
// granted by that report, even if the next command hands in another one that shows less room.
func TestWhatIsDueIsDecidedByTheReportBefore(t *testing.T) {
	l := ready(t)
	root := resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: "root"}
	report := func(used int64) {
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{
			Path: "root", Limit: resource.Vector{}.WithMemory(20), Used: resource.Vector{}.WithMemory(used),
		}))
	}
	wait := func(memory int64) ledger.ID {
		a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
			c.Resource.External = []resource.External{{Address: root, Vector: resource.Vector{}.WithMemory(memory)}}
			c.Async, c.Wait = true, time.Hour
		})
		must(t, err)
		return a.ID
	}
	must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
	report(20)
	for n := range int64(8) { // as many as one step tries of one share
		wait(2 + n)
	}
	id := wait(1)
	for _, next := range []struct {
		used int64
		want ledger.State
	}{
		{20, ledger.Waiting},
		{19, ledger.Waiting}, // there is room for it, but the step has tried eight before it
		{20, ledger.Reserved},
	} {
		report(next.used)
		if a, _ := l.Get(id); a.State != next.want {
			t.Fatalf("%s is %s after a report of %d used; want %s", id, a.State, next.used, next.want)
		}
	}
}

package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

func gib(n int64) resource.Vector { return resource.Vector{}.WithMemory(n << 30) }

// readQueuesOf are the queues of all clusters, by address.
func readQueuesOf(l *ledger.Ledger) map[resource.Address]ledger.QueueInfo {
	queues := make(map[resource.Address]ledger.QueueInfo)
	l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		queues[q.Address] = q
		return true
	})
	return queues
}

// busyCluster is a ledger with a cluster of so many queues below the root. In each one, others use
// 5 GiB, and so does an application of ours that is entitled to 20 GiB.
func busyCluster(t *testing.T, queues int) (*ledger.Ledger, ledger.ClusterReport) {
	t.Helper()
	l := ready(t)
	return l, busy(t, l, queues)
}

func busy(t *testing.T, l *ledger.Ledger, queues int) ledger.ClusterReport {
	t.Helper()
	r := ledger.ClusterReport{ClusterName: yarnProd, Asked: start, GoodFor: time.Hour, Settle: time.Minute}
	for i := range queues {
		r.Queues = append(r.Queues, ledger.QueueReport{Path: fmt.Sprintf("root.q%02d", i), Limit: gib(100)})
	}
	r.Queues = append(r.Queues, ledger.QueueReport{Path: "root", Limit: gib(1000)})
	must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
	must(t, l.ReportCluster(start, r))
	for i, q := range r.Queues[:queues] {
		a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
			at := resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: q.Path}
			c.Resource.External = []resource.External{{Address: at, Vector: gib(20)}}
		})
		must(t, err)
		id := fmt.Sprintf("app%d", i)
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, ApplicationIDs: []string{id}})
		must(t, err)
		r.Applications = append(r.Applications, ledger.ApplicationReport{ID: id, Known: true, Queue: q.Path, User: "alice"})
	}
	for range 2 {
		r = used(r, start, 5, 5)
		must(t, l.ReportCluster(start, r))
	}
	return r
}

// used is the report with what applications of ours, and others, use in each queue, in GiB.
func used(r ledger.ClusterReport, asked ledger.Instant, ours, others int64) ledger.ClusterReport {
	r.Asked = asked
	r.Queues, r.Applications = slices.Clone(r.Queues), slices.Clone(r.Applications)
	for i := range r.Applications {
		r.Queues[i].Used = gib(ours + others)
		r.Applications[i].Allocated = map[string]resource.Vector{ledger.AnyPartition: gib(ours)}
	}
	r.Queues[len(r.Applications)].Used = gib(int64(len(r.Applications)) * (ours + others))
	return r
}

// A large report is taken in by steps. In each of them so many queues go over to it at most, each
// with all its figures: what others use is never a mixture of two readings.
func TestALargeReportIsTakenInBySteps(t *testing.T) {
	const queues, step = 40, 8
	l, r := busyCluster(t, queues)
	l.SetReadingStep(step)
	later := start.Add(time.Second)
	must(t, l.ReportCluster(later, used(r, later, 3, 9))) // ours have shrunk: certain after one reading
	before, steps := readQueuesOf(l), 0
	for ; l.TakingIn(); steps++ {
		if at, due := l.NextTimer(); !due || at != later {
			t.Fatalf("due %t at %d: want more steps at once", due, at)
		}
		if c := l.Clusters()[0]; !c.Known {
			t.Fatal("what was read before holds no longer, and what was read last does not hold yet")
		}
		sound(t, l)
		l.Advance(later)
		now, changed := readQueuesOf(l), 0
		for at, q := range now {
			n := int64(1)
			if at.Path == "root" {
				n = queues
			}
			has, others := q.Report.Used.Memory()>>30, q.Account.Others.Memory()>>30
			if was := has == n*10 && others == n*5; !was && (has != n*12 || others != n*9) {
				t.Fatalf("%s: %d GiB are used, %d of them by others: want 10 and 5, or 12 and 9 (times %d)", at, has, others, n)
			}
			if has != before[at].Report.Used.Memory()>>30 {
				changed++
			}
		}
		if changed > step {
			t.Fatalf("%d queues have gone over in one step; want at most %d", changed, step)
		}
		if c := l.Clusters()[0]; c.Asked != start && changed > 0 && l.TakingIn() && now[resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.q39"}].Report.Used.Memory() != 12<<30 {
			t.Fatal("the cluster is said to be read at a time from which not all queues are")
		}
		before = now
	}
	// owners, what is shown, queues, and what was shown: 3 for each allocation, or 1 for each queue
	if least := (3*3*queues + queues) / (step + 3); steps < least {
		t.Errorf("%d steps; want at least %d", steps, least)
	}
	if c := l.Clusters()[0]; c.Asked != later {
		t.Errorf("it was asked at %d; want %d", c.Asked, later)
	}
	for at, q := range before {
		if q.Report.Used.Memory()%12 != 0 {
			t.Errorf("%s has not gone over", at)
		}
	}
	sound(t, l)
}

// Whatever changes among the steps, a ledger that took them has in the end what one has that takes
// in each report at once.
func TestWhateverHappensWhileAReportIsTakenIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newReader(t)
		t.Repeat(map[string]func(*rapid.T){
			"ask": w.ask, "confirm": w.confirm, "more applications": w.name, "release": w.release, "resize": w.resize, "report": w.report,
			"step": w.step, "step again": w.step, "step once more": w.step,
			"silence": func(t *rapid.T) {
				w.ledger.ClusterSilent(w.now, yarnProd, "away", rapid.Bool().Draw(t, "forget"))
			},
			"provider": func(t *rapid.T) { w.provider(t, rapid.SampledFrom([]string{"", "x"}).Draw(t, "settings")) },
			"time":     w.pass,
			"": func(t *rapid.T) {
				sound(t, w.ledger)
				if n := w.ledger.Lingering(); n > 0 {
					t.Fatalf("%d allocations that have ended are still there", n)
				}
			},
		})
		w.comeToRest(t)
	})
}

// reader is a ledger that takes in the reports of a cluster in small steps.
type reader struct {
	ledger *ledger.Ledger
	now    ledger.Instant
	beats  uint64
	ids    []ledger.ID
}

func newReader(t *rapid.T) *reader {
	w := &reader{ledger: ledger.New(ledger.Config{}, newPlainPlacer()), now: start}
	w.ledger.SetReadingStep(rapid.IntRange(1, 9).Draw(t, "step"))
	_, err := w.ledger.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 40)})
	noError(t, err)
	w.pass(t)
	w.provider(t, "")
	return w
}

func (w *reader) pass(t *rapid.T) {
	w.now = w.now.Add(5 * time.Second)
	w.beats++
	available := int64(1 << 40)
	_, err := w.ledger.Sync(w.now, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: w.beats, Full: w.beats == 1, Sample: &ledger.Sample{MemoryAvailable: &available},
	})
	noError(t, err)
}

func (w *reader) provider(t *rapid.T, settings string) {
	noError(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: yarnProd, Settings: map[string]string{"x": settings}}))
}

func (w *reader) step(*rapid.T) { w.ledger.Advance(w.now) }

var readPaths = []string{"root", "root.a", "root.a.x", "root.a.y", "root.b"}

func (w *reader) ask(t *rapid.T) {
	c := ledger.AllocateCommand{
		Actor: identity.Local(), Async: true, Wait: time.Hour, ReservationTTL: time.Hour, Resource: resource.NewResource(gib(1)),
		Priority: rapid.Int32Range(0, 1).Draw(t, "priority"),
	}
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(readPaths[1:]), 1, 2, rapid.ID).Draw(t, "queues") {
		at := resource.Address{Kind: "yarn", Cluster: "prod", Path: path}
		c.Resource.External = append(c.Resource.External, resource.External{Address: at, Vector: gib(rapid.Int64Range(1, 6).Draw(t, "size"))})
	}
	if a, err := w.ledger.Allocate(w.now, c); err == nil {
		w.ids = append(w.ids, a.Allocation.ID)
	}
}

func (w *reader) some(t *rapid.T) ledger.ID {
	if len(w.ids) == 0 {
		return 0
	}
	return rapid.SampledFrom(w.ids).Draw(t, "allocation")
}

var readApplications = []string{"app1", "app2", "app3", "app4"}

func (w *reader) confirm(t *rapid.T) {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(readApplications), 0, 2, rapid.ID).Draw(t, "applications")
	process := ledger.Process{PID: rapid.Int32Range(0, 1).Draw(t, "pid")}
	_, _ = w.ledger.Confirm(w.now, ledger.ConfirmCommand{Actor: identity.Local(), ID: w.some(t), Process: process, ApplicationIDs: names})
}

func (w *reader) name(t *rapid.T) {
	id := w.some(t)
	if a, live := w.ledger.Get(id); live && a.State == ledger.Active {
		_, _ = w.ledger.Confirm(w.now, ledger.ConfirmCommand{
			Actor: identity.Local(), ID: id, Process: a.Process, ApplicationIDs: []string{rapid.SampledFrom(readApplications).Draw(t, "application")},
		})
	}
}

func (w *reader) release(t *rapid.T) {
	_, _ = w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: w.some(t)})
}

func (w *reader) resize(t *rapid.T) {
	a, live := w.ledger.Get(w.some(t))
	if !live || len(a.Entitled.External) == 0 {
		return
	}
	to := a.Entitled
	to.External = slices.Clone(to.External)
	to.External[0].Vector = gib(rapid.Int64Range(0, 8).Draw(t, "size"))
	_, _ = w.ledger.Resize(w.now, ledger.ResizeCommand{Actor: identity.Local(), ID: a.ID, Entitled: to})
}

func (w *reader) report(t *rapid.T) {
	r := ledger.ClusterReport{
		ClusterName: yarnProd, Asked: w.now, GoodFor: 30 * time.Second, Settle: 10 * time.Second,
		Incarnation: rapid.SampledFrom([]string{"", "", "", "other"}).Draw(t, "incarnation"),
		Untrusted:   rapid.SampledFrom([]string{"", "", "", "starting"}).Draw(t, "untrusted"),
	}
	for _, path := range readPaths {
		if rapid.IntRange(0, 9).Draw(t, path+" is there") > 0 {
			r.Queues = append(r.Queues, ledger.QueueReport{
				Path: path, Limit: gib(20), Used: gib(rapid.Int64Range(0, 12).Draw(t, path)), CreatesChildren: rapid.Bool().Draw(t, path+" creates"),
			})
		}
	}
	for _, id := range readApplications {
		if rapid.IntRange(0, 3).Draw(t, id+" has an answer") > 0 {
			r.Applications = append(r.Applications, ledger.ApplicationReport{
				ID: id, Known: true, Ended: rapid.IntRange(0, 5).Draw(t, id+" has ended") == 0, Queue: rapid.SampledFrom(readPaths).Draw(t, id),
				Allocated: map[string]resource.Vector{ledger.AnyPartition: gib(rapid.Int64Range(0, 8).Draw(t, id))},
			})
		}
	}
	noError(t, w.ledger.ReportCluster(w.now, r))
}

// comeToRest compares the queues with those of a ledger that has loaded the rows, and takes in
// reports at once. Nothing waits for what is there.
func (w *reader) comeToRest(t *rapid.T) {
	again := &reader{ledger: ledger.New(ledger.Config{}, newPlainPlacer())}
	both := []*reader{w, again}
	for i, at := range both {
		if i > 0 {
			s := ledger.Snapshot{Revision: w.ledger.Revision(), Providers: w.ledger.Providers(), Hosts: []ledger.HostRecord{{ID: "h1", Capacity: resource.Vector{}.WithMemory(1 << 40)}}}
			w.ledger.Allocations(0, func(a *ledger.Allocation) bool {
				if a.State.Holds() {
					s.Allocations = append(s.Allocations, *a)
				}
				return true
			})
			noError(t, at.ledger.Restore(w.now, s))
			at.now = w.now
		}
		if i == 0 {
			for _, id := range w.ids { // so that nothing is granted any more
				if a, live := w.ledger.Get(id); live && a.State == ledger.Waiting {
					_, err := w.ledger.Cancel(w.now, ledger.CancelCommand{Actor: identity.Local(), ID: id})
					noError(t, err)
				}
			}
		}
		for range 2 {
			at.now = at.now.Add(15 * time.Second)
			r := ledger.ClusterReport{ClusterName: yarnProd, Asked: at.now, GoodFor: time.Hour, Settle: 10 * time.Second}
			for n, path := range readPaths {
				r.Queues = append(r.Queues, ledger.QueueReport{Path: path, Limit: gib(20), Used: gib(int64(20 - n))})
			}
			for n, id := range readApplications {
				r.Applications = append(r.Applications, ledger.ApplicationReport{
					ID: id, Known: true, Queue: "root.a.x", Allocated: map[string]resource.Vector{ledger.AnyPartition: gib(int64(n))},
				})
			}
			noError(t, at.ledger.ReportCluster(at.now, r))
			for range 1000 {
				if at.ledger.TakingIn() {
					at.ledger.Advance(at.now)
				}
			}
			if at.ledger.TakingIn() {
				t.Fatal("a report does not come to its end")
			}
		}
		sound(t, at.ledger)
	}
	figures := func(l *ledger.Ledger) []string {
		var list []string
		l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
			list = append(list, fmt.Sprintf("%s known %t others %d has %d", q.Address, q.Known, q.Account.Others.Memory()>>30, q.Account.Used.Memory()>>30))
			return true
		})
		return list
	}
	if got, want := figures(w.ledger), figures(again.ledger); !cmp.Equal(got, want) {
		t.Fatalf("queues: %s", cmp.Diff(want, got))
	}
}

// What waits because nothing is known of a cluster is granted when a report of it was taken in, and
// what waits behind a queue when that has gone over to a report that shows room.
func TestWhoeverWaitsIsWokenByAReportThatTakesSteps(t *testing.T) {
	for what, before := range map[string][]ledger.QueueReport{
		"nothing was known": nil,
		"it was full": {
			{Path: "root", Limit: gib(9), Used: gib(9)}, {Path: "root.a", Limit: gib(9), Used: gib(9)}, {Path: "root.b", Limit: gib(9), Used: gib(9)},
		},
		"the queues took no applications": {
			{Path: "root", Limit: gib(9)}, {Path: "root.a", Limit: gib(9), Closed: true}, {Path: "root.b", Limit: gib(9), Closed: true},
		},
	} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		if before != nil {
			must(t, reportQueues(l, yarnProd, before...))
		}
		var ids []ledger.ID
		for _, path := range []string{"root.a", "root.b"} {
			a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
				at := resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: path}
				c.Resource.External = []resource.External{{Address: at, Vector: gib(2)}}
				c.Async, c.Wait = true, time.Hour
			})
			must(t, err)
			ids = append(ids, a.ID)
		}
		l.SetReadingStep(1)
		must(t, reportQueues(l, yarnProd, ledger.QueueReport{Path: "root.a", Limit: gib(9)}, ledger.QueueReport{Path: "root.b", Limit: gib(9)}, ledger.QueueReport{Path: "root", Limit: gib(9)}))
		steps := 0
		for at, due := l.NextTimer(); due && at <= start && steps < 100; at, due = l.NextTimer() {
			l.Advance(start)
			steps++
		}
		for _, id := range ids {
			if a, _ := l.Get(id); a.State != ledger.Reserved {
				t.Errorf("%s: after %d steps %s is %s; want reserved", what, steps, id, a.State)
			}
		}
		sound(t, l)
	}
}

// Figures that may not be relied on are not granted by while they are taken in.
func TestNothingIsGrantedByAReportThatIsNotTrusted(t *testing.T) {
	l, r := busyCluster(t, 4)
	l.SetReadingStep(1)
	r = used(r, start, 0, 0)
	r.Untrusted = "starting"
	must(t, l.ReportCluster(start, r))
	for l.TakingIn() {
		if c := l.Clusters()[0]; c.Known {
			t.Fatal("the cluster is said to be known")
		}
		l.Advance(start)
	}
	if c := l.Clusters()[0]; c.Known || c.Unavailable != "starting" {
		t.Errorf("got %+v", c)
	}
	sound(t, l)
}

// While one report is taken in, another one comes, or the cluster cannot be read, or it is another
// one now.
func TestWhatComesWhileAReportIsTakenIn(t *testing.T) {
	later := start.Add(time.Second)
	for what, test := range map[string]struct {
		comes func(*ledger.Ledger, ledger.ClusterReport) error
		used  int64 // in a queue, in the end
		known bool
	}{
		"another report": {func(l *ledger.Ledger, r ledger.ClusterReport) error {
			return l.ReportCluster(later, used(r, later, 1, 1))
		}, 2, true},
		"an older report": {func(l *ledger.Ledger, r ledger.ClusterReport) error {
			return l.ReportCluster(later, used(r, start-1, 1, 1))
		}, 12, true},
		"silence": {func(l *ledger.Ledger, _ ledger.ClusterReport) error {
			l.ClusterSilent(later, yarnProd, "away", false)
			return nil
		}, 12, true},
		"a failover": {func(l *ledger.Ledger, _ ledger.ClusterReport) error {
			l.ClusterSilent(later, yarnProd, "away", true)
			return nil
		}, 12, false},
		"other settings": {func(l *ledger.Ledger, _ ledger.ClusterReport) error {
			return l.PutProvider(later, ledger.ProviderRecord{ClusterName: yarnProd, Settings: map[string]string{"addresses": "x"}})
		}, 0, false},
		"no provider": {func(l *ledger.Ledger, _ ledger.ClusterReport) error { return l.DeleteProvider(later, yarnProd) }, 0, false},
	} {
		for steps := range 60 {
			l, r := busyCluster(t, 4)
			l.SetReadingStep(2)
			must(t, l.ReportCluster(start, used(r, start, 3, 9)))
			for range steps {
				l.Advance(start)
			}
			over := !l.TakingIn()
			must(t, test.comes(l, r))
			sound(t, l)
			for l.TakingIn() {
				l.Advance(later)
			}
			q := readQueuesOf(l)[resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.q03"}]
			if q.Report.Used.Memory() != test.used<<30 || q.Known != test.known {
				t.Fatalf("%s after %d steps: used %d, known %t; want %d GiB, %t", what, steps, q.Report.Used.Memory(), q.Known, test.used, test.known)
			}
			sound(t, l)
			if over {
				break
			}
		}
	}
}

package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// TestNoGrantExceedsWhatAClusterReallyHas plays a cluster whose use is known exactly, and reads it
// as a provider does: the queues at one moment, each application at another, while applications
// grow, shrink, end and begin in between. Whatever is granted: what others really had when the
// queues were read, and still have, and all that we granted, are together within the limit, in
// every queue and all those above. An application goes only one way between two answers about it:
// that it went both ways nobody could know.
func TestNoGrantExceedsWhatAClusterReallyHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTruth(t)
		all := func(t *rapid.T) { w.readQueues(t); w.readApplications(t); w.deliver(t) }
		for all(t); len(w.apps) < 2; w.confirm(t) {
			w.allocate(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":                    w.check,
			"allocate":            w.allocate,
			"allocate more":       w.allocate,
			"allocate still more": w.allocate,
			"confirm":             w.confirm,
			"confirm more":        w.confirm,
			"release":             w.release,
			"resize":              w.resize,
			"an application ends": w.endApplication,
			"others shrink":       func(t *rapid.T) { w.others = amountsOf(t, w.others) },
			"read queues":         w.readQueues,
			"read applications":   w.readApplications,
			"deliver":             w.deliver,
			"read all":            all,
			"read all again":      all,
			"nobody answers":      w.silence,
			"go on":               w.goOn,
			"go on again":         w.goOn,
			"time passes":         w.pass,
		})
		w.comeToRest(t)
	})
}

// The queues of the true cluster: these and those above them.
var trueLeaves = []string{"root.a.x", "root.a.y", "root.b"}

// pairOf is memory and cpu.
type pairOf [2]int64

func (p pairOf) vector() resource.Vector { return resource.Vector{}.WithMemory(p[0]).WithCPU(p[1]) }

// truth is a cluster, the ledger, and what has been read and not delivered yet.
type truth struct {
	ledger *ledger.Ledger
	now    ledger.Instant
	beats  uint64
	limits map[string]pairOf
	others map[string]pairOf
	apps   map[string]*trueApp

	reading    *ledger.ClusterReport
	answered   bool
	readOthers map[string]pairOf // when the queues were read that are being delivered
	seenOthers map[string]pairOf // when those were read that were delivered last
	// seenBefore is the same of those that were delivered before. They hold for some queues until
	// the last ones are taken in.
	seenBefore map[string]pairOf
	takingIn   bool // at the last look at what was granted
	delivered  bool
}

// trueApp is an application of ours.
type trueApp struct {
	id, queue string
	names     []ledger.ID // the allocations that name it
	ended     bool
	moving    bool   // since its last answer that was delivered
	has, will pairOf // now; and by the next one
	// when the queues were read last, and when those were that were delivered last, and before
	read, seen, seenBefore pairOf
}

func newTruth(t *rapid.T) *truth {
	w := &truth{
		ledger: ledger.New(ledger.Config{}, newPlainPlacer()), now: start,
		limits: make(map[string]pairOf), others: make(map[string]pairOf), apps: make(map[string]*trueApp),
	}
	for _, path := range []string{"root", "root.a", "root.a.x", "root.a.y", "root.b"} {
		w.limits[path] = pairOf{rapid.Int64Range(12, 30).Draw(t, path), 100}
	}
	for _, path := range trueLeaves {
		w.others[path] = pairOf{}
	}
	if rapid.Bool().Draw(t, "reports take many steps") {
		w.ledger.SetReadingStep(rapid.IntRange(1, 8).Draw(t, "step"))
	}
	c := ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 40).WithCPU(1 << 40)}
	if _, err := w.ledger.Register(w.now, c); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if err := w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: trueCluster}); err != nil {
		t.Fatal(err)
	}
	return w
}

var trueCluster = ledger.ClusterName{Kind: "yarn", Cluster: "c"}

// pass lets time pass. The host has room for everything.
func (w *truth) pass(t *rapid.T) {
	w.now = w.now.Add(5 * time.Second)
	w.beats++
	available := int64(1 << 40)
	c := ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: w.beats, Full: w.beats == 1, Sample: &ledger.Sample{MemoryAvailable: &available}}
	if _, err := w.ledger.Sync(w.now, c); err != nil {
		t.Fatal(err)
	}
	w.granted(t)
}

// amountsOf draws no more than there is.
func amountsOf(t *rapid.T, most map[string]pairOf) map[string]pairOf {
	less := make(map[string]pairOf)
	for _, path := range slices.Sorted(maps.Keys(most)) {
		for i := range most[path] {
			p := less[path]
			p[i] = rapid.Int64Range(0, most[path][i]).Draw(t, path)
			less[path] = p
		}
	}
	return less
}

func drawPair(t *rapid.T, name string, most int64) pairOf {
	return pairOf{rapid.Int64Range(0, most).Draw(t, name), rapid.Int64Range(0, most).Draw(t, name)}
}

func (w *truth) allocate(t *rapid.T) {
	c := ledger.AllocateCommand{Actor: identity.Local(), Async: true, ReservationTTL: time.Hour}
	var parts []resource.External
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(trueLeaves), 1, 2, rapid.ID[string]).Draw(t, "queues") {
		parts = append(parts, resource.External{
			Address: resource.Address{Kind: "yarn", Cluster: "c", Path: path}, Vector: drawPair(t, path, 6).vector(),
		})
	}
	c.Resource = resource.NewResource(resource.Vector{}, parts...)
	c.Wait = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "wait")
	_, _ = w.ledger.Allocate(w.now, c) // refused or not, what matters is what is granted
	w.granted(t)
}

// live draws an allocation.
func (w *truth) live(t *rapid.T, states ...ledger.State) (ledger.Allocation, bool) {
	var list []ledger.Allocation
	w.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		if slices.Contains(states, a.State) {
			list = append(list, *a)
		}
		return true
	})
	if len(list) == 0 {
		return ledger.Allocation{}, false
	}
	return rapid.SampledFrom(list).Draw(t, "allocation"), true
}

// confirm starts an engine with applications of its own, or with one that another has named too.
func (w *truth) confirm(t *rapid.T) {
	a, found := w.live(t, ledger.Reserved)
	if !found {
		return
	}
	c := ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Process: ledger.Process{PID: 1, StartTime: uint64(a.ID)}}
	for range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "applications") {
		part := rapid.SampledFrom(a.Entitled.External).Draw(t, "part")
		app := &trueApp{id: fmt.Sprintf("app_%d", len(w.apps)), queue: part.Path}
		if len(w.apps) > 0 && rapid.IntRange(0, 9).Draw(t, "shared") == 0 {
			app = w.apps[rapid.SampledFrom(slices.Sorted(maps.Keys(w.apps))).Draw(t, "other")]
		}
		w.apps[app.id] = app
		app.names = append(app.names, a.ID)
		c.ApplicationIDs = append(c.ApplicationIDs, app.id)
	}
	if _, err := w.ledger.Confirm(w.now, c); err != nil {
		t.Fatal(err)
	}
	w.granted(t)
}

// release gives an allocation back. Its applications may go on for a while.
func (w *truth) release(t *rapid.T) {
	a, found := w.live(t, ledger.Reserved, ledger.Active, ledger.Waiting)
	if !found {
		return
	}
	if rapid.Bool().Draw(t, "its applications end") {
		for _, id := range a.ApplicationIDs {
			w.apps[id].end()
		}
	}
	if _, err := w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: a.ID}); err != nil {
		t.Fatal(err)
	}
	w.granted(t)
}

func (w *truth) resize(t *rapid.T) {
	a, found := w.live(t, ledger.Reserved, ledger.Active)
	if !found {
		return
	}
	part := rapid.SampledFrom(a.Entitled.External).Draw(t, "part")
	next := drawPair(t, "next", 8)
	c := ledger.ResizeCommand{Actor: identity.Local(), ID: a.ID, Entitled: resource.Resource{}.WithPart(part.Address, next.vector())}
	_, err := w.ledger.Resize(w.now, c)
	for i, before := range [...]int64{part.Memory(), part.CPU()} {
		if err == nil && next[i] > before {
			w.within(t, a.ID, part.Path, i)
		}
	}
	w.granted(t)
}

func (w *truth) endApplication(t *rapid.T) {
	if len(w.apps) > 0 {
		w.apps[rapid.SampledFrom(slices.Sorted(maps.Keys(w.apps))).Draw(t, "application")].end()
	}
}

func (a *trueApp) end() { a.ended, a.has, a.will = true, pairOf{}, pairOf{} }

// readQueues asks for the queues. Others may have taken more by then, or given back; each
// application is somewhere on its way.
func (w *truth) readQueues(t *rapid.T) {
	w.answered = false
	for _, path := range trueLeaves {
		w.others[path] = drawPair(t, "others in "+path, 6)
	}
	w.readOthers = maps.Clone(w.others)
	for _, id := range slices.Sorted(maps.Keys(w.apps)) {
		a := w.apps[id]
		if a.ended {
			a.read = pairOf{}
			continue
		}
		if !a.moving {
			a.moving, a.will = true, drawPair(t, id, 8)
		}
		for i := range a.will {
			a.has[i] = rapid.Int64Range(min(a.has[i], a.will[i]), max(a.has[i], a.will[i])).Draw(t, id+" on its way")
		}
		a.read = a.has
	}
	w.reading = w.snapshot()
}

// snapshot is what the cluster says of its queues now.
func (w *truth) snapshot() *ledger.ClusterReport {
	r := &ledger.ClusterReport{ClusterName: trueCluster, Asked: w.now, GoodFor: time.Hour, Settle: time.Hour}
	for _, path := range slices.Sorted(maps.Keys(w.limits)) {
		used := pairOf{}
		w.below(path, func(leaf string) {
			for i := range used {
				used[i] += w.others[leaf][i]
				for _, a := range w.apps {
					if a.queue == leaf {
						used[i] += a.has[i]
					}
				}
			}
		})
		r.Queues = append(r.Queues, ledger.QueueReport{Path: path, Limit: w.limits[path].vector(), Used: used.vector()})
	}
	return r
}

func (w *truth) below(path string, each func(leaf string)) {
	for _, leaf := range trueLeaves {
		if leaf == path || strings.HasPrefix(leaf, path+".") {
			each(leaf)
		}
	}
}

// readApplications asks for the applications. Not every one may be answered.
func (w *truth) readApplications(t *rapid.T) {
	if w.reading == nil || w.answered {
		return
	}
	w.answered = true
	for _, a := range w.apps {
		a.has = a.will
	}
	for _, id := range w.ledger.Applications(trueCluster) {
		if rapid.IntRange(0, 9).Draw(t, id+" has no answer") > 0 {
			w.reading.Applications = append(w.reading.Applications, w.apps[id].answer(t))
		}
	}
}

func (a *trueApp) answer(t *rapid.T) ledger.ApplicationReport {
	r := ledger.ApplicationReport{ID: a.id, Known: true, Ended: a.ended, Queue: a.queue}
	if rapid.Bool().Draw(t, a.id+" by the last element") {
		r.Queue = a.queue[strings.LastIndexByte(a.queue, '.')+1:]
	}
	r.Allocated = map[string]resource.Vector{
		rapid.SampledFrom([]string{"", ledger.AnyPartition}).Draw(t, a.id+" in partition"): a.has.vector(),
	}
	return r
}

// deliver hands over what was read.
func (w *truth) deliver(t *rapid.T) {
	if w.reading == nil || !w.answered {
		return
	}
	// What is still due of earlier steps is decided before the reading is applied, by the one
	// before it. So it is checked against that one.
	w.ledger.Begin(w.now)
	w.granted(t)
	w.takingIn = false // what is left of the one before is taken in before anything is granted
	w.seenOthers, w.seenBefore = w.readOthers, w.seenOthers
	for _, a := range w.apps {
		a.seen, a.seenBefore, a.moving = a.read, a.seen, false
	}
	w.delivered = true
	if err := w.ledger.ReportCluster(w.now, *w.reading); err != nil {
		t.Fatal(err)
	}
	w.reading = nil
	w.granted(t)
}

// goOn takes in more of what was delivered.
func (w *truth) goOn(t *rapid.T) {
	w.ledger.Advance(w.now)
	w.granted(t)
}

// silence is a reading that failed: what came before it holds, or with a failover nothing does.
func (w *truth) silence(t *rapid.T) {
	w.reading, w.answered = nil, false
	w.ledger.ClusterSilent(w.now, trueCluster, "", rapid.IntRange(0, 3).Draw(t, "forget") == 0)
}

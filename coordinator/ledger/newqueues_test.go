package ledger_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

var prod = ledger.ClusterName{Kind: "yarn", Cluster: "prod"}

// deep asks for 8 parts in queues that are 32 deep, which nobody else uses, and waits.
func deep(i int, caller string) ledger.AllocateCommand {
	r := resource.NewResource(resource.Vector{}.WithMemory(1))
	for part := range 8 {
		at := resource.Address{Kind: prod.Kind, Cluster: prod.Cluster, Path: "root" + strings.Repeat(fmt.Sprintf(".%d-%d", i, part), 31)}
		r.External = append(r.External, resource.External{Address: at, Vector: resource.Vector{}.WithMemory(1)})
	}
	return ledger.AllocateCommand{
		Actor: identity.Actor{Name: caller, Anyone: true}, RequestID: fmt.Sprint(i), Async: true, Wait: time.Hour,
		Labels: label.Set{{Key: "user", Value: "u"}}, Resource: r,
	}
}

// A request takes as long as what is new for it, however many queues of others there are, and so
// do its end and its load.
func TestARequestInQueuesOfItsOwnTakesAsLongWhateverOthersHave(t *testing.T) {
	const few, many = 100, 1000
	a, b := newBesideOthers(t, few), newBesideOthers(t, many)
	// ten times as many; if each had to do with all others, a hundred times as long
	wantRatio(t, "a load", 50, a.loads, b.loads)
	wantRatio(t, "a request", 4, a.asks, b.asks)
	wantRatio(t, "an end", 4, a.ends, b.ends)
	for _, w := range []*besideOthers{a, b} {
		for _, id := range w.ids {
			w.release(id)
		}
		if n := w.queues(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
		w.audit()
	}
}

// besideOthers is a ledger with requests that wait in queues of their own.
type besideOthers struct {
	*liveWorld

	store *mirror
	ids   []ledger.ID
}

func newBesideOthers(t *testing.T, others int) *besideOthers {
	t.Helper()
	w := &besideOthers{liveWorld: newLiveWorld(t, ledger.Config{Interval: time.Hour}, "h1"), store: newMirror()}
	must(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: prod}))
	for range others {
		w.asks()
	}
	return w
}

func (w *besideOthers) asks() time.Duration {
	n := len(w.ids)
	command := deep(n, fmt.Sprint("c", n))
	return took(func() {
		result, err := w.ledger.Allocate(w.now, command)
		must(w.T, err)
		w.ids = append(w.ids, result.Allocation.ID)
	})
}

func (w *besideOthers) ends() time.Duration {
	last := len(w.ids) - 1
	defer func() { w.ids = w.ids[:last] }()
	return took(func() { w.release(w.ids[last]) })
}

func (w *besideOthers) loads() time.Duration {
	w.store.fold(w.ledger.Changes())
	return took(func() {
		_, err := w.store.restore(w.now, ledger.Config{Interval: time.Hour})
		must(w.T, err)
	})
}

// A request in queues of its own counts on its caller with what these take.
func TestARequestInQueuesOfItsOwnCountsWithWhatItTakes(t *testing.T) {
	const n = 200
	w := newLiveWorld(t, ledger.Config{Interval: time.Hour}, "h1")
	must(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: prod}))
	before := heapInUse()
	for i := range n {
		_, err := w.ledger.Allocate(w.now, deep(i, "c"))
		must(t, err)
	}
	w.ledger.Changes()
	w.ledger.Durable(w.now, w.ledger.Revision())
	took, counts := (heapInUse()-before)/n, w.ledger.CallerBytes("c")/n
	t.Logf("%d bytes each, counted as %d", took, counts)
	if took > counts {
		t.Errorf("each takes %d bytes and counts as %d", took, counts)
	}
	runtime.KeepAlive(w)
}

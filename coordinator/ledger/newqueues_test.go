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
	const batch, batches = 100, 10
	w := newLiveWorld(t, ledger.Config{Interval: time.Hour}, "h1")
	must(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: prod}))
	store := newMirror()
	least := func(n int, do func(i int)) time.Duration {
		least := time.Hour
		for i := range n {
			began := time.Now()
			do(i)
			least = min(least, time.Since(began))
		}
		return least
	}
	restore := func(times int) time.Duration {
		return least(times, func(int) {
			_, err := store.restore(w.now, ledger.Config{Interval: time.Hour})
			must(t, err)
		})
	}
	var ids []ledger.ID
	var first, last, load time.Duration
	for n := range batches {
		last = least(batch, func(i int) {
			result, err := w.ledger.Allocate(w.now, deep(n*batch+i, fmt.Sprint("c", n*batch+i)))
			must(t, err)
			ids = append(ids, result.Allocation.ID)
		})
		store.fold(w.ledger.Changes())
		if n == 0 {
			first, load = last, restore(3)
		}
		if last > 4*first {
			t.Fatalf("a request takes %v after %d others, and %v at first", last, n*batch, first)
		}
	}
	// if each had to do with all others: ten times batches
	if all := restore(2); all > 5*batches*load {
		t.Errorf("%d requests are loaded in %v, and %d in %v", batches*batch, all, batch, load)
	}
	release := func(i int) { w.release(ids[len(ids)-1-i]) }
	many := least(batch, release)
	ids = ids[:len(ids)-batch]
	for len(ids) > batch {
		w.release(ids[len(ids)-1])
		ids = ids[:len(ids)-1]
	}
	if few := least(batch, release); many > 4*few {
		t.Errorf("an end takes %v next to %d others, and %v next to few", many, batches*batch, few)
	}
	if n := w.queues(); n != 0 {
		t.Errorf("%d queues are left", n)
	}
	w.audit()
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

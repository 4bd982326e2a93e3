package ledger_test

import (
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// granted checks every grant since it was last called.
func (w *truth) granted(t *rapid.T) {
	t.Helper()
	changes := w.ledger.Changes()
	w.ledger.Durable(w.now, changes.Revision)
	for i := range changes.Transitions {
		a := &changes.Transitions[i]
		if now, live := w.ledger.Get(a.ID); a.State != ledger.Reserved || !live || now.State != ledger.Reserved || now.Revision != a.Revision || now.GrantRevision != a.Revision {
			continue
		}
		for _, part := range a.Entitled.External {
			for i, asked := range [...]int64{part.Memory(), part.CPU()} {
				if asked > 0 {
					w.within(t, a.ID, part.Path, i)
				}
			}
		}
	}
	w.takingIn = w.ledger.TakingIn()
}

// within checks one dimension of a queue and of those above it.
func (w *truth) within(t *rapid.T, id ledger.ID, path string, dimension int) {
	t.Helper()
	if !w.delivered {
		t.Fatalf("%s is granted something in %s, of which nothing is known", id, path)
	}
	for {
		if ours, others, limit := w.ours(path)[dimension], w.theirs(path)[dimension], w.limits[path][dimension]; ours+others > limit {
			t.Fatalf("invariant 1: %s is granted in %s, where others really have %d and we have granted %d of %d", id, path, others, ours, limit)
		}
		at := strings.LastIndexByte(path, '.')
		if at < 0 {
			return
		}
		path = path[:at]
	}
}

// ours is what we have granted in a queue and below.
func (w *truth) ours(path string) pairOf {
	sum := pairOf{}
	w.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		for _, part := range a.Entitled.External {
			if a.State.Holds() && (part.Path == path || strings.HasPrefix(part.Path, path+".")) {
				sum[0], sum[1] = sum[0]+part.Memory(), sum[1]+part.CPU()
			}
		}
		return true
	})
	return sum
}

// theirs is what others surely have in a queue and below, as of the last delivered reading and
// now: other people's applications, what is left of those whose allocation has ended, and what
// those of ours have beyond what they were granted.
func (w *truth) theirs(path string) pairOf {
	sum := pairOf{}
	w.below(path, func(leaf string) {
		for i := range sum {
			sum[i] += min(w.seen(w.seenOthers[leaf][i], w.seenBefore[leaf][i]), w.others[leaf][i])
			for _, a := range w.apps {
				if a.queue != leaf {
					continue
				}
				granted := int64(0)
				for _, name := range a.names {
					if allocation, live := w.ledger.Get(name); live {
						part, _ := allocation.Entitled.Part(resource.Address{Kind: "yarn", Cluster: "c", Path: leaf})
						granted += [...]int64{part.Memory(), part.CPU()}[i]
					}
				}
				sum[i] += max(0, min(w.seen(a.seen[i], a.seenBefore[i]), a.has[i])-granted)
			}
		}
	})
	return sum
}

// seen is what surely was there when the queues were read, by the last reading; while it is being
// taken in, or was since the last look, by the one before, too.
func (w *truth) seen(last, before int64) int64 {
	if w.takingIn || w.ledger.TakingIn() {
		return min(last, before)
	}
	return last
}

func (w *truth) check(t *rapid.T) {
	for _, v := range w.ledger.Audit() {
		t.Fatalf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
}

// comeToRest reads a cluster in which nothing moves any more twice. Then what others use is known
// exactly, where no application belongs to two allocations or outgrew its own.
func (w *truth) comeToRest(t *rapid.T) {
	for _, a := range w.apps {
		a.has, a.will = pairOf{}, pairOf{}
		if owner, live := w.ledger.Get(a.firstLive(w.ledger)); live && !a.ended {
			part, _ := owner.Entitled.Part(resource.Address{Kind: "yarn", Cluster: "c", Path: a.queue})
			share := int64(len(owner.ApplicationIDs))
			a.has = pairOf{part.Memory() / share, part.CPU() / share}
		}
	}
	for range 2 {
		w.now = w.now.Add(time.Second)
		w.reading = w.snapshot()
		for _, id := range w.ledger.Applications(trueCluster) {
			w.reading.Applications = append(w.reading.Applications, w.apps[id].answer(t))
		}
		if err := w.ledger.ReportCluster(w.now, *w.reading); err != nil {
			t.Fatal(err)
		}
		for w.ledger.TakingIn() {
			w.ledger.Advance(w.now)
		}
	}
	w.ledger.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		want := pairOf{}
		w.below(q.Address.Path, func(leaf string) {
			for i := range want {
				want[i] += w.others[leaf][i]
			}
		})
		if got := q.Account.Others; got.Memory() != want[0] || got.CPU() != want[1] {
			t.Fatalf("%s: others use %s; want %s", q.Address, got, want.vector())
		}
		return true
	})
	w.check(t)
}

// firstLive is the first allocation that names the application and is live.
func (a *trueApp) firstLive(l *ledger.Ledger) ledger.ID {
	for _, id := range slices.Sorted(slices.Values(a.names)) {
		if allocation, live := l.Get(id); live && allocation.State == ledger.Active {
			return id
		}
	}
	return 0
}

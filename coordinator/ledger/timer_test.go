package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTheNextTimerIsTheFirstDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var heap timers
		all := make([]timer, 16)
		due := make([]Instant, len(all)) // the model; zero: not set
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "timer")
				due[i] = Instant(rapid.IntRange(0, 20).Draw(t, "due"))
				heap.set(&all[i], due[i])
			},
			"set all": func(t *rapid.T) {
				for i := range all {
					due[i] = Instant(rapid.IntRange(0, 20).Draw(t, "due"))
					heap.set(&all[i], due[i])
				}
			},
			"fire": func(*rapid.T) {
				if next := heap.next(); next != nil {
					i := slices.IndexFunc(all, func(t timer) bool { return t.index == next.index })
					due[i] = 0
					heap.set(next, 0)
				}
			},
			"": func(t *rapid.T) {
				first, set := Instant(0), 0
				for i, at := range due {
					if at != all[i].due || (at != 0) != (all[i].index != 0) {
						t.Fatalf("timer %d is due at %d, index %d; want %d", i, all[i].due, all[i].index, at)
					}
					if at == 0 {
						continue
					}
					set++
					if index := all[i].index; heap.heap[index] != (scheduled{at, &all[i]}) || heap.heap[index/2].due > at {
						t.Fatalf("timer %d is not where it says, or below a later one", i)
					}
					if first == 0 || at < first {
						first = at
					}
				}
				next := heap.next()
				if (next == nil) != (set == 0) || (next != nil && next.due != first) {
					t.Fatalf("next is %v; want one due at %d", next, first)
				}
				if set > 0 && len(heap.heap) != set+1 {
					t.Fatalf("%d timers in the heap; want %d", len(heap.heap)-1, set)
				}
			},
		})
	})
}

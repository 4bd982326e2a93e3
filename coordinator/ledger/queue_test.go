package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/resource"
)

// waiter is a request in the model of a queue.
type waiter struct {
	entry *entry
	share *share
}

// order is the obvious one: by priority, then fair share, then arrival.
func order(a, b waiter) int {
	return cmp.Or(
		-cmp.Compare(a.entry.Priority, b.entry.Priority),
		cmp.Compare(a.share.value, b.share.value),
		cmp.Compare(a.entry.ID, b.entry.ID),
	)
}

func TestAQueueIsOrderedByPriorityFairShareAndArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue{}
		everything := fleet{memory: 100, cpu: 100}
		shares := make([]*share, 3)
		for i := range shares {
			shares[i] = &share{key: fmt.Sprint(i), weight: int64(i + 1)}
		}
		shares[2].guaranteed = resource.Vector{}.WithMemory(30)
		classes := make(map[string]*class)
		var model []waiter
		next := ID(1)
		join := func(w waiter, memory int64) {
			key := fmt.Sprint(w.entry.Priority, w.share.key, memory)
			c := classes[key]
			if c == nil {
				c = &class{priority: w.entry.Priority, share: w.share, request: resource.Vector{}.WithMemory(memory), members: newMembers()}
				classes[key] = c
			}
			empty := c.group == nil
			c.add(w.entry)
			if empty {
				if len(w.share.groups) == 0 {
					w.share.revalue(&everything)
				}
				q.push(c)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				e := &entry{Allocation: Allocation{ID: next, Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority"))}, waitState: &waitState{}}
				next += 2
				w := waiter{e, shares[rapid.IntRange(0, 2).Draw(t, "share")]}
				join(w, rapid.Int64Range(0, 2).Draw(t, "memory"))
				model = append(model, w)
			},
			"leave": func(t *rapid.T) {
				if len(model) > 0 {
					at := rapid.IntRange(0, len(model)-1).Draw(t, "waiter")
					model[at].entry.class.remove(model[at].entry)
					model = slices.Delete(model, at, at+1)
				}
			},
			"come back": func(t *rapid.T) {
				if len(model) > 0 {
					w := model[rapid.IntRange(0, len(model)-1).Draw(t, "waiter")]
					memory := w.entry.class.request.Memory()
					w.entry.class.remove(w.entry)
					join(w, memory)
				}
			},
			"use": func(t *rapid.T) {
				v := resource.Vector{}.WithMemory(rapid.Int64Range(0, 20).Draw(t, "memory")).WithCPU(rapid.Int64Range(0, 20).Draw(t, "cpu"))
				shares[rapid.IntRange(0, 2).Draw(t, "share")].count(v, 1, &everything)
			},
			"": func(t *rapid.T) {
				for _, s := range shares {
					// the same value if a request waits, a current one if none does
					s.revalue(&everything)
				}
				slices.SortFunc(model, order)
				if q.waiting != len(model) {
					t.Fatalf("%d wait; want %d", q.waiting, len(model))
				}
				if len(model) == 0 {
					if q.first() != nil {
						t.Fatalf("first is %d; want nobody", q.first().ID)
					}
					return
				}
				if q.first() != model[0].entry {
					t.Fatalf("first is %d; want %d", q.first().ID, model[0].entry.ID)
				}
				for place, w := range model {
					if got := q.place(w.entry); got != place {
						t.Fatalf("%d have their turn before %d; want %d", got, w.entry.ID, place)
					}
					if least := w.entry.class.request.Memory(); q.least[0] > least {
						t.Fatalf("nobody is said to ask for less than %d, and %d does for %d", q.least[0], w.entry.ID, least)
					}
				}
			},
		})
	})
}

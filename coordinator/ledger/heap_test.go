package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// item is an item of a heap: it is ordered by its value and knows its index.
type item struct{ value, index int }

func TestTheHeapKeepsItsOrderAndTellsItsItemsWhereTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*item]{
			before: func(a, b *item) bool { return a.value < b.value },
			moved:  func(i *item, index int) { i.index = index },
		}
		var model []*item
		pick := func(t *rapid.T) int { return rapid.IntRange(0, len(model)-1).Draw(t, "item") }
		value := rapid.IntRange(0, 9)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				i := &item{value: value.Draw(t, "value")}
				model = append(model, i)
				h.push(i)
			},
			"remove": func(t *rapid.T) {
				if len(model) > 0 {
					at := pick(t)
					h.remove(model[at].index)
					model = slices.Delete(model, at, at+1)
				}
			},
			"change one": func(t *rapid.T) {
				if len(model) > 0 {
					i := model[pick(t)]
					i.value = value.Draw(t, "value")
					h.fix(i.index)
				}
			},
			"change many": func(t *rapid.T) {
				for _, i := range model {
					i.value = value.Draw(t, "value")
				}
				h.rebuild()
			},
			"": func(t *rapid.T) {
				if len(h.items) != len(model) {
					t.Fatalf("%d items; want %d", len(h.items), len(model))
				}
				for at, i := range h.items {
					if parent := h.items[max(0, (at-1)/2)]; i.value < parent.value {
						t.Fatalf("%d is at %d, below %d", i.value, at, parent.value)
					}
				}
				for _, i := range model {
					if i.index >= len(h.items) || h.items[i.index] != i {
						t.Fatalf("item %d is not at %d", i.value, i.index)
					}
				}
			},
		})
	})
}

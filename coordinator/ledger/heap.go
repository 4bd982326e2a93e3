package ledger

import "slices"

// heap is a binary heap that reports the index of each item, so that any item can be moved or
// removed.
type heap[T any] struct {
	items  []T
	before func(a, b T) bool
	moved  func(item T, index int)
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.moved(item, len(h.items)-1)
	h.up(len(h.items) - 1)
}

// remove takes out the item at an index.
func (h *heap[T]) remove(i int) {
	last := len(h.items) - 1
	if i != last {
		h.swap(i, last)
	}
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if i != last {
		h.fix(i)
	}
}

// fix restores the order after the item at an index changed.
func (h *heap[T]) fix(i int) {
	h.down(i)
	h.up(i)
}

// rebuild restores the order after any items changed.
func (h *heap[T]) rebuild() {
	for i := range slices.Backward(h.items) {
		h.down(i)
	}
}

func (h *heap[T]) up(i int) {
	for {
		parent := (i - 1) / 2 // the first is its own
		if !h.before(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if child+1 < len(h.items) && h.before(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.before(h.items[child], h.items[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(h.items[i], i)
	h.moved(h.items[j], j)
}

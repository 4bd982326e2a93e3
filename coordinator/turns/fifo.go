package turns

// fifo is a first-in-first-out list. The zero value is empty.
type fifo[T any] struct {
	list  []T
	first int // index of the first remaining element
}

// keptCap is the capacity that an empty list keeps for the next elements.
const keptCap = 16

func (f *fifo[T]) len() int { return len(f.list) - f.first }

func (f *fifo[T]) front() T { return f.list[f.first] }

func (f *fifo[T]) push(element T) {
	if len(f.list) == cap(f.list) && f.first*2 >= len(f.list) {
		n := copy(f.list, f.list[f.first:])
		clear(f.list[n:])
		f.list, f.first = f.list[:n], 0
	}
	f.list = append(f.list, element)
}

func (f *fifo[T]) pop() T {
	var none T
	element := f.list[f.first]
	f.list[f.first] = none
	if f.first++; f.first == len(f.list) {
		if f.list, f.first = f.list[:0], 0; cap(f.list) > keptCap {
			f.list = nil
		}
	}
	return element
}

package turns

import (
	"testing"

	"pgregory.net/rapid"
)

// A list behaves like a slice, and keeps no reference to elements that were taken from it.
func TestALineIsInOrderAndKeepsNothingThatHasLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[*int]
		var want []*int
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(want) == 0 || rapid.IntRange(0, 8).Draw(t, "step") < rapid.IntRange(3, 6).Draw(t, "pushes") {
				element := new(int)
				f.push(element)
				want = append(want, element)
			} else {
				if got := f.front(); got != want[0] {
					t.Fatal("another is in front than came first")
				}
				if got := f.pop(); got != want[0] {
					t.Fatal("another leaves than came first")
				}
				want = want[1:]
			}
			if f.len() != len(want) {
				t.Fatalf("%d are in line; want %d", f.len(), len(want))
			}
			for i, element := range f.list[:cap(f.list)] {
				if in := i >= f.first && i < len(f.list); in != (element != nil) {
					t.Fatalf("place %d of %d, of which %d to %d are in line, has something: %t", i, cap(f.list), f.first, len(f.list), element != nil)
				}
			}
		}
	})
}

// The capacity of a short list is at most twice its largest length, however many elements pass
// through it.
func TestALineHasRoomForTwiceAsMany(t *testing.T) {
	for _, waiting := range []int{2, 8, 16} {
		var f fifo[*int]
		for range waiting {
			f.push(new(int))
		}
		for range 100 * waiting {
			f.pop()
			f.push(new(int))
		}
		if cap(f.list) > 2*waiting {
			t.Errorf("room for %d while %d are in line", cap(f.list), waiting)
		}
	}
}

// An empty list keeps a small capacity.
func TestAnEmptyLineKeepsALittleRoom(t *testing.T) {
	for elements, want := range map[int]int{1: 1, 16: 16, 17: 0} {
		var f fifo[*int]
		for range elements {
			f.push(new(int))
		}
		for range elements {
			f.pop()
		}
		if cap(f.list) != want {
			t.Errorf("after %d elements it keeps room for %d; want %d", elements, cap(f.list), want)
		}
	}
}

package turns

import (
	"testing"

	"pgregory.net/rapid"
)

// A list is what a slice would be, and keeps nothing alive that was taken from it.
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

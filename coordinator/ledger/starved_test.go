package ledger

import "testing"

// An account knows whether it has granted something to a request that came later and is no more
// urgent, however many it has granted.
func TestAnAccountKnowsWhomItHasPassedOver(t *testing.T) {
	of := func(priority int32, id ID) *entry {
		return &entry{Allocation: Allocation{Priority: priority, ID: id}, waitState: &waitState{}}
	}
	var g grants
	passed := func(e *entry, want bool) {
		t.Helper()
		if got := g.passed(e); got != want {
			t.Errorf("request %d of priority %d was passed: %t; want %t, of %v", e.ID, e.Priority, got, want, g)
		}
	}
	passed(of(0, 1), false)
	g.add(of(0, 5))
	passed(of(0, 4), true)
	passed(of(0, 5), false)
	passed(of(-1, 4), false)
	g.add(of(3, 9)) // more urgent than some
	passed(of(0, 6), false)
	passed(of(3, 8), true)
	passed(of(4, 8), true)
	passed(of(4, 9), false)
	g.add(of(0, 7)) // an older one of another priority
	passed(of(0, 6), true)
	passed(of(3, 8), true)
	for id := range ID(1000) {
		g.add(of(0, 10+id))
	}
	if len(g) != 1 {
		t.Errorf("it remembers %d grants of one priority; want the youngest", len(g))
	}
	for id := range ID(1000) {
		g.add(of(int32(id), 2000+id))
	}
	if len(g) > mostPriorities {
		t.Errorf("it remembers %d grants; want at most %d", len(g), mostPriorities)
	}
	passed(of(0, 1999), true)
}

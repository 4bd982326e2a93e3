package turns

import (
	"strings"
	"testing"
	"time"
)

// order serves commands of one cost until none waits, and returns the first letters of their
// owners.
func order(q *Queue[string], cost time.Duration) string {
	var text strings.Builder
	for command, ok := q.Next(); ok; command, ok = q.Next() {
		text.WriteString(command[:1])
		q.Charge(Cost{Time: cost})
	}
	return text.String()
}

// A turn ends exactly when its credit is used up.
func TestATurnLastsUntilItIsUsedUp(t *testing.T) {
	for cost, want := range map[time.Duration]string{
		quantum / 2: "aabbaabbab", quantum: "ababababab", quantum - 1: "aabbababab", quantum/2 + 1: "aabbaabbab",
	} {
		q := New[string](ample())
		for range 5 {
			q.Force(owner("a"), "a")
		}
		for range 5 {
			q.Force(owner("b"), "b")
		}
		if got := order(q, cost); got != want {
			t.Errorf("commands of %s: %s; want %s", cost, got, want)
		}
	}
}

// Classes take turns in the order of their declaration, and a turn of a class ends when its credit
// is used up.
func TestClassesHaveTheirTurnsInOrder(t *testing.T) {
	q := New[string](ample())
	for range 6 {
		q.Force(Owner{Operators, "o"}, "operator")
		q.Force(Owner{Callers, "c"}, "caller")
		q.Force(Owner{Hosts, "h"}, "host")
	}
	// an operator's command takes twice the share of its class
	if got, want := order(q, quantum/2), "hhccohhcchhccoooooo"; got[:len(want)-5] != want[:len(want)-5] {
		t.Errorf("%s; want it to begin with %s", got, want[:len(want)-5])
	}
}

// A caller that has used exactly its turn, or has paid exactly its debt, owes nothing and is not in
// line.
func TestWhoOwesNothingIsNotInLine(t *testing.T) {
	q := New[string](ample())
	q.Force(owner("exact"), "exact")
	q.Force(Owner{Hosts, "h"}, "host") // so that a command waits
	one(t, q, 0)
	one(t, q, quantum)
	if n := q.groups[Callers].line.len(); n != 0 {
		t.Errorf("%d are in line; want none", n)
	}

	q = New[string](ample())
	for _, name := range []string{"slow", "quick", "quick"} {
		q.Force(owner(name), name)
	}
	one(t, q, 2*quantum) // it owes one turn
	if got := one(t, q, quantum); got != "quick" {
		t.Fatalf("%s is served; want quick", got)
	}
	if n := q.groups[Callers].line.len(); n != 1 {
		t.Errorf("%d are in line; want only the other one", n)
	}
}

// Costs without a caller count by their bytes, too. A negative cost counts as zero.
func TestWhatIsNobodysCountsByItsBytes(t *testing.T) {
	limits := ample()
	limits.Bytes = 1000
	q := New[string](limits)
	for _, spend := range []struct {
		bytes int64
		full  bool
	}{{999, false}, {0, false}, {-999, false}, {1, true}, {-1, true}} {
		if q.Spend(Cost{Bytes: spend.bytes}); q.Full() != spend.full {
			t.Errorf("after %d bytes more the batch is full: %t; want %t", spend.bytes, q.Full(), spend.full)
		}
	}
}

// A new batch keeps no reference to a caller that had half of the one before.
func TestANewBatchForgetsWhoHadHalfOfTheLast(t *testing.T) {
	limits := ample()
	limits.Commands = 2
	q := New[string](limits)
	q.Force(owner("a"), "a")
	one(t, q, 0)
	if len(q.above) != 1 {
		t.Fatalf("%d have half of a batch of two; want 1", len(q.above))
	}
	q.NextBatch()
	for _, c := range q.above[:cap(q.above)] {
		if c != nil {
			t.Errorf("the list keeps %+v", c.Owner)
		}
	}
}

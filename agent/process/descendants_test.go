package process

import (
	"errors"
	"slices"
	"testing"
)

func TestDescendantsAreTheProcessAndAllBelowIt(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, `sh -c 'sh -c "echo \$\$; exec sleep 1000" & wait' & wait`)
	inner := c.saysPID(t, o)
	other := start(t, o, sleeper)
	bystander := other.saysPID(t, o)
	found, err := Descendants("/proc", c.ref)
	if err != nil || len(found) != 3 || found[0] != c.ref || !slices.Contains(found, inner) || slices.Contains(found, bystander) {
		t.Errorf("%v, %v: want %v first, one between, and %v", found, err, c.ref, inner)
	}
	if _, err := Descendants("/proc", Ref{PID: c.ref.PID, StartTime: c.ref.StartTime + 1}); !errors.Is(err, ErrEnded) {
		t.Errorf("of another process that had the pid: %v", err)
	}
}

// A kernel that does not tell of children has its whole table read.
func TestDescendantsOfAKernelThatTellsOfNoChildren(t *testing.T) {
	proc := fixture(t, map[int]fake{1: {0, 1, "/"}, 10: {1, 5, "/"}, 11: {10, 6, "/"}, 12: {1, 7, "/"}})
	for _, pid := range []string{"10", "11", "12"} {
		thread(t, proc, pid)
	}
	found, err := Descendants(proc, Ref{10, 5})
	if want := []Ref{{10, 5}, {11, 6}}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%v, %v: want %v", found, err, want)
	}
}

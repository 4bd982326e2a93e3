package election

import (
	"errors"
	"strings"
	"testing"
)

func TestCoordinatorsOfOneClusterShareAStore(t *testing.T) {
	a, b := stand(t, shared.Address, "a"), stand(t, shared.Address, "b")
	for _, c := range []*coordinator{a, b, a} {
		if err := c.ClaimStore(t.Context(), "store-1", false); err != nil {
			t.Fatal(err)
		}
	}
	var other *StoreError
	err := b.ClaimStore(t.Context(), "store-2", false)
	if !errors.As(err, &other) || other.Theirs != "store-1" || other.Ours != "store-2" {
		t.Fatalf("error %v: want a *StoreError", err)
	}
	if !strings.Contains(err.Error(), "--adopt") {
		t.Errorf("error %q: want it to say what to do", err)
	}
	if err := b.ClaimStore(t.Context(), "store-2", true); err != nil {
		t.Fatal(err)
	}
	if err := a.ClaimStore(t.Context(), "store-1", false); !errors.As(err, &other) {
		t.Errorf("error %v: want a *StoreError", err)
	}
	if err := a.ClaimStore(t.Context(), "store-2", false); err != nil {
		t.Error(err)
	}
}

func TestStoreIsNotClaimedWithoutConsul(t *testing.T) {
	way := inFrontOf(t, shared)
	c := stand(t, way.URL, "a")
	for name, answer := range nonsense() {
		way.turn(answer)
		if err := c.ClaimStore(t.Context(), "store-1", true); err == nil {
			t.Errorf("%s: it was claimed", name)
		}
	}
}

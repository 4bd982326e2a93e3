package launch

import (
	"slices"
	"testing"
)

func TestTheLastArgumentIsTheID(t *testing.T) {
	for mode, want := range map[string][]string{"": {"/k", "a1"}, "mode": {"/k", "mode", "a1"}} {
		if got := (Spawn{ID: "a1", Keeper: "/k", Mode: mode}).command(); !slices.Equal(got, want) {
			t.Errorf("%q: %q", mode, got)
		}
	}
}

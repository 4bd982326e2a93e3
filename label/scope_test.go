package label

import (
	"slices"
	"testing"
)

func TestAScopeLeavesTheKeysThatItIsMadeOfAlone(t *testing.T) {
	keys := []string{"user", "creator", "user"}
	scope := NewScope(keys...)
	if want := []string{"creator", "user"}; !slices.Equal(scope.Keys(), want) {
		t.Errorf("the scope has the keys %v; want %v", scope.Keys(), want)
	}
	if want := []string{"user", "creator", "user"}; !slices.Equal(keys, want) {
		t.Errorf("what it was made of is now %v; want %v", keys, want)
	}
}

// Accounts differ exactly in the values of the scope's keys, in any order of the labels.
func TestTheKeyOfAScopeHoldsEachValueOfItsKeys(t *testing.T) {
	scope := NewScope("a", "c")
	of := func(pairs ...string) string { return string(scope.AppendKey(nil, Of(pairs...))) }
	base := of("a", "1", "b", "2", "c", "3")
	for _, same := range []string{of("a", "1", "b", "9", "c", "3", "d", "4"), of("a", "1", "c", "3")} {
		if same != base {
			t.Errorf("%q for the same values of the keys; want %q", same, base)
		}
	}
	others := []string{base, of("a", "9", "b", "2", "c", "3"), of("a", "1", "b", "2", "c", "9"), of("b", "2", "c", "3"), of("a", "1"), of("a", "3", "c", "1")}
	for i, one := range others {
		if slices.Contains(others[i+1:], one) {
			t.Errorf("%q for different values", one)
		}
	}
}

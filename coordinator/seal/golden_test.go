package seal_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/label"
)

// fixed is a sealer whose seals are always the same.
func fixed() seal.Sealer { return sealer(seal.Keys(strings.Repeat("k", len(seal.NewKeys())))) }

// These are seals of 26f2519d, the version before Allocation.Subordinate. An upgrade must not break
// the seals that agents keep.
func TestSealsOfTheVersionBeforeStayValid(t *testing.T) {
	empty := granted()
	empty.ApplicationIDs, empty.Labels = nil, label.Of("user", "alice")
	for want, a := range map[string]ledger.Allocation{
		"019fc0f7c100079bb334221d1646a08a8db4c89ef22d1009c7": granted(),
		"019fc0f7c100079bb3772d9f3fb21d8db083315e5148180e1d": empty,
	} {
		if got := hex.EncodeToString(fixed().Seal(&a)); got != want {
			t.Errorf("the seal is %s, want %s", got, want)
		}
	}
}

// The user that a grant's caller acts as has the rights to it, so an agent must not change it.
func TestASealCoversTheActingUser(t *testing.T) {
	s := fixed()
	plain, acting := granted(), granted()
	plain.Caller, acting.Caller = "100007@h1", "100007@h1"
	acting.Subordinate = true
	sealed := s.Seal(&acting)
	if !s.Vouches(sealed, "h1", &acting) {
		t.Error("a grant with an acting user is not known by its own seal")
	}
	if s.Vouches(s.Seal(&plain), "h1", &acting) {
		t.Error("a seal vouches for an acting user that was added")
	}
	if s.Vouches(sealed, "h1", &plain) {
		t.Error("a seal vouches for a grant without its acting user: the owner would have the rights")
	}
	moved := plain
	moved.ApplicationIDs = append(slices.Clip(acting.ApplicationIDs), acting.ActingUser())
	if s.Vouches(sealed, "h1", &moved) {
		t.Error("a seal takes an acting user for an application")
	}
}

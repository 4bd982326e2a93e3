package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/identity"
)

func TestHeaderRoundTripsAndIsPrintableASCII(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := identity.Actor{
			Name:     rapid.StringN(1, 40, 160).Draw(t, "name"),
			Users:    rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "users"),
			Anyone:   rapid.Bool().Draw(t, "anyone"),
			Priority: rapid.Bool().Draw(t, "priority"),
			Admin:    rapid.Bool().Draw(t, "admin"),
		}
		value := want.Encode()
		for _, b := range []byte(value) {
			if b < 0x20 || b > 0x7e {
				t.Fatalf("byte %#x in header %q", b, value)
			}
		}
		got, err := identity.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDecodeRefusesWhatIsNoActor(t *testing.T) {
	for _, value := range []string{"", "alice", "{}", `{"name":""}`, `{"name":5}`} {
		if a, err := identity.Decode(value); err == nil {
			t.Errorf("Decode(%q) = %+v, want an error", value, a)
		}
	}
}

func TestMayActAs(t *testing.T) {
	alice := identity.Actor{Name: "alice@h", Users: []string{"alice"}}
	if !alice.MayActAs("alice") || alice.MayActAs("bob") || alice.MayActAs("") {
		t.Error("alice may act as alice and nobody else")
	}
	if !identity.Local().MayActAs("bob") {
		t.Error("local may act as anyone")
	}
}

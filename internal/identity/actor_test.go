package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/identity"
)

func TestHeaderRoundTripsAndIsPrintableASCII(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := identity.Actor{
			Name:     rapid.StringN(1, 40, 160).Draw(t, "name"),
			Users:    rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "users"),
			Anyone:   rapid.Bool().Draw(t, "anyone"),
			Priority: rapid.Bool().Draw(t, "priority"),
			Admin:    rapid.Bool().Draw(t, "admin"),
			Role:     rapid.SampledFrom(append(identity.Roles(), "")).Draw(t, "role"),
			Host:     rapid.String().Draw(t, "host"),
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
	for _, value := range []string{"", "alice", "{}", `{"name":""}`, `{"name":5}`, `{"name":"a","role":"root"}`} {
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

func TestOnlyUser(t *testing.T) {
	for _, test := range []struct {
		actor identity.Actor
		want  string
	}{
		{identity.Actor{Users: []string{"alice"}}, "alice"},
		{identity.Actor{Users: []string{"alice", "alice"}}, "alice"},
		{identity.Actor{Users: []string{"alice", "bob"}}, ""},
		{identity.Actor{Users: []string{"alice"}, Anyone: true}, ""},
		{identity.Actor{}, ""},
	} {
		if got := test.actor.OnlyUser(); got != test.want {
			t.Errorf("of %+v the only user is %q; want %q", test.actor, got, test.want)
		}
	}
}

func TestActorsOfAnOlderVersionHaveARole(t *testing.T) {
	for header, want := range map[string]identity.Role{
		`{"name":"alice@h","users":["alice"]}`:                 identity.Submitter,
		`{"name":"root@h","anyone":true,"admin":true}`:         identity.Admin,
		`{"name":"bob","admin":true,"role":"reader"}`:          identity.Reader,
		`{"name":"x","some field of a later version":[1,2,3]}`: identity.Submitter,
	} {
		a, err := identity.Decode(header)
		if err != nil || a.Effective() != want {
			t.Errorf("%s: %q, %v; want %q", header, a.Effective(), err, want)
		}
	}
}

func TestParseRoleSaysWhichThereAre(t *testing.T) {
	for _, role := range identity.Roles() {
		if got, err := identity.ParseRole(string(role)); err != nil || got != role {
			t.Errorf("ParseRole(%q) = %q, %v", role, got, err)
		}
	}
	_, err := identity.ParseRole("root")
	if want := `role: "root": want reader, submitter, agent, operator, admin or coordinator`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

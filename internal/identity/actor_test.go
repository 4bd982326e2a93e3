package identity_test

import (
	"strings"
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

// The owner of a range of subordinate user ids replaces the user in the name. The host in it stays,
// because only an agent sets the rest.
func TestTheChargedNameStaysOnItsHost(t *testing.T) {
	for name, test := range map[string]struct {
		actor identity.Actor
		want  string
	}{
		"nobody else":              {identity.Actor{Name: "alice@h1", Users: []string{"alice"}}, "alice@h1"},
		"of a host":                {identity.Actor{Name: "100007@h1", Users: []string{"100007"}, Owner: "alice"}, "alice@h1"},
		"of a host, no sure name":  {identity.Actor{Name: "uid:100007@h1", Users: []string{"uid:100007"}, Owner: "alice"}, "alice@h1"},
		"of loopback":              {identity.Actor{Name: "local:100007", Users: []string{"100007"}, Owner: "alice"}, "local:alice"},
		"of loopback, not sure":    {identity.Actor{Name: "local:uid:100007", Users: []string{"uid:100007"}, Owner: "alice"}, "local:alice"},
		"a host of digits":         {identity.Actor{Name: "100007@100007", Users: []string{"100007"}, Owner: "alice"}, "alice@100007"},
		"several users":            {identity.Actor{Name: "x@h1", Users: []string{"x", "y"}, Owner: "alice"}, "x@h1"},
		"the user is in the host":  {identity.Actor{Name: "x@h1", Users: []string{"h1"}, Owner: "h2"}, "x@h1"},
		"the user is the host":     {identity.Actor{Name: "x@h1", Users: []string{"@h1"}, Owner: "@h2"}, "x@h1"},
		"the user is all":          {identity.Actor{Name: "local:x@h1", Users: []string{"x@h1"}, Owner: "bob"}, "local:x@h1"},
		"the owner names a host":   {identity.Actor{Name: "x@h1", Users: []string{"x"}, Owner: "bob@h2"}, "bob@h2@h1"},
		"a part of another's name": {identity.Actor{Name: "x100007@h1", Users: []string{"100007"}, Owner: "alice"}, "x100007@h1"},
	} {
		if got := test.actor.ChargedName(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestAnOwnerIsOfOneUserOnly(t *testing.T) {
	for header, ok := range map[string]bool{
		`{"name":"1@h1","users":["1"],"owner":"alice"}`:                                      true,
		`{"name":"1@h1","users":["1","2"],"owner":"alice"}`:                                  false,
		`{"name":"1@h1","owner":"alice"}`:                                                    false,
		`{"name":"1@h1","users":["1"],"anyone":true,"owner":"alice"}`:                        false,
		`{"name":"1@h1","users":["1"],"owner":"` + strings.Repeat("a", 257) + `"}`:           false,
		identity.Actor{Name: "1@h1", Users: []string{"1"}, Owner: "ålice"}.Encode():          true,
		`{"name":"1@h1","users":["1"],"owner":"` + strings.Repeat("a", 256) + `","x":false}`: true,
	} {
		if _, err := identity.Decode(header); (err == nil) != ok {
			t.Errorf("%s: %v", header, err)
		}
	}
}

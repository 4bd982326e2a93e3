package discovery

import (
	"slices"
	"testing"
)

func TestUsersThatDoNotCountAreNamed(t *testing.T) {
	for text, want := range map[string]struct {
		uids []uint32
		note string
	}{
		"":                        {nil, ""},
		"root, 4711":              {[]uint32{0, 4711}, ` (it is "root, 4711" now)`},
		"no-such-user-here,4711,": {[]uint32{4711}, ` (it is "no-such-user-here,4711," now, of which does not count: "no-such-user-here": no such user)`},
		"4294967296;root,-1":      {nil, ` (it is "4294967296;root,-1" now, of which does not count: "4294967296;root": no such user, "-1": no such user)`},
	} {
		named := usersNamed(text)
		if !slices.Equal(named.uids, want.uids) || named.hint() != want.note {
			t.Errorf("%q: %v%s, want %v%s", text, named.uids, named.hint(), want.uids, want.note)
		}
	}
}

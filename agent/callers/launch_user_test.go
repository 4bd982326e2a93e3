package callers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/osuser"
)

// accounts is the API on a machine that has these lines of passwd(5), and no name service.
func accounts(t *testing.T, settings Settings, passwd string) *API {
	t.Helper()
	settings.HostID = "h1"
	if settings.MinUserID == 0 {
		settings.MinUserID = 1000
	}
	if settings.BannedUsers == nil {
		settings.BannedUsers = []string{"yarn"}
	}
	path := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(path, []byte(passwd), 0o600); err != nil {
		t.Fatal(err)
	}
	return New(Options{
		Users: osuser.Users{Passwd: path, Group: "/no/such", Getent: "/no/such", ID: "/no/such"}, Settings: func() Settings { return settings },
	})
}

const machinePasswd = `root:x:0:0::/root:/bin/sh
toor:x:0:0::/root:/bin/sh
daemon:x:1:1::/:/bin/sh
yarn:x:990:990::/:/bin/sh
yarnalias:x:990:990::/:/bin/sh
hadoop:x:995:995::/:/bin/sh
ecm:x:999:999::/:/bin/sh
alice:x:1000:1000::/srv/alice:/bin/sh
alias:x:1000:27::/srv/alice:/bin/sh
bob:x:1004:1004::/srv/bob:/bin/sh
1004:x:61004:61004::/srv/1004:/bin/sh
01004:x:61005:61005::/srv/01004:/bin/sh
`

// A name is a name: each row is a caller, a name, and the uid that an engine runs as, or what the
// refusal says.
func TestEnginesRunAsTheAccountThatIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to play several users")
	}
	for _, test := range []struct {
		caller  uint32
		trusted bool
		named   string
		uid     uint32
		refused string
	}{
		{999, true, "alice", 1000, ""},
		{999, true, "1004", 61004, ""}, // and not bob
		{999, true, "01004", 61005, ""},
		{999, true, "1000", 0, `user: "1000": want the name of an account of this machine; a number is a name, too, and never a uid`},
		{999, true, "4294968300", 0, "want the name of an account"}, // 2^32 + 1004
		{999, true, "0", 0, "want the name of an account"},
		{999, true, "0x3ec", 0, "want the name of an account"},
		{999, true, "Alice", 0, "want the name of an account"},
		{999, true, "root", 0, `user: "root": uid 999 may not start engines as root`},
		{999, true, "toor", 0, "may not start engines as root"},
		{999, true, "daemon", 0, `user: "daemon": uid 1 is an account of the system: want one with a uid of at least 1000 (engines.minUserId of the agent), or one in engines.systemUsers there`},
		{999, true, "hadoop", 995, ""},
		{999, true, "yarn", 0, "no engine runs as this account (engines.bannedUsers of the agent)"},
		{999, true, "yarnalias", 0, "no engine runs as this account"},
		{999, true, "", 999, ""},    // itself: an account of the system
		{999, true, "ecm", 999, ""}, // likewise
		{0, true, "", 0, ""},
		{0, true, "root", 0, ""},
		{0, true, "daemon", 0, "an account of the system"},
		{990, false, "", 0, "no engine runs as this account"},
		{995, false, "", 995, ""},
		{1000, false, "", 1000, ""},
		{1000, false, "alice", 1000, ""},
		{1000, false, "alias", 0, `user: "alias": uid 1000 may not start engines as another account: want the caller's own account, alice`}, // its groups are others
		{1000, false, "1000", 0, "may not start engines as another account"},
		{1000, false, "bob", 0, "may not start engines as another account"},
		{1000, false, "nobody-at-all", 0, "may not start engines as another account"},
		{1004, false, "1004", 0, "may not start engines as another account"},
		{61004, false, "1004", 61004, ""},
		{61004, false, "", 61004, ""},
	} {
		a := accounts(t, Settings{SystemUsers: []string{"hadoop"}}, machinePasswd)
		c := socket.NewCaller(identity.Actor{Name: "x@h1", Users: []string{"x"}, Anyone: test.trusted}, test.caller, "")
		got, err := a.launchUser(t.Context(), c, test.named)
		switch {
		case test.refused == "" && (err != nil || got.UID != test.uid):
			t.Errorf("uid %d as %q: %+v, %v", test.caller, test.named, got, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("uid %d as %q: %+v, %v: want %s", test.caller, test.named, got, err, test.refused)
		}
		if code := connect.CodeOf(err); err != nil && code != connect.CodePermissionDenied && code != connect.CodeInvalidArgument {
			t.Errorf("uid %d as %q: %v", test.caller, test.named, err)
		}
	}
}

func TestAccountsThatMayBeConfigured(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to play several users")
	}
	trusted := socket.NewCaller(identity.Actor{Name: "ecm@h1", Users: []string{"ecm"}, Anyone: true}, 999, "")
	for name, test := range map[string]struct {
		engines Settings
		may     map[string]bool
	}{
		"no least uid, nobody banned": {Settings{MinUserID: 1, BannedUsers: []string{}}, map[string]bool{"daemon": true, "yarn": true, "alice": true, "root": false}},
		"another least uid":           {Settings{MinUserID: 1001}, map[string]bool{"alice": false, "bob": true, "ecm": true}},
		"others banned":               {Settings{MinUserID: 1, BannedUsers: []string{"1004", "ecm"}}, map[string]bool{"1004": false, "bob": true, "yarn": true, "ecm": false}},
	} {
		a := accounts(t, test.engines, machinePasswd)
		for user, may := range test.may {
			if _, err := a.launchUser(t.Context(), trusted, user); (err == nil) != may {
				t.Errorf("%s: as %s: %v, want %v", name, user, err, may)
			}
		}
	}
}

package exec

import (
	"errors"
	"os/user"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/providers"
)

func TestSettings(t *testing.T) {
	s, err := parseSettings(map[string]string{
		"command": `["/usr/bin/env","-i","a b"]`, "user": "lic", "environment": "KUBECONFIG=/etc/k", "directory": "/var/lib/queues", "maxBytes": "1MiB", "interval": "1m",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/bin/env", "-i", "a b"}, s.command); diff != "" || s.user != "lic" || s.directory != "/var/lib/queues" || s.maxBytes != 1<<20 {
		t.Errorf("%+v", s)
	}
	s, err = parseSettings(map[string]string{"command": "/usr/bin/true"})
	if err != nil || len(s.command) != 1 || s.directory != "/" || s.maxBytes != 4<<20 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	for name, test := range map[string]struct {
		setting, value, want string
	}{
		"no command":           {"command", "", "a program and its arguments, such as [/usr/local/libexec/queues, --all]"},
		"an unknown one":       {"comand", "/usr/bin/true", "did you mean command?"},
		"an empty list":        {"command", "[]", "a list of texts"},
		"half a list":          {"command", `["/usr/bin/true"`, "a list of texts"},
		"numbers":              {"command", `["/usr/bin/true", 1]`, "a list of texts"},
		"a line of a shell":    {"command", "/usr/bin/queues --all", "each argument as an item of its own"},
		"a name":               {"command", "queues", "PATH is not searched"},
		"a path that climbs":   {"command", "/usr/bin/../bin/true", "the whole path of the program"},
		"a zero byte":          {"command", `["/usr/bin/true","\u0000"]`, "no zero bytes"},
		"root":                 {"user", "root", "never root"},
		"uid 0":                {"user", "0", "never root"},
		"a user and group":     {"user", "lic:lic", "an unprivileged user"},
		"a variable's name":    {"environment", `["1A=b"]`, "NAME or NAME=VALUE"},
		"no name":              {"environment", "=b", "NAME or NAME=VALUE"},
		"a variable twice":     {"environment", `["A=b","A"]`, "each variable once"},
		"a relative directory": {"directory", "var", "a whole path"},
		"too small":            {"maxBytes", "1KiB", "from 4KiB to 64MiB"},
		"too large":            {"maxBytes", "1GiB", "from 4KiB to 64MiB"},
		"no size":              {"maxBytes", "many", "from 4KiB to 64MiB"},
		"the pace":             {"interval", "1s", "from 2s to 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{"command": "/usr/bin/true", test.setting: test.value}
			if test.value == "" {
				delete(given, test.setting)
			}
			err := Kind().Check(given)
			wrong, is := errors.AsType[*providers.SettingError](err)
			if !is || wrong.Setting != test.setting || !strings.Contains(wrong.Want, test.want) {
				t.Errorf("%v, want %s: %s", err, test.setting, test.want)
			}
		})
	}
}

func TestTheKindIsForFiles(t *testing.T) {
	k := Kind()
	if _, is := k.(providers.FileOnly); !is || k.Name() != "exec" || len(k.Files()) > 0 {
		t.Errorf("%v, %s, %v", is, k.Name(), k.Files())
	}
}

// users looks up the users of a test machine.
func users(name string) (*user.User, error) {
	for _, u := range []user.User{{Username: "root2", Uid: "0", Gid: "0"}, {Username: "operator", Uid: "11", Gid: "0"}, {Username: "bursar", Uid: "900", Gid: "900"}, {Username: "nobody", Uid: "65534", Gid: "65534"}} {
		if name == u.Username || name == u.Uid {
			return &u, nil
		}
	}
	return nil, user.UnknownUserError(name)
}

func TestWhoRunsACommand(t *testing.T) {
	root, bursar := machine{uid: 0, mayChange: true, lookUp: users}, machine{uid: 900, lookUp: users}
	able := machine{uid: 900, mayChange: true, lookUp: users}
	for name, test := range map[string]struct {
		here machine
		user string
		uid  uint32 // 0: as the coordinator
		want string // part of the error text
	}{
		"root, as nobody":               {root, "nobody", 65534, ""},
		"root, by uid":                  {root, "65534", 65534, ""},
		"root, as nobody in particular": {root, "", 0, "the user that the command runs as, such as nobody: this coordinator runs as root"},
		"root, as root":                 {root, "root2", 0, "never root"},
		"root, of root's group":         {root, "operator", 0, "nor of root's group"},
		"root, as a stranger":           {root, "mallory", 0, "an unprivileged user of this machine"},
		"root in a cage":                {machine{uid: 0, lookUp: users}, "nobody", 0, "without CAP_SETUID"},
		"bursar, as itself":             {bursar, "", 0, ""},
		"bursar, by name":               {bursar, "bursar", 0, ""},
		"bursar, as another":            {bursar, "nobody", 0, "no user, or the one with uid 900"},
		"bursar, with capabilities":     {able, "nobody", 65534, ""},
		"bursar, as root":               {able, "root2", 0, "never root"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.here.account(test.user)
			wrong, is := errors.AsType[*providers.SettingError](err)
			switch {
			case test.want != "":
				if !is || wrong.Setting != "user" || !strings.Contains(wrong.Want, test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
			case err != nil:
				t.Error(err)
			case test.uid == 0 && got != nil || test.uid > 0 && (got == nil || got.Uid != test.uid || got.Gid != test.uid):
				t.Errorf("%+v, want %d", got, test.uid)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	look := func(name string) (string, bool) {
		value, is := map[string]string{"A": "1", "SECRET": "x", "LANG": "de_DE"}[name]
		return value, is
	}
	for _, test := range []struct {
		variables, want []string
	}{
		{nil, []string{"PATH=" + defaultPath, "LANG=" + defaultLang}},
		{[]string{"A", "B", "C=d"}, []string{"A=1", "C=d", "PATH=" + defaultPath, "LANG=" + defaultLang}},
		{[]string{"PATH=/opt/bin", "LANG"}, []string{"PATH=/opt/bin", "LANG=de_DE"}},
	} {
		if diff := cmp.Diff(test.want, (&settings{variables: test.variables}).environment(look)); diff != "" {
			t.Error(diff)
		}
	}
}

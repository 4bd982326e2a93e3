package orders

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/osuser"
)

// machine has accounts and groups in files, and others in a directory of users, which only its
// programs can ask. They count how often they are asked.
func machine(t *testing.T) (users osuser.Users, dir string) {
	t.Helper()
	dir = t.TempDir()
	users = osuser.Users{Passwd: filepath.Join(dir, "passwd"), Group: filepath.Join(dir, "group"), Getent: filepath.Join(dir, "getent"), ID: filepath.Join(dir, "id")}
	for path, content := range map[string]string{
		users.Passwd: "etl:x:1200:1200::/:/bin/sh\nlocal:x:1201:27::/:/bin/sh\nmember:x:1202:1202::/:/bin/sh\n",
		users.Group:  "sudo:x:27:member\netl:x:1200:\nmember:x:1202:\ndocker:x:999:\n",
		users.Getent: `#!/bin/sh
echo "$*" >> ` + dir + `/asked
case "$1 $2" in
'passwd primary') echo 'primary:*:5001:6001::/:/bin/sh' ;;
'passwd far') echo 'far:*:5002:5002::/:/bin/sh' ;;
'passwd spaced' | 'passwd nameless' | 'passwd twin' | 'passwd clean' | 'passwd hung') echo "$2:*:5003:5003::/:/bin/sh" ;;
'group ops') echo 'ops:*:6001:far' ;;
'group OPS') echo 'ops:*:6001:far' ;;
'group domain admins') echo 'domain admins:*:6002:' ;;
'group hangs') exit 3 ;;
*) exit 2 ;;
esac
`,
		users.ID: `#!/bin/sh
case "$*" in
'-G -- etl') echo 1200 ;;
'-Gn -- primary') echo ops ;;
'-G -- primary') echo 6001 ;;
'-G -- far') echo 5002 6001 ;;
'-Gn -- far') echo far ops ;;
'-G -- spaced') echo 5003 6002 ;;
'-Gn -- spaced') echo spaced domain admins staff ;;
'-G -- nameless') echo 5003 7777 ;;
'-Gn -- nameless') echo nameless 7777; exit 1 ;;
'-G -- twin') echo 5003 6666 ;; # another group of the directory, with the name of a local one
'-Gn -- twin') echo twin docker ;;
'-G -- clean') echo 5003 6100 ;;
'-Gn -- clean') echo clean staff ;;
'-G -- local') echo 27 ;;
'-G -- member') echo 1202 27 ;;
'-G -- hung') kill $$ ;;
*) exit 1 ;;
esac
`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return users, dir
}

func TestNoEngineRunsAsAMemberOfADeniedGroup(t *testing.T) {
	users, _ := machine(t)
	for name, c := range map[string]struct {
		account   string
		denied    []string
		byDefault bool
		words     string // "" if it is allowed
	}{
		"a local account":                          {"etl", []string{"sudo"}, false, ""},
		"an account of the directory":              {"clean", []string{"sudo", "ops"}, false, ""},
		"the primary group, local":                 {"local", []string{"sudo"}, false, `in the group "sudo"`},
		"another group, local":                     {"member", []string{"sudo"}, false, `in the group "sudo"`},
		"the primary group, of the directory":      {"primary", []string{"ops"}, false, `in the group "ops"`},
		"another group, of the directory":          {"far", []string{"ops"}, false, `in the group "ops"`},
		"a group in other letters":                 {"far", []string{"OPS"}, false, `in the group "OPS"`},
		"a name with a space":                      {"spaced", []string{"domain admins"}, false, `in the group "domain admins"`},
		"a group of the directory, one local":      {"twin", []string{"docker"}, false, `in the group "docker"`},
		"a group without a name":                   {"nameless", []string{"sudo"}, false, "whose name this host does not know"},
		"a group without a name, none denied":      {"nameless", nil, false, ""},
		"a denied group that is not there":         {"etl", []string{"no-such"}, false, `does not know the group "no-such"`},
		"a default that is not there":              {"etl", []string{"no-such", "sudo"}, true, ""},
		"a default that is there":                  {"member", []string{"no-such", "sudo"}, true, `in the group "sudo"`},
		"a denied group that nobody can look up":   {"etl", []string{"hangs"}, false, `look up group "hangs"`},
		"a default that nobody can look up":        {"etl", []string{"hangs"}, true, `look up group "hangs"`},
		"an account whose groups nobody can say":   {"hung", []string{"sudo"}, false, "look up the groups"},
		"a gid in the place of a name":             {"far", []string{"6001"}, false, `does not know the group "6001"`},
		"a gid that getent would take for a group": {"etl", []string{" 27"}, false, "does not know the group"},
		"an option of getent":                      {"etl", []string{"--help"}, false, "does not know the group"},
	} {
		taker := New(Options{Users: users})
		policy := Policy{Accounts: []string{c.account}, MinUID: 1000, DeniedGroups: c.denied, GroupsByDefault: c.byDefault}
		_, err := taker.account(t.Context(), &policy, c.account)
		if c.words == "" && err != nil || c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%s: %v; want %q", name, err, c.words)
		}
	}
}

// A local account's groups are those of the directory, too: without its answer no engine runs as
// it.
func TestALocalAccountIsNotJudgedByFilesAlone(t *testing.T) {
	users, dir := machine(t)
	if err := os.WriteFile(filepath.Join(dir, "id"), []byte("#!/bin/sh\nkill $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	users.Silence = &osuser.Silence{}
	_, err := New(Options{Users: users}).account(t.Context(), &Policy{Accounts: []string{"etl"}, MinUID: 1000, DeniedGroups: []string{"sudo"}}, "etl")
	if refused := (&RefusedError{}); err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "look up the groups") {
		t.Errorf("%v", err)
	}
}

// Denied groups are looked up once a minute, not at each launch.
func TestDeniedGroupsAreRemembered(t *testing.T) {
	users, dir := machine(t)
	taker := New(Options{Users: users})
	policy := Policy{Accounts: []string{"etl"}, MinUID: 1000, GroupsByDefault: true}
	for i := range 3 {
		policy.DeniedGroups = append(policy.DeniedGroups, "none"+strconv.Itoa(i))
	}
	for range 5 {
		if _, err := taker.account(t.Context(), &policy, "etl"); err != nil {
			t.Fatal(err)
		}
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if got := strings.Count(string(asked), "\n"); err != nil || got != 3 {
		t.Errorf("asked %d times, want 3: %s %v", got, asked, err)
	}
}

package osuser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/bursar/bursar/test/proc"
)

// machine has accounts in files, and others that its programs know of.
func machine(t *testing.T) Users {
	t.Helper()
	dir := t.TempDir()
	u := Users{Passwd: filepath.Join(dir, "passwd"), Group: filepath.Join(dir, "group"), Getent: filepath.Join(dir, "getent"), ID: filepath.Join(dir, "id")}
	for path, content := range map[string]string{
		u.Passwd: "root:x:0:0:root:/root:/bin/bash\n+nis::::::\nbroken:x:1\nminus:x:4294967295:1::/:/bin/sh\nalice:x:1000:100:A. L.:/users/alice:/bin/zsh\nbare:x:1001:1001:::\n1000:x:1002:1002::/:/bin/sh\n",
		u.Group:  "wheel:x:10:root,alice\nusers:x:100:\nspark:x:2000:bob,alice\nbroken\nalso:x:2001:alicex\nagain:x:10:alice\n",
		// It says what it was asked, and in which environment.
		u.Getent: `#!/bin/sh
echo "$*" >> ` + dir + `/asked
[ "$(env | grep -v '^\(PWD\|SHLVL\|_\|OLDPWD\)=' | sort | tr '\n' ' ')" = "LC_ALL=C PATH=/usr/local/bin:/usr/bin:/bin " ] || exit 1
case $2 in
ldap|LDAP|5000) echo 'ldap:*:5000:5000:L:/net/ldap:/bin/ksh' ;;
1004|+1004|' 1004'|'1004 '|01004|4294968300) echo 'carol:*:1004:1004::/:/bin/sh' ;;
6104) echo '6004:*:6104:6104::/:/bin/sh' ;;
slow) exit 3 ;;
other) echo 'another:*:5001:5001:L:/net/ldap:/bin/ksh' ;;
flood) yes ;;
*) exit 2 ;;
esac
`,
		u.ID: `#!/bin/sh
case "$*" in
'-G -- ldap') echo 5000 7 8 7 ;;
'-G -- odd') echo x ;;
'-G -- alice') echo 100 10 ;;
'-G -- 1000' | '-G -- 1002') echo 1002 ;;
'-G -- 6004') echo 6104 ;;
'-u -- 6004') echo 6104 ;; # a name
'-u -- 5000') echo 5000 ;; # no name: the number itself
'-u -- 6666') kill $$ ;;
*) exit 1 ;;
esac
`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

func TestUsersAreThoseOfFilesAndOfTheNameService(t *testing.T) {
	u := machine(t)
	alice := User{Name: "alice", UID: 1000, GID: 100, Groups: []uint32{100, 10}, Home: "/users/alice", Shell: "/bin/zsh"}
	ldap := User{Name: "ldap", UID: 5000, GID: 5000, Groups: []uint32{5000, 7, 8}, Home: "/net/ldap", Shell: "/bin/ksh"}
	number := User{Name: "1000", UID: 1002, GID: 1002, Groups: []uint32{1002}, Home: "/", Shell: "/bin/sh"}
	employee := User{Name: "6004", UID: 6104, GID: 6104, Groups: []uint32{6104}, Home: "/", Shell: "/bin/sh"}
	check := func(key string, want, got User, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", key, err, diff)
		}
	}
	for name, want := range map[string]User{"alice": alice, "1000": number, "ldap": ldap, "6004": employee} {
		got, err := u.Named(t.Context(), name)
		check(name, want, got, err)
	}
	for uid, want := range map[uint32]User{1000: alice, 1002: number, 5000: ldap, 6104: employee} {
		got, err := u.OfUID(t.Context(), uid)
		check(strconv.Itoa(int(uid)), want, got, err)
	}
	if name, err := u.NameOf(t.Context(), 5000); name != "ldap" || err != nil {
		t.Errorf("%s, %v", name, err)
	}
	for _, key := range []string{
		"", "nobody-at-all", "-h", "--help", "minus", "4294967295", "broken", "+nis", "a:b", "a\nb", "7777", "other", "99999999999",
		// No forms of a uid, which getent may take them for.
		"1004", "01004", "+1004", " 1004", "1004 ", "0x3ec", "4294968300", "5000", "05000", "1001", "0",
		"LDAP", "Alice", // another account's name in other letters
	} {
		if got, err := u.Named(t.Context(), key); !errors.Is(err, ErrNoUser) {
			t.Errorf("%q: %+v, %v", key, got, err)
		}
	}
	for _, key := range []string{"slow", "flood", "root", "6666"} {
		// of the last the groups cannot be found out
		if _, err := u.Named(t.Context(), key); err == nil || errors.Is(err, ErrNoUser) {
			t.Errorf("%q: %v: want an error that does not say that there is no such user", key, err)
		}
	}
}

func TestOptionsReachNoProgram(t *testing.T) {
	u := machine(t)
	for _, key := range []string{"-h", "--help", "a\nb", ""} {
		_, _ = u.Named(t.Context(), key)
	}
	if asked, err := os.ReadFile(filepath.Join(filepath.Dir(u.Getent), "asked")); err == nil {
		t.Errorf("asked for %q", asked)
	}
}

func TestMachineWithoutProgramsHasTheUsersOfItsFiles(t *testing.T) {
	u := machine(t)
	u.Getent, u.ID = "/no/such/getent", "/no/such/id"
	got, err := u.Named(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint32{100, 10, 2000}, got.Groups); diff != "" {
		t.Error(diff)
	}
	if _, err := u.Named(t.Context(), "ldap"); !errors.Is(err, ErrNoUser) {
		t.Errorf("%v", err)
	}
	bare, err := u.Named(t.Context(), "bare")
	if err != nil || bare.Home != "/" || bare.Shell != "/bin/sh" {
		t.Errorf("%+v, %v", bare, err)
	}
}

func TestNameServiceIsNotFlooded(t *testing.T) {
	u := machine(t)
	u.Pace = rate.NewLimiter(0, 1)
	if _, err := u.NameOf(t.Context(), 6000); !errors.Is(err, ErrNoUser) {
		t.Errorf("first: %v", err)
	}
	if _, err := u.NameOf(t.Context(), 6001); err == nil || errors.Is(err, ErrNoUser) {
		t.Errorf("second: %v", err)
	}
	if _, err := u.NameOf(t.Context(), 1000); err != nil {
		t.Errorf("of a file: %v", err)
	}
}

func TestNameServiceThatHangsIsNotWaitedFor(t *testing.T) {
	u := machine(t)
	if err := os.WriteFile(u.Getent, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := u.Named(ctx, "ldap"); err == nil || errors.Is(err, ErrNoUser) {
		t.Errorf("%v", err)
	}
}

// An account of a file starts engines while a directory of users hangs, for itself and for others
// who wait for it. It gets the groups of files.
func TestLocalAccountsDoNotWaitForADirectoryThatHangs(t *testing.T) {
	u := machine(t)
	hang := "#!/bin/sh\nexec sleep 1000\n"
	for _, program := range []string{u.ID, u.Getent} {
		if err := os.WriteFile(program, []byte(hang), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var noted []string
	u.Slots = make(chan struct{}, 1)
	u.Silence = &Silence{Noted: func(user string, _ error) { noted = append(noted, user) }}
	u.Slots <- struct{}{} // a lookup of another user hangs
	for _, find := range []func() (User, error){
		func() (User, error) { return u.Named(t.Context(), "alice") },
		func() (User, error) { return u.OfUID(t.Context(), 1000) },
	} {
		if got, err := find(); err != nil || got.Name != "alice" || fmt.Sprint(got.Groups) != "[100 10 2000]" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if fmt.Sprint(noted) != "[alice]" { // the second does not wait
		t.Errorf("noted: %v", noted)
	}
	<-u.Slots
	u.Silence = nil
	if got, err := u.Named(t.Context(), "alice"); err != nil || fmt.Sprint(got.Groups) != "[100 10 2000]" { // it hangs itself
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.Named(ctx, "alice"); err == nil {
		t.Error("the call has ended, and there is an answer")
	}
}

// This machine's own: root is everywhere.
func TestRootIsKnown(t *testing.T) {
	got, err := Users{}.OfUID(t.Context(), 0)
	if err != nil || got.Name != "root" || got.UID != 0 || len(got.Groups) == 0 || got.Groups[0] != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// If a directory of users does not answer, callers wait: with no more processes than there are
// slots.
func TestProgramsThatLookUpUsersAreBounded(t *testing.T) {
	dir := t.TempDir()
	getent := filepath.Join(dir, "getent")
	if err := os.WriteFile(getent, []byte("#!/bin/sh\necho x >>"+dir+"/runs\n"+`echo "alice:x:1000:1000::/:/bin/sh"`), 0o755); err != nil {
		t.Fatal(err)
	}
	u := Users{Passwd: filepath.Join(dir, "none"), Getent: getent, Slots: make(chan struct{}, 1)}
	if name, err := u.NameOf(t.Context(), 1000); err != nil || name != "alice" {
		t.Fatalf("%q, %v", name, err)
	}
	u.Slots <- struct{}{} // one that hangs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.NameOf(ctx, 1000); err == nil {
		t.Error("there was no slot")
	}
	if runs, err := os.ReadFile(filepath.Join(dir, "runs")); err != nil || len(runs) != 2 {
		t.Errorf("runs: %q, %v", runs, err)
	}
	if _, err := u.NameOfFile(1000); !errors.Is(err, ErrNoUser) {
		t.Errorf("%v", err)
	}
}

// A module of the name service may start others; none goes on when its lookup has ended.
func TestNothingOutlivesALookup(t *testing.T) {
	for name, end := range map[string]string{"it answers": "echo alice:x:1000:1000::/:/bin/sh", "it hangs": "exec sleep 3600"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, getent := filepath.Join(dir, "pid"), filepath.Join(dir, "getent")
			text := "#!/bin/sh\n(setsid sh -c 'echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 3600' </dev/null >/dev/null 2>&1 &) &\n" +
				"until [ -e " + file + " ]; do :; done\n" + end
			if err := os.WriteFile(getent, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			found, err := Users{Passwd: filepath.Join(dir, "none"), Getent: getent}.NameOf(t.Context(), 1000)
			if (err == nil && found == "alice") != (name == "it answers") {
				t.Errorf("%q, %v", found, err)
			}
			said, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if held := proc.HoldText(t, string(said)); proc.Alive(held.PID) {
				t.Errorf("process %d outlives the lookup", held.PID)
				proc.KillAtEnd(t, held.PID)
			}
		})
	}
}

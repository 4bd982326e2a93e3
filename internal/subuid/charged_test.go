package subuid_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/subuid"
)

// accounts are the names of a machine.
type accounts map[uint32]string

func (a accounts) names() subuid.Names {
	return subuid.Names{
		NameOf: func(uid uint32) (string, error) { return a[uid], nil },
		IsName: func(name string) (bool, error) {
			for _, has := range a {
				if has == name {
					return true, nil
				}
			}
			return false, nil
		},
	}
}

// charged is the user who is charged for a uid.
func (a accounts) charged(f *subuid.File, uid uint32) string {
	user, other, err := f.Charged(uid, a[uid] != "", a.names())
	if err != nil {
		return err.Error()
	}
	if other != (user != "") {
		return "both " + user + " and nobody else"
	}
	if other {
		return user
	}
	if a[uid] != "" {
		return a[uid]
	}
	return strconv.Itoa(int(uid))
}

// rangesOf is a file of ranges with this content.
func rangesOf(t *testing.T, content string) *subuid.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return subuid.New(path, time.Now)
}

func TestTheOwnerOfARangeIsChargedForItsIds(t *testing.T) {
	machine := accounts{1000: "alice", 1001: "bob", 100005: "daemon", 61004: "1004", 1004: "carol"}
	for name, test := range map[string]struct {
		file string
		want map[uint32]string
	}{
		"of a name":                    {"alice:100000:65536", map[uint32]string{100000: "alice", 165535: "alice", 165536: "165536", 99999: "99999"}},
		"an account within a range":    {"alice:100000:65536", map[uint32]string{100005: "daemon"}},
		"a range of real users":        {"alice:1000:65536", map[uint32]string{1000: "alice", 1001: "bob", 1002: "alice"}},
		"ranges that overlap":          {"alice:100000:10\nbob:100005:10", map[uint32]string{100006: "alice", 100012: "bob"}},
		"of a uid":                     {"1001:100000:10", map[uint32]string{100000: "bob"}},
		"of a uid without an account":  {"1777:100000:10", map[uint32]string{100000: "1777"}},
		"of a name without an account": {"zoe:100000:10", map[uint32]string{100000: "zoe"}},
		"of a number that is a name":   {"1004:100000:10", map[uint32]string{100000: "1004"}}, // and not carol
		"of no number":                 {"01001:100000:10", map[uint32]string{100000: "01001"}},
		"of an id in a range":          {"alice:100000:100\n100001:200000:100\n200001:300000:100", map[uint32]string{200001: "alice", 300005: "alice"}},
		"of each other":                {"200000:100000:100\n100000:200000:100", map[uint32]string{100000: "100000", 200000: "100000", 100007: "100000", 200007: "100000"}},
		"of itself":                    {"100000:100000:100", map[uint32]string{100000: "100000", 100001: "100000"}},
		"a long line between":          {"bob:1" + strings.Repeat("0", 100_000) + ":5\nalice:100000:65536\r\n", map[uint32]string{100000: "alice"}},
		"without an end":               {"alice:100000:65536\nbob:200000:6553", map[uint32]string{100000: "alice", 200000: "bob"}},
		"in a long chain":              {chain(100), map[uint32]string{110000: "110016", 110090: "110100"}},
		"of the last id":               {"alice:4294967290:65536", map[uint32]string{4294967295: "alice", 65534: "65534"}},
		"given to others":              {"root:100000:10\n0:100010:10\ncontainers:100020:10\ndockremap:100030:10", map[uint32]string{100000: "100000", 100010: "100010", 100020: "100020", 100030: "100030"}},
		"no line":                      {"alice:x:1\nalice:100000:-1\nalice:0:70000\n#bob:100000:5\n*:100000:5\n@h1:100000:5\nal ice:100000:5\nb\x00b:100000:5\n\xff:100000:5\n" + strings.Repeat("x", 256) + ":100000:5\nalice:+100000:5\nalice:0x186a0:5\n::\n:100000:5\nalice:100000\nalice:100000:99999999999", map[uint32]string{100000: "100000", 2000: "2000"}},
	} {
		f := rangesOf(t, test.file)
		for uid, want := range test.want {
			if got := machine.charged(f, uid); got != want {
				t.Errorf("%s: uid %d is charged to %q, want %q", name, uid, got, want)
			}
		}
	}
}

// chain gives each of some ids from 110000 on to the next one.
func chain(ids int) string {
	var b strings.Builder
	for id := 110000; id < 110000+ids; id++ {
		fmt.Fprintf(&b, "%d:%d:1\n", id+1, id)
	}
	return b.String()
}

// A file beyond the bound is not read, and leaves what was known before.
func TestTheFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	now := time.Unix(1000, 0)
	f := subuid.New(path, func() time.Time { return now })
	content := "alice:100000:65536\n" + strings.Repeat("#\n", 1<<20)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := f.Charged(100000, false, subuid.Names{}); got != "alice" {
		t.Errorf("of %d bytes: %q is charged, want alice", len(content), got)
	}
	if err := os.WriteFile(path, []byte("bob:100000:65536\n"+strings.Repeat("#\n", 1<<21)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := f.Charged(100000, false, subuid.Names{}); got != "alice" {
		t.Errorf("of a file that is too large: %q is charged, want alice, as before", got)
	}
}

func TestAChangedFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "subuid")
	write := func(content string) {
		t.Helper()
		next := filepath.Join(dir, "next")
		if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		// As when a tool writes it again within the clock's grain: another file of the same size.
		if err := os.Chtimes(next, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	f := subuid.New(path, time.Now)
	if _, other, _ := f.Charged(100000, false, subuid.Names{}); other {
		t.Error("without a file somebody else is charged")
	}
	for _, owner := range []string{"alice", "bobby", "carol"} {
		write(owner + ":100000:65536\n")
		if got, _, _ := f.Charged(100000, false, subuid.Names{}); got != owner {
			t.Errorf("%q is charged, want %q", got, owner)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, other, _ := f.Charged(100000, false, subuid.Names{}); other {
		t.Error("after the file was removed somebody else is charged")
	}
}

// If the machine cannot be asked, nobody is charged on a guess: the number of an owner may be a
// name or a uid.
func TestAnOwnerThatIsNotKnownIsNotCharged(t *testing.T) {
	f := rangesOf(t, "1004:100000:10\nalice:200000:10\n")
	away := errors.New("away")
	known := accounts{1004: "carol"}.names()
	for name, names := range map[string]subuid.Names{
		"whose name it is": {NameOf: known.NameOf, IsName: func(string) (bool, error) { return false, away }},
		"whose uid it is":  {NameOf: func(uint32) (string, error) { return "", away }, IsName: known.IsName},
	} {
		if user, other, err := f.Charged(100003, false, names); !errors.Is(err, away) || other || user != "" {
			t.Errorf("%s is not known: %q, %t, %v is charged", name, user, other, err)
		}
		if user, other, err := f.Charged(200003, false, names); user != "alice" || !other || err != nil {
			t.Errorf("%s is not known, and does not matter: %q, %t, %v", name, user, other, err)
		}
	}
}

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/internal/osuser"
)

func TestRecordIsWhatAKeeperHasAppended(t *testing.T) {
	records := Records(filepath.Join(t.TempDir(), "engines"))
	if _, err := records.End("a1"); !errors.Is(err, ErrNone) {
		t.Errorf("before: %v", err)
	}
	if _, err := records.Note("a1"); !errors.Is(err, ErrNone) {
		t.Errorf("before: %v", err)
	}
	note := Note{Caller: 5, User: "alice", UID: 1000, LogDirectory: "/x"}
	file, err := records.create("a1", note)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, err := records.Note("a1"); err != nil || got != note {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := records.End("a1"); !errors.Is(err, ErrNone) {
		t.Errorf("while it runs: %v", err)
	}
	want := keeper.Record{Exit: keeper.Exit{Signal: 9}, Time: time.Unix(7, 0).UTC(), Stderr: []string{"x"}}
	line, err := keeper.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	// Its user may have made it write much else before: the end counts.
	if _, err := file.WriteString(strings.Repeat("panic: x\n", 100_000) + string(line)); err != nil {
		t.Fatal(err)
	}
	got, err := records.End("a1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if ids, err := records.List(); err != nil || len(ids) != 1 || ids[0] != "a1" {
		t.Errorf("%v, %v", ids, err)
	}
	for _, path := range []string{string(records), filepath.Join(string(records), "a1"), file.Name()} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	// A new attempt begins from the start.
	other, err := records.create("a1", note)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := records.End("a1"); !errors.Is(err, ErrNone) {
		t.Errorf("of a new attempt: %v", err)
	}
	if err := records.Remove("a1"); err != nil {
		t.Fatal(err)
	}
	if ids, err := records.List(); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestIdsThatAreNoNamesLeadNowhere(t *testing.T) {
	dir := t.TempDir()
	records := Records(filepath.Join(dir, "engines"))
	outside := filepath.Join(dir, "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ".", "..", "../outside", "a/b", "/etc", "a\x00"} {
		if _, err := records.create(id, Note{}); err == nil {
			t.Errorf("create %q", id)
		}
		if err := records.Remove(id); err == nil {
			t.Errorf("remove %q", id)
		}
		if _, err := records.End(id); !errors.Is(err, ErrNone) {
			t.Errorf("end %q: %v", id, err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestFolderForLogsFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "a1")); err != nil {
		t.Fatal(err)
	}
	user := osuser.User{UID: 65534, GID: 65534}
	if path, err := makeLogs(dir, "a1", user); err == nil {
		t.Errorf("made %s", path)
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for range 2 { // a second attempt finds it made
		path, err := makeLogs(filepath.Join(dir, "deep", "er"), "a2", user)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

func TestTheListOfUnconfirmedKeepers(t *testing.T) {
	r := Records(filepath.Join(t.TempDir(), "engines"))
	if list, err := r.Unconfirmed(); err != nil || len(list) > 0 {
		t.Errorf("at first: %v, %v", list, err)
	}
	for _, want := range [][]Unconfirmed{
		{{ID: "a1", UID: 7, KeeperPID: 8, KeeperStartTime: 9, Cgroup: "/bursar/a1", BootID: "b"}, {ID: "a1", UID: 7, KeeperPID: 10}}, {},
	} {
		if err := r.PutUnconfirmed(want); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Unconfirmed(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v: want %v", got, err, want)
		}
	}
	if ids, err := r.List(); err != nil || len(ids) > 0 {
		t.Errorf("the list is taken for an engine: %v, %v", ids, err)
	}
	if err := os.WriteFile(filepath.Join(string(r), unconfirmedName), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Unconfirmed(); err == nil {
		t.Errorf("half a list: %v", list)
	}
}

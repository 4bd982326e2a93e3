package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func remembers(t *testing.T, path string, keep Keep, now time.Time) *Folders {
	t.Helper()
	f, err := OpenFolders(path, keep, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// known are the ids of a list that are remembered.
func known(f *Folders, ids ...string) string {
	var there []string
	for _, id := range ids {
		if entry, err := f.Find(id); err == nil && entry.ID == id {
			there = append(there, id)
		}
	}
	return strings.Join(there, " ")
}

func at(second int64) time.Time { return time.Unix(second, 0).UTC() }

func TestFoldersSurviveRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", FoldersFile)
	f := remembers(t, path, Keep{}, at(0))
	want := Entry{ID: "a1", Folder: "/logs/a1\nx", User: "alice", UID: 7, Started: at(1)}
	if err := errors.Join(f.Put(want), f.Put(Entry{ID: "a2", Folder: "/logs/a2", Started: at(2)}), f.End("a2", at(3)), f.End("a2", at(9)), f.End("none", at(3)),
		f.Put(Entry{ID: "a3", Folder: "/logs/a3"}), f.Forget("a3"), f.Forget("none"), f.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f = remembers(t, path, Keep{}, at(10))
		if got, err := f.Find("a1"); err != nil || got != want {
			t.Errorf("%+v, %v: want %+v", got, err, want)
		}
		if got, err := f.Find("a2"); err != nil || !got.Ended.Equal(at(3)) {
			t.Errorf("%+v, %v", got, err)
		}
		_, err := f.Find("a3")
		if none, is := errors.AsType[*NotHereError](err); !is || none.ID != "a3" {
			t.Error(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, id := range []string{"", "..", "a/b", "a\n"} {
		if err := f.Put(Entry{ID: id}); err == nil {
			t.Errorf("%q was put", id)
		}
	}
}

// A machine that fails while a line is written loses that line.
func TestDamagedLinesAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), FoldersFile)
	f := remembers(t, path, Keep{}, at(0))
	for i := range 3 {
		if err := f.Put(Entry{ID: fmt.Sprintf("a%d", i), Folder: "/x"}); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cut": string(content[:len(content)-10]), "zeros": string(content[:len(content)-20]) + strings.Repeat("\x00", 20),
		"nonsense": "{}\n[1]\n{\"id\":\"../x\"}\n" + string(content[:len(content)-10]),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f = remembers(t, path, Keep{}, at(0))
		if err := f.Put(Entry{ID: "a4", Folder: "/x"}); err != nil {
			t.Error(err)
		}
		if got := known(remembers(t, path, Keep{}, at(0)), "a0", "a1", "a2", "a4", "../x"); got != "a0 a1 a4" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolders(path, Keep{}, at(0)); err == nil {
		t.Error("a FIFO was read")
	}
}

func TestFoldersAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), FoldersFile)
	keep := Keep{Entries: 3, Age: time.Hour}
	f := remembers(t, path, keep, at(0))
	put := func(id string, second int64) {
		t.Helper()
		if err := f.Put(Entry{ID: id, Folder: "/x/" + id, Started: at(second)}); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{"a1", "a2", "a3", "a4", "a5", "a6"}
	put("a1", 1)
	put("a2", 2)
	put("a3", 3)
	if err := errors.Join(f.End("a3", at(4)), f.End("a2", at(5))); err != nil {
		t.Fatal(err)
	}
	put("a4", 6)
	if got := known(f, ids...); got != "a1 a2 a4" {
		t.Errorf("the one that ended first has to go: %s", got)
	}
	put("a4", 7) // again: it takes no more room
	put("a5", 8)
	put("a6", 9)
	if got := known(f, ids...); got != "a4 a5 a6" {
		t.Errorf("the oldest one has to go if all run: %s", got)
	}
	if err := errors.Join(f.End("a4", at(10)), f.Sweep(at(11), filepath.Join(path, "none"))); err == nil {
		t.Error("a folder of logs that is a file was read")
	}
	if err := f.Sweep(at(3700), t.TempDir()); err != nil || known(f, ids...) != "a5 a6" {
		t.Errorf("an hour after its end: %s, %v", known(f, ids...), err)
	}
	f.SetKeep(Keep{Entries: 1})
	if err := f.Sweep(at(3700), t.TempDir()); err != nil || known(f, ids...) != "a6" {
		t.Errorf("with less room: %s, %v", known(f, ids...), err)
	}
	for i := range 5000 {
		put("b"+itoa(int64(i%7)), int64(i))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 1<<20 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

// The folders below the agent's own are looked for by their names; others are left alone.
func TestFoldersThatAreGoneAreForgotten(t *testing.T) {
	logs := t.TempDir()
	if err := os.Mkdir(filepath.Join(logs, "a1"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), FoldersFile)
	f := remembers(t, path, Keep{}, at(0))
	for id, folder := range map[string]string{"a1": filepath.Join(logs, "a1"), "a2": filepath.Join(logs, "a2"), "a3": filepath.Join(logs, "a3"), "a4": "/users/alice/none"} {
		if err := f.Put(Entry{ID: id, Folder: folder, Started: at(1)}); err != nil {
			t.Fatal(err)
		}
		if id == "a3" {
			continue // runs
		}
		if err := f.End(id, at(2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sweep(at(3), logs); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Folders{f, remembers(t, path, Keep{}, at(3))} {
		if got := known(f, "a1", "a2", "a3", "a4"); got != "a1 a3 a4" {
			t.Error(got)
		}
	}
}

// A state directory that was removed is made again with all that is known.
func TestFoldersAreWrittenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", FoldersFile)
	f := remembers(t, path, Keep{}, at(0))
	if err := errors.Join(f.Put(Entry{ID: "a1", Folder: "/x"}), os.RemoveAll(filepath.Dir(path)), f.Put(Entry{ID: "a2", Folder: "/x"})); err != nil {
		t.Fatal(err)
	}
	if got := known(remembers(t, path, Keep{}, at(0)), "a1", "a2"); got != "a1 a2" {
		t.Error(got)
	}
}

// An error leaves what was stored, and the next change is stored again.
func TestAFolderThatCannotBeStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), FoldersFile)
	f := remembers(t, path, Keep{}, at(0))
	if err := f.Put(Entry{ID: "a1", Folder: "/x"}); err != nil {
		t.Fatal(err)
	}
	if err := f.file.Close(); err != nil { // as a disk that fails
		t.Fatal(err)
	}
	if err := f.Put(Entry{ID: "a2", Folder: "/x"}); err == nil || known(f, "a1", "a2") != "a1" {
		t.Errorf("%v, knows %s", err, known(f, "a1", "a2"))
	}
	if err := f.Put(Entry{ID: "a3", Folder: "/x"}); err != nil {
		t.Error(err)
	}
	if got := known(remembers(t, path, Keep{}, at(0)), "a1", "a2", "a3"); got != "a1 a3" {
		t.Error(got)
	}
}

func TestWhereOtherOutputIs(t *testing.T) {
	for _, test := range []struct {
		err  NotHereError
		want []string
	}{
		{NotHereError{ID: "a1"}, []string{"a1", "no output", "launched"}},
		{NotHereError{ID: "a1", Starter: ForegroundStarter}, []string{"a1", "bursar run", "foreground"}},
		{NotHereError{ID: "a1", Starter: CallerStarter, Where: "/var/log/linkis"}, []string{"a1", "confirmed", "/var/log/linkis"}},
	} {
		for _, want := range test.want {
			if !strings.Contains(test.err.Error(), want) {
				t.Errorf("%v: want %q in it", test.err.Error(), want)
			}
		}
	}
}

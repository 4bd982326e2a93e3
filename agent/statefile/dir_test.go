package statefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/agent/statefile"
)

func open(t *testing.T, path string) *statefile.Dir {
	t.Helper()
	dir, err := statefile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func TestSavedStateIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "var", "agent")
	dir := open(t, path)
	if _, err := dir.Load(); !errors.Is(err, statefile.ErrNone) {
		t.Errorf("before the first save: %v", err)
	}
	older := state()
	older.Epoch = 1
	for _, s := range []statefile.State{older, state()} {
		if err := dir.Save(s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := dir.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state(), got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]os.FileMode{path: 0o700, dir.File(): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", name, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*")); len(left) != 2 {
		t.Errorf("files: %v, want the state and the lock", left)
	}
}

// A package that is purged while engines run leaves the state, and a file that says so.
func TestAHostThatLeftItsClusterKeepsItsEnginesAlone(t *testing.T) {
	dir := open(t, t.TempDir())
	was := state()
	was.Cluster = "production"
	if err := dir.Save(was); err != nil {
		t.Fatal(err)
	}
	leaves := filepath.Join(filepath.Dir(dir.File()), "state.leaves-cluster")
	if err := os.WriteFile(leaves, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := was
	want.Cluster, want.StoreID, want.Epoch, want.Leadership = "", "", 0, 0
	got, err := dir.Load()
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	if err := dir.Begin(was); err != nil {
		t.Fatal(err)
	}
	if got, err = dir.Load(); err != nil || got.Cluster != was.Cluster || got.Epoch != was.Epoch {
		t.Errorf("in its next cluster it is of %q, epoch %d: %v", got.Cluster, got.Epoch, err)
	}
}

func TestCrashWhileWritingLeavesTheOldState(t *testing.T) {
	dir := open(t, t.TempDir())
	if err := dir.Save(state()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.File()+".new", []byte(`{"version":1,"che`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Load(); err != nil {
		t.Error(err)
	}
	if err := dir.Save(state()); err != nil {
		t.Errorf("the next save: %v", err)
	}
}

func TestFailedSaveSaysSoAndLeavesTheOldState(t *testing.T) {
	dir := open(t, t.TempDir())
	if err := dir.Save(state()); err != nil {
		t.Fatal(err)
	}
	// A directory where the new file should go: nothing can be written there, not even by root.
	if err := os.Mkdir(dir.File()+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dir.Save(state()); err == nil {
		t.Error("saved where nothing can be written")
	}
	if _, err := dir.Load(); err != nil {
		t.Errorf("the old state: %v", err)
	}
}

func TestDirectoryBelongsToOneAgent(t *testing.T) {
	path := t.TempDir()
	dir := open(t, path)
	var inUse *statefile.InUseError
	if _, err := statefile.Open(path); !errors.As(err, &inUse) || inUse.Dir != path {
		t.Errorf("second agent: %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestDamagedFileCanBeSetAside(t *testing.T) {
	dir := open(t, t.TempDir())
	if err := os.WriteFile(dir.File(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var damaged *statefile.DamagedError
	if _, err := dir.Load(); !errors.As(err, &damaged) {
		t.Fatalf("%v, want a *DamagedError", err)
	}
	aside, err := dir.SetAside(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(aside); err != nil || string(content) != "{" {
		t.Errorf("%s: %q, %v", aside, content, err)
	}
	if _, err := dir.Load(); !errors.Is(err, statefile.ErrNone) {
		t.Errorf("after it was set aside: %v", err)
	}
}

func TestPathThatIsNoDirectoryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statefile.Open(path); err == nil {
		t.Error("opened a file as a directory")
	}
}

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

// removals are ways in which a store's files disappear during use. Each undoes its change, as far
// as possible.
var removals = map[string]func(t *testing.T, path string) (undo func()){
	"the folder is removed": func(t *testing.T, path string) func() {
		must(t, os.RemoveAll(filepath.Dir(path)))
		return nil
	},
	"the folder is moved": func(t *testing.T, path string) func() {
		dir := filepath.Dir(path)
		must(t, os.Rename(dir, dir+".moved"))
		return func() { must(t, os.Rename(dir+".moved", dir)) }
	},
	"the file is replaced by a copy": func(t *testing.T, path string) func() {
		content, err := os.ReadFile(path)
		must(t, errors.Join(err, os.Rename(path, path+".moved"), os.WriteFile(path, content, 0o600)))
		return func() { must(t, os.Rename(path+".moved", path)) }
	},
	"the file is a link now": func(t *testing.T, path string) func() {
		must(t, errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path)))
		return func() { must(t, os.Rename(path+".moved", path)) }
	},
	"the log is removed": func(t *testing.T, path string) func() {
		must(t, os.Rename(path+"-wal", path+".moved"))
		return func() { must(t, os.Rename(path+".moved", path+"-wal")) }
	},
	"the lock is removed": func(t *testing.T, path string) func() {
		must(t, os.Rename(path+".lock", path+".moved"))
		return func() { must(t, os.Rename(path+".moved", path+".lock")) }
	},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantGone checks an error of a store whose files went away.
func wantGone(t *testing.T, what, path string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("%s: %v: want it to fail, and to say what happened and what to do", what, err)
	}
}

// When written data would not be found again, nothing is acknowledged any more, not even that
// nothing changed (invariant 4).
func TestNothingIsAcknowledgedOnceTheFileIsGone(t *testing.T) {
	for name, remove := range removals {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", "bursar.db")
			s := at(t, path)
			defer func() { _ = s.Close() }() // the file may be gone
			epoch := fill(t, s, 1)
			undo := remove(t, path)
			wantGone(t, "a batch without a change", path, s.Commit(t.Context(), store.Batch{Epoch: epoch}))
			if _, err := s.Lead(t.Context(), 0); err == nil {
				t.Error("it leads again")
			} else {
				wantGone(t, "taking the lead", path, err)
			}
			if undo == nil {
				return
			}
			undo()
			epoch = fill(t, s, 2)
			undo = remove(t, path)
			err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(1, 3, 3)})
			wantGone(t, "a commit", path, err)
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%v: the row may be there when the file is back", err)
			}
			t.Log(err)
			undo()
			fill(t, s, 4)
		})
	}
}

// Of two stores, only the second one, in the new folder, acknowledges, and the first one writes
// nothing to its file.
func TestOfTwoStoresInOnePlaceOneAcknowledges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "bursar.db")
	first := at(t, path)
	epoch := fill(t, first, 1)
	must(t, os.RemoveAll(filepath.Dir(path)))
	second := at(t, path)
	defer second.Close()
	other := fill(t, second, 5)
	for range 3 { // the connection is made again after a failure
		if err := first.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(1, 9, 9)}); err == nil {
			t.Error("the first one acknowledges")
		}
		_, err := first.Lead(t.Context(), 0)
		wantGone(t, "the first one's lead", path, err)
	}
	must(t, second.Commit(t.Context(), store.Batch{Epoch: other, Changes: allocations(6, 1, 2)}))
	meta, err := second.Meta(t.Context())
	if err != nil || meta.Epoch != other || meta.Sequence != 2 {
		t.Errorf("the second one is at epoch %d, sequence %d, %v", meta.Epoch, meta.Sequence, err)
	}
	// It does not take the log of the second one with it.
	must(t, first.Close())
	must(t, second.Commit(t.Context(), store.Batch{Epoch: other, Changes: allocations(7, 1, 3)}))
}

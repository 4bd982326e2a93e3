package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// filled makes a store in a file with so many allocations, and closes it.
func filled(t *testing.T, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bursar.db")
	s := at(t, path)
	defer s.Close()
	fill(t, s, n)
	return path
}

// fill takes the lead and commits so many allocations.
func fill(t testing.TB, s *Store, n int) (epoch uint64) {
	t.Helper()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: allocations(1, n, 1)}); err != nil {
		t.Fatal(err)
	}
	return meta.Epoch
}

// allocations returns a batch of active allocations with ids from first.
func allocations(first ledger.ID, n int, revision uint64) ledger.Changes {
	c := ledger.Changes{Revision: revision, LastID: first + ledger.ID(n) - 1}
	for i := range n {
		c.Transitions = append(c.Transitions, storetest.Typical(first+ledger.ID(i), ledger.Active, revision))
	}
	return c
}

// wantRefused opens a file that must be refused, and checks that it is unchanged. It returns the
// place and the finding.
func wantRefused(t *testing.T, path string, want store.Refusal) (where, found string) {
	t.Helper()
	before, readErr := os.ReadFile(path)
	s, err := Open(t.Context(), path, Options{CheckTime: time.Minute})
	if err == nil {
		s.Close()
		t.Fatalf("opened; want it refused as %s", want)
	}
	var refusal *store.RefusedError
	if !errors.As(err, &refusal) || refusal.Reason != want || refusal.Where == "" || refusal.Found == "" || refusal.Want == "" {
		t.Fatalf("got %v; want it refused as %s", err, want)
	}
	t.Log(err)
	if after, err := os.ReadFile(path); readErr == nil && (err != nil || string(after) != string(before)) {
		t.Errorf("the file was changed: %d bytes before, %d after, %v", len(before), len(after), err)
	}
	return refusal.Where, refusal.Found
}

func TestOnlyTheOwnerMayRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "store")
	path := filepath.Join(dir, "bursar.db")
	s := at(t, path)
	fill(t, s, 1)
	want := map[string]fs.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600}
	check := func() {
		t.Helper()
		for name, mode := range want {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, mode)
			}
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	s = at(t, path)
	defer s.Close()
	fill(t, s, 1)
	check()
}

func TestOneStorePerFile(t *testing.T) {
	path := filled(t, 1)
	s := at(t, path)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		where, found := wantRefused(t, name, store.InUse)
		if want := "process " + strconv.Itoa(os.Getpid()) + " has it open"; where != path || found != want {
			t.Errorf("%s: %s; want %s: %s", where, found, path, want)
		}
	}
	fill(t, s, 1) // the one that has it is not harmed
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	at(t, link).Close()
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("listen: 127.0.0.1:7070\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE bookmarks (url TEXT)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for _, path := range []string{text, other, dir, os.DevNull} {
		wantRefused(t, path, store.Foreign)
	}
}

func TestNewerSchema(t *testing.T) {
	path := filled(t, 1)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	wantRefused(t, path, store.Newer)
}

func TestNoAccess(t *testing.T) {
	wantRefused(t, "/sys/bursar/bursar.db", store.Denied) // not even for root
}

func TestDamagedFiles(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a page that is not one": func(b []byte) []byte { copy(b[5*4096:], make([]byte, 4096)); return b },
		"a wrong header":         func(b []byte) []byte { copy(b[16:], "\xff\xff\xff\xff"); return b },
		"cut off":                func(b []byte) []byte { return b[:len(b)/2] },
		"cut off in its header":  func(b []byte) []byte { return b[:40] },
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 1000)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, store.Damaged)
		})
	}
}

// An unreadable row stops the load and is named, whether or not the check of the file found it.
func TestDamagedRow(t *testing.T) {
	for name, statement := range map[string]string{
		"no message":       `UPDATE allocation SET payload = x'ffff' WHERE id = 7`,
		"another's":        `UPDATE allocation SET payload = (SELECT payload FROM allocation WHERE id = 8) WHERE id = 7`,
		"an unknown state": `UPDATE allocation SET payload = payload || x'0a021863' WHERE id = 7`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 1000)
			s := at(t, path)
			defer s.Close()
			if _, err := s.do(t.Context(), func(ctx context.Context, w *writer) error { _, err := w.conn.ExecContext(ctx, statement); return err }); err != nil {
				t.Fatal(err)
			}
			meta, err := s.Lead(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
			var row *store.RowError
			if !errors.As(err, &row) || row.Table != store.AllocationTable || row.Key != ledger.ID(7).String() {
				t.Errorf("got %v", err)
			}
			t.Log(err)
		})
	}
}

func TestLargeFileIsOpenedUnchecked(t *testing.T) {
	path := filled(t, 1000)
	s, err := Open(t.Context(), path, Options{CheckTime: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// After a power loss the log can end at any place: complete batches up to it are there, and none in
// part.
func TestTornLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bursar.db")
	s := at(t, path)
	defer s.Close()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int64 // of the log after each batch
	for revision := uint64(1); revision <= 5; revision++ {
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: allocations(1, 20, revision)}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, info.Size())
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for revision, end := range ends[:len(ends)-1] {
		for cut := end; cut < ends[revision+1]; cut += 1500 {
			t.Run(fmt.Sprint(cut), func(t *testing.T) { wantRevision(t, file, log[:cut], uint64(revision+1)) })
		}
		flipped := append([]byte(nil), log[:ends[revision+1]]...)
		flipped[ends[revision+1]-100] ^= 1
		wantRevision(t, file, flipped, uint64(revision+1))
	}
}

// wantRevision opens a copy of a store and compares its revision and that of all its rows.
func wantRevision(t *testing.T, file, log []byte, want uint64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := at(t, path)
	defer s.Close()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
	if err != nil || snapshot.Revision != want || len(snapshot.Allocations) != 20 {
		t.Fatalf("revision %d, %d allocations, %v; want revision %d", snapshot.Revision, len(snapshot.Allocations), err, want)
	}
	for _, a := range snapshot.Allocations {
		if a.Revision != want {
			t.Errorf("allocation %s at revision %d, the store at %d", a.ID, a.Revision, want)
		}
	}
}

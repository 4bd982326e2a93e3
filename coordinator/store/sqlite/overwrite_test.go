package sqlite

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// After its row is deleted, a command is no longer in the file: neither in free pages, nor in the
// rest of pages whose rows have moved.
func TestDeletedLaunchesLeaveNothingInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bursar.db")
	s, meta := carrying(t, path, defaultCarry)
	marker := []byte("PASSWORD=hunter2")
	random := rand.New(rand.NewPCG(1, 2))
	revision := uint64(0)
	commit := func(c ledger.Changes) {
		t.Helper()
		revision++
		c.Revision, c.LastID = revision, 1000
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
			t.Fatal(err)
		}
	}
	found := func() int {
		t.Helper()
		if _, err := checkpoint(t.Context(), s.checkpoints); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(data, marker)
	}
	const rows = 60
	order := random.Perm(rows)
	for _, i := range order { // small ones share pages, which split; large ones have pages of their own
		spec := bytes.Repeat([]byte("."), []int{10, 500, 3000, 60 << 10}[i%4])
		commit(ledger.Changes{Launches: []ledger.LaunchRow{{ID: ledger.ID(i + 1), Spec: append(append(spec, marker...), spec...)}}})
		if i%5 == 0 { // commits without launches do not overwrite
			commit(allocations(ledger.ID(i+1), 1, 2))
		}
	}
	if n := found(); n < rows {
		t.Fatalf("the file has %d of %d rows: the test looks at the wrong place", n, rows)
	}
	for _, i := range random.Perm(rows) {
		commit(ledger.Changes{LaunchesRemoved: []ledger.ID{ledger.ID(i + 1)}})
		if i%3 == 0 {
			commit(allocations(ledger.ID(i+1), 3, 4))
		}
	}
	if n := found(); n != 0 {
		t.Errorf("the file has %d times what was executed", n)
	}
}

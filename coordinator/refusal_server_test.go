package coordinator

import (
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/trapplacer"
)

// TestARestartDoesNotLetThroughWhatIsRefused: through the wire.
func TestARestartDoesNotLetThroughWhatIsRefused(t *testing.T) {
	disk := storetest.NewMemory("test")
	sprung := new(atomic.Int64)
	bad := func(f *fixture, id string) error {
		req := request(id, 6<<30)
		_, err := f.allocations.Allocate(t.Context(), req)
		return err
	}
	run := func(s *Server) { s.newPlacer = trapplacer.Trap("Choose", 6<<30, sprung) }
	f := start(t, Config{}, disk.Open(), run)
	f.host("h1", 8<<30)
	if err := bad(f, "bad"); connect.CodeOf(err) != connect.CodeInternal {
		t.Fatalf("%v; want INTERNAL", err)
	}
	eventually(t, "it leads again", func() bool { return connect.CodeOf(bad(f, "again")) == connect.CodeFailedPrecondition })
	f.stop()

	f = start(t, Config{}, disk.Open(), run)
	before := f.status()
	if !strings.Contains(strings.Join(before.GetWarnings(), "\n"), "AllocationService/Allocate of ") {
		t.Errorf("status does not say what is refused: %q", before.GetWarnings())
	}
	if err := bad(f, "bad"); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%v; want FAILED_PRECONDITION", err)
	}
	if n := sprung.Load(); n != 1 || f.status().GetEpoch() != before.GetEpoch() {
		t.Errorf("%d panics, epoch %d after %d; want no leadership lost", n, f.status().GetEpoch(), before.GetEpoch())
	}
}

// Rules that are read from a file again are other values in memory, and the same rules.
func TestRulesOfFilesReadAgainAreTheSame(t *testing.T) {
	read := func(minimum int64) map[string][]ledger.Quota {
		return map[string][]ledger.Quota{"file:q": {{
			Limit:         resource.Vector{}.WithMemory(8),
			Normalization: &resource.Normalization{Minimum: resource.Vector{}.WithMemory(minimum)},
		}}}
	}
	if first, again := originOfFiles(read(1)), originOfFiles(read(1)); first.Hash() != again.Hash() {
		t.Error("rules that made the ledger panic would not be known again")
	}
	if originOfFiles(read(1)).Hash() == originOfFiles(read(2)).Hash() {
		t.Error("other rules would be refused with them")
	}
}

package coordinator

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The store's folder is removed under a coordinator that leads (invariant 4): nothing is
// acknowledged any more, and it says why. What the next coordinator there acknowledges stays.
func TestNothingIsAcknowledgedOnceTheStoresFolderIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "ledger.db")
	first := start(t, Config{}, openSQLite(t, path))
	first.host("h", gib)
	kept := first.allocate(request("kept", 1)).GetId()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	refuses := func() {
		t.Helper()
		_, err := first.allocations.Allocate(t.Context(), request("lost", 1))
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("Allocate: %v: want it to be unavailable", err)
		}
		if _, err := first.cluster.Status(t.Context(), &bursarv1.StatusRequest{}); err == nil {
			t.Error("it answers for the cluster")
		}
	}
	refuses()
	eventually(t, "it does not lead", func() bool { return !first.server.loop.Leading() && first.server.loop.Unled() != nil })
	says := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, path+" was removed, moved or replaced") {
			t.Errorf("%s does not say why: %s", what, text)
		}
	}
	code, text := first.fetch(http.MethodGet, "/readyz", "")
	if says("/readyz", text); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", code)
	}
	status, err := first.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
	if err != nil {
		t.Fatal(err)
	}
	says("status", strings.Join(status.GetWarnings(), "\n"))
	_, err = first.allocations.Allocate(t.Context(), request("lost", 1))
	says("an answer", err.Error())

	second := start(t, Config{}, openSQLite(t, path))
	second.host("h", gib)
	refuses()
	second.allocate(request("second", 1))
	refuses()
	second.stop()

	// The same files back in their place: the first one goes on, and knows what it had
	// acknowledged.
	if err := os.Rename(dir, dir+".second"); err != nil {
		t.Fatal(err)
	}
	refuses()
	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it leads again", first.server.loop.Leading)
	first.host("h", gib)
	if got := first.get(kept); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		t.Errorf("%v", got)
	}
	if code := first.probed(); code != http.StatusOK {
		t.Errorf("/readyz: %d", code)
	}
}

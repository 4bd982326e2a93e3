package coordinator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/election"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A coordinator that may not stand for election, because somebody has changed which store is the
// cluster's, goes on, and says so wherever somebody looks.
func TestACoordinatorThatMayNotStandForElectionIsNotReady(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	standby := standbys[0]
	if code := standby.probed(); code != http.StatusOK {
		t.Fatalf("/readyz says %d before", code)
	}
	wrong := &election.StoreError{Cluster: "c", Theirs: "theirs", Ours: "ours"}
	standby.server.mismatch.set(wrong)
	if code, text := standby.fetch(http.MethodGet, "/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "use store theirs") {
		t.Errorf("/readyz says %d %s", code, text)
	}
	if code, text := standby.fetch(http.MethodGet, "/metrics", ""); code != http.StatusOK || !strings.Contains(text, "\nbursar_store_mismatch 1\n") {
		t.Errorf("/metrics says %d, without bursar_store_mismatch 1", code)
	}
	m.bar(standby.url, true) // nobody leads, so that it answers itself
	m.bar(leader.url, true)
	m.takeAway()
	eventually(t, "bursar status says it", func() bool {
		res, err := standby.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
		return err == nil && strings.Contains(strings.Join(res.GetWarnings(), "\n"), wrong.Error())
	})
	m.bar(leader.url, false)
	m.led()
	standby.server.mismatch.set(nil)
	if code, list := standby.probed(), standby.server.warnings(); code != http.StatusOK || len(list) != 0 {
		t.Errorf("/readyz says %d, warnings %q after it was mended", code, list)
	}
}

package coordinator

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// A leader that takes connections, or lets them time out, and answers nothing: its standby cannot
// pass calls on, and must not look ready.
func TestAStandbyThatCannotReachItsLeaderIsNotReady(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	standby := standbys[0]
	if standby == leader {
		standby = standbys[len(standbys)-1]
	}
	eventually(t, "the standby is ready", func() bool { return standby.probed() == http.StatusOK })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	m.pin(standby, "http://"+silent.Addr().String())
	var said string
	eventually(t, "the standby says that the leader is out of reach", func() bool {
		var code int
		code, said = standby.fetch(http.MethodGet, "/readyz", "")
		return code == http.StatusServiceUnavailable
	})
	if !strings.Contains(said, "does not answer this coordinator") || !strings.Contains(said, silent.Addr().String()) {
		t.Errorf("/readyz says %q: want that the leader does not answer, and its address", said)
	}
	m.pin(standby, leader.url)
	eventually(t, "the standby is ready again", func() bool { return standby.probed() == http.StatusOK })
}

package coordinator

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/credential"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAStandbyThatTheLeaderDoesNotLetInSaysSo(t *testing.T) {
	c := newAuthServer(t)
	c.stop()
	tokenOf := func(member string) string {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(c.tokens[member]), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, test := range map[string]struct {
		peers Peers
		says  string
	}{
		"with a submitter's token": {
			Peers{TLS: credential.ClientTLS{CA: c.config.TLS.ClientCA}, TokenFile: tokenOf("alice")}, "want peers.tokenFile",
		},
		"without the CA": {Peers{TokenFile: tokenOf("c1")}, "peers.tls"},
	} {
		t.Run(name, func(t *testing.T) {
			config := c.config
			config.AuditLog, config.Peers = filepath.Join(t.TempDir(), "audit.log"), test.peers
			m := &team{fakeElection: newFakeElection(), t: t, memory: storetest.NewMemory("shared")}
			for range 2 {
				m.members = append(m.members, start(t, config, m.memory.Open(), func(server *Server) {
					server.elect = func(self Self) (election.Election, error) {
						return &candidate{fakeElection: m.fakeElection, self: self}, nil
					}
				}))
			}
			for _, f := range m.members {
				f.url = f.server.URL()
			}
			_, others := m.led()
			standby := &authServer{fixture: others[0], ca: c.ca, dir: c.dir, tokens: c.tokens}
			reader := standby.visit(t, "reader")
			eventually(t, "it is not ready, and its status says why", func() bool {
				res, err := reader.http.Get(standby.url + "/readyz")
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				status, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
				return err == nil && res.StatusCode == http.StatusServiceUnavailable &&
					slices.ContainsFunc(status.GetWarnings(), func(w string) bool { return strings.Contains(w, test.says) })
			})
			_, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
			if connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("a caller is told %v, want UNAVAILABLE: another coordinator may do better", err)
			}
		})
	}
}

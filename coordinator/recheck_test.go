package coordinator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/credential"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/certs"
)

// watchful makes a coordinator look often at the credentials of those who watch.
func watchful(s *Server) { s.timeouts.Recheck = 10 * time.Millisecond }

// newWatchfulAuthServer is an authServer that is.
func newWatchfulAuthServer(t *testing.T) *authServer {
	t.Helper()
	c := newAuthServer(t)
	c.stop()
	c.config.AuditLog = filepath.Join(c.dir, "watchful.log")
	c.fixture = start(t, c.config, nil, watchful)
	c.url = "https" + strings.TrimPrefix(c.url, "http")
	return c
}

// watched is a watch that was seen to begin. ended waits for its end.
func (v *visitor) watched(t *testing.T) (ended func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	stream, err := v.cluster.Watch(ctx, &bursarv1.ClusterServiceWatchRequest{})
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	return func() error {
		for stream.Receive() {
		}
		return errors.Join(stream.Err(), stream.Close())
	}
}

// change rewrites lines of members in the file of identities: of each what stands there, and what
// is to.
func (c *authServer) change(t *testing.T, changes map[string][2]string) {
	t.Helper()
	text := ""
	for line := range strings.Lines(who) {
		for member, change := range changes {
			if strings.Contains(line, "name: "+member+",") {
				line = strings.Replace(line, change[0], change[1], 1)
			}
		}
		text += line
	}
	c.writeIdentities(t, "identities:"+text)
}

func TestAWatchEndsWithTheCredentialsOfItsCaller(t *testing.T) {
	c := newWatchfulAuthServer(t)
	reader, ops, alice, root := c.visit(t, "reader").watched(t), c.visit(t, "ops").watched(t), c.visit(t, "alice").watched(t), c.visit(t, "root").watched(t)
	c.change(t, map[string][2]string{
		"reader": {"- {", "- {notAfter: 2020-01-01, "}, "ops": {"role: operator", "role: agent, host: h1"},
		"alice": {"users: [alice]", "users: [bob]"}, "root": {"- {", "# {"},
	})
	expect(t, "ended identity", reader(), connect.CodeUnauthenticated, "the identity reader ended at 2020-01-02T00:00:00Z")
	expect(t, "a role that may not watch", ops(), connect.CodePermissionDenied, "ops may not call /bursar.v1.ClusterService/Watch with the role agent")
	expect(t, "other users", alice(), connect.CodeUnavailable, "the caller's rights have changed")
	expect(t, "revoked token", root(), connect.CodeUnauthenticated, "the token is not known: never made, or revoked")
	c.stop()
	var codes []string
	for _, r := range c.records(t) {
		codes = append(codes, r.Actor+" "+r.Code)
	}
	slices.Sort(codes)
	if got, want := strings.Join(codes, ", "), "ops permission_denied, reader unauthenticated, root unauthenticated"; got != want {
		t.Errorf("written down: %s; want %s", got, want)
	}
}

func TestAWatchEndsWithItsCertificate(t *testing.T) {
	c := newWatchfulAuthServer(t)
	other := certs.New(t, "other")
	short := c.certified(t, certs.Request{Name: "short", Organization: []string{"bursar:reader"}, NotAfter: time.Now().Add(2 * time.Second)}).watched(t)
	expect(t, "expired", short(), connect.CodeUnauthenticated, "want one that is valid now")
	long := c.certified(t, certs.Request{Name: "long", Organization: []string{"bursar:reader"}}).watched(t)
	if err := os.Rename(other.File(t, t.TempDir(), "ca.pem"), filepath.Join(c.dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	expect(t, "its CA was taken out", long(), connect.CodeUnauthenticated, "want one from a CA in the server's tls.clientCA")
}

// The leader sees the standby's credentials alone.
func TestAWatchThroughAStandbyEndsWithTheCredentialsOfItsCaller(t *testing.T) {
	c := newAuthServer(t)
	c.stop()
	tokenFile := filepath.Join(c.dir, "token")
	if err := os.WriteFile(tokenFile, []byte(c.tokens["c1"]), 0o600); err != nil {
		t.Fatal(err)
	}
	c.config.AuditLog, c.config.Peers = "", Peers{TLS: credential.ClientTLS{CA: c.config.TLS.ClientCA}, TokenFile: tokenFile}
	m := &team{fakeElection: newFakeElection(), t: t, memory: storetest.NewMemory("shared")}
	for range 2 {
		m.members = append(m.members, start(t, c.config, m.memory.Open(), watchful, func(server *Server) {
			server.elect = func(self Self) (election.Election, error) {
				return &candidate{fakeElection: m.fakeElection, self: self}, nil
			}
		}))
	}
	for _, f := range m.members {
		f.url = f.server.URL()
	}
	_, standbys := m.led()
	standby := &authServer{fixture: standbys[0], ca: c.ca, dir: c.dir, tokens: c.tokens}
	ended, stays := standby.visit(t, "reader").watched(t), standby.visit(t, "ops").watched(t)
	c.change(t, map[string][2]string{"reader": {"- {", "# {"}})
	expect(t, "revoked token", ended(), connect.CodeUnauthenticated, "the token is not known: never made, or revoked")
	c.change(t, map[string][2]string{"c1": {"- {", "# {"}})
	// What is wrong with the standby's own credentials is the leader's to find.
	if err := stays(); err == nil || !strings.Contains(err.Error(), "the token is not known: never made, or revoked") {
		t.Errorf("the standby's token is revoked: %v", err)
	}
}

package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/proc"
)

func TestChangedFilesAreInForceWithoutARestart(t *testing.T) {
	c := newAuthServer(t)
	alice, reader := c.visit(t, "alice"), c.visit(t, "reader")
	stream, err := reader.cluster.Watch(t.Context(), &bursarv1.ClusterServiceWatchRequest{})
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	defer stream.Close()
	status := func(v *visitor) error {
		_, err := v.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
		return err
	}
	if err := status(alice); err != nil {
		t.Fatal(err)
	}
	// Her token is revoked: with the next call, on the same connection.
	left := ""
	for line := range strings.Lines(who) {
		if !strings.Contains(line, "alice") {
			left += line
		} else {
			left += "# %s\n"
		}
	}
	c.writeIdentities(t, "identities:"+left)
	eventually(t, "a revoked token is refused", func() bool { return connect.CodeOf(status(alice)) == connect.CodeUnauthenticated })
	// A wrong file changes nothing, and shows.
	c.writeIdentities(t, "identities: [")
	warned := func() bool {
		res, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
		return err == nil && strings.Contains(strings.Join(res.GetWarnings(), "\n"), "identities: ")
	}
	eventually(t, "Status warns of a wrong file", warned)
	c.writeIdentities(t, "identities:"+who)
	eventually(t, "alice is back", func() bool { return status(alice) == nil })

	// The server gets another certificate, by another authority; who is connected stays so.
	next := certs.New(t, "next")
	next.Issue(t, certs.Request{Name: "server", Hosts: []string{"127.0.0.1"}}).Files(t, c.dir, "server")
	trusting := credential.ClientTLS{CA: next.File(t, t.TempDir(), "next.pem")}
	eventually(t, "the new certificate is in use", func() bool {
		return status(c.visitWith(t, trusting, http.Header{"Authorization": {"Bearer " + c.tokens["reader"]}})) == nil
	})
	if err := status(alice); err != nil {
		t.Errorf("on a connection from before: %v", err)
	}
	if _, err := c.visit(t, "root").quotas.Put(t.Context(), &bursarv1.PutRequest{Quota: &bursarv1.Quota{Limit: memory(gib)}}); err == nil {
		t.Error("who trusts the old authority still connects")
	}
	root := c.visitWith(t, trusting, http.Header{"Authorization": {"Bearer " + c.tokens["root"]}})
	if _, err := root.quotas.Put(t.Context(), &bursarv1.PutRequest{Quota: &bursarv1.Quota{Limit: memory(gib)}}); err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
		if stream.Msg().GetQuota() != nil {
			return
		}
	}
	t.Errorf("the stream from before has ended: %v", stream.Err())
}

func TestWhatAStandbyPassesOnKeepsItsCaller(t *testing.T) {
	c := newAuthServer(t)
	c.stop()
	tokenFile := filepath.Join(c.dir, "token")
	if err := os.WriteFile(tokenFile, []byte(c.tokens["c1"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, peers := range map[string]Peers{
		"token":       {TLS: credential.ClientTLS{CA: c.config.TLS.ClientCA}, TokenFile: tokenFile},
		"certificate": {TLS: c.peerCertificate(t)},
	} {
		t.Run(name, func(t *testing.T) {
			config := c.config
			config.AuditLog, config.Peers = filepath.Join(t.TempDir(), "audit.log"), peers
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
			first, others := m.led()
			leader := &authServer{fixture: first, ca: c.ca, dir: c.dir, tokens: c.tokens}
			standby := &authServer{fixture: others[0], ca: c.ca, dir: c.dir, tokens: c.tokens}
			standby.addHosts(t)
			agent := standby.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}})
			id := agent.mustAllocate(t, "h1", "alice")
			res, err := leader.visit(t, "reader").allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
			if err != nil || res.GetAllocation().GetCaller() != "alice@h1" {
				t.Errorf("got %v, %v", res, err)
			}
			_, err = agent.allocate(t, "h2", "alice")
			expect(t, "on h2, through a standby", err, connect.CodePermissionDenied, "alice@h1 may not allocate on host h2")
			foreign := leader.visit(t, "alice").mustAllocate(t, "h2", "alice")
			_, err = agent.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: foreign})
			expect(t, "h2's, through a standby", err, connect.CodePermissionDenied, "it is not on host h1")
			if _, err := standby.visit(t, "ops").hosts.Cordon(t.Context(), &bursarv1.CordonRequest{HostId: "h2"}); err != nil {
				t.Errorf("an operator through a standby: %v", err)
			}
			_, err = standby.visit(t, "alice").hosts.Cordon(t.Context(), &bursarv1.CordonRequest{HostId: "h2"})
			expect(t, "a submitter through a standby", err, connect.CodePermissionDenied, "with the role submitter")
		})
	}
}

func (c *authServer) peerCertificate(t *testing.T) credential.ClientTLS {
	t.Helper()
	config := credential.ClientTLS{CA: c.config.TLS.ClientCA}
	config.Cert, config.Key = c.ca.Issue(t, certs.Request{Name: "c2", Organization: []string{"bursar:coordinator"}}).Files(t, t.TempDir(), "peer")
	return config
}

func TestWithoutIdentitiesLoopbackIsBelieved(t *testing.T) {
	f := start(t, Config{Listen: "127.0.0.1:0", Insecure: true}, nil)
	f.host("h1", gib)
	if list := f.status().GetWarnings(); len(list) != 0 {
		t.Errorf("insecure on loopback makes no difference, and warns: %q", list)
	}
	// Told to be insecure, it believes other machines as well: an agent's callers keep their
	// names.
	client := bursarv1connect.NewAllocationServiceClient(inProcess{f.server.Handler(), "10.1.2.3:4"}, "http://in.process")
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set(identity.Header, identity.Actor{Name: "alice@h1", Users: []string{"alice"}}.Encode())
	res, err := client.Allocate(ctx, request("r", mib))
	if err != nil || res.GetAllocation().GetCaller() != "alice@h1" {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestInsecureOnANetworkIsLoud(t *testing.T) {
	var log proc.Output
	server, err := New(Config{Listen: "0.0.0.0:0", Insecure: true}, Dependencies{Store: openSQLite(t, filepath.Join(t.TempDir(), "x.db")), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	<-server.Ready()
	client := bursarv1connect.NewClusterServiceClient(inProcess{server.Handler(), "pipe"}, "http://in.process")
	res, err := client.Status(ctx, &bursarv1.StatusRequest{})
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"anyone who can connect to 0.0.0.0:0 may do everything", "what crosses the network can be read"} {
		if !strings.Contains(strings.Join(res.GetWarnings(), "\n"), want) || !strings.Contains(log.String(), want) {
			t.Errorf("want %q in Status and in the log: %q\n%s", want, res.GetWarnings(), log.String())
		}
	}
}

func TestNetworksAreServedOnlyWithTrust(t *testing.T) {
	ca, dir := certs.New(t, "ca"), t.TempDir()
	cert, key := ca.Issue(t, certs.Request{Hosts: []string{"rm-1"}}).Files(t, dir, "server")
	tls := credential.ServerTLS{Cert: cert, Key: key}
	mutual := credential.ServerTLS{Cert: cert, Key: key, ClientCA: ca.File(t, dir, "ca.pem")}
	for name, c := range map[string]struct {
		config      Config
		field, want string // of the error; empty: none
	}{
		"nothing":            {Config{Listen: "0.0.0.0:7070"}, "listen", "want tls.cert and tls.key, and identities or tls.clientCA, for what others than this machine can reach"},
		"TLS alone":          {Config{Listen: ":7070", TLS: tls}, "listen", "want identities or tls.clientCA for what others"},
		"identities alone":   {Config{Listen: "10.0.0.1:7070", Identities: "x"}, "listen", "want tls.cert and tls.key for what others"},
		"TLS and identities": {Config{Listen: "0.0.0.0:7070", TLS: tls, Identities: "x"}, "", ""},
		"certificates":       {Config{Listen: "0.0.0.0:7070", TLS: mutual}, "", ""},
		"insecure":           {Config{Listen: "0.0.0.0:7070", Insecure: true}, "", ""},
		"loopback":           {Config{Listen: "[::1]:7070"}, "", ""},
		"localhost":          {Config{Listen: "localhost:7070"}, "", ""},
		"no port":            {Config{Listen: "127.0.0.1"}, "listen", "want HOST:PORT"},
		"clientCA without":   {Config{TLS: credential.ServerTLS{ClientCA: "x"}}, "tls.cert", "tls.clientCA is of no use without TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.config.Validate()
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wrong, ok := errors.AsType[*ConfigError](err)
			if !ok || wrong.Field != c.field || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s: %s", err, c.field, c.want)
			}
		})
	}
	for field, config := range map[string]Config{
		"tls.key":         {TLS: credential.ServerTLS{Cert: cert, Key: filepath.Join(dir, "none.key")}},
		"peers.tls.ca":    {Peers: Peers{TLS: credential.ClientTLS{CA: key}}},
		"peers.tokenFile": {Peers: Peers{TokenFile: filepath.Join(dir, "none")}},
	} {
		_, err := New(config, Dependencies{})
		if wrong, ok := errors.AsType[*ConfigError](err); !ok || wrong.Field != field || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestWhoDecidesWhetherACallIsRecorded: if callers are known, those who run the cluster decide.
// Any other call could fill it with traces.
func TestWhoDecidesWhetherACallIsRecorded(t *testing.T) {
	nobodyKnown, known := &trust{}, &trust{who: access.Authenticator{Identities: func() *access.Identities { return nil }}}
	want := map[identity.Role]bool{identity.Agent: true, identity.Coordinator: true, identity.Admin: true}
	for _, role := range append(identity.Roles(), identity.Agent, identity.Coordinator) {
		ctx := auth.WithCaller(t.Context(), &auth.Caller{Maker: identity.Actor{Name: "x", Role: role}})
		if got := known.traces(ctx); got != want[role] {
			t.Errorf("%s: trusted %t, want %t", role, got, want[role])
		}
		if !nobodyKnown.traces(ctx) {
			t.Errorf("%s: not trusted where nobody is known", role)
		}
	}
}

package coordinator

import (
	"net/http"
	"net/http/httptest"
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
	"github.com/bursar/bursar/test/certs"
)

// trap is a server of somebody who wants to be taken for the leader.
type trap struct {
	*httptest.Server

	caught chan http.Header // of each request
}

func newTrap(t *testing.T, answer http.HandlerFunc) *trap {
	t.Helper()
	trap := &trap{caught: make(chan http.Header, 100)}
	trap.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trap.caught <- r.Header.Clone()
		answer(w, r)
	}))
	trap.Config.Protocols = new(http.Protocols)
	trap.Config.Protocols.SetHTTP1(true)
	trap.Config.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(trap.Close)
	return trap
}

// Anybody who may write into Consul may name any address there as the leader's.
func TestCredentialsGoToCoordinatorsAlone(t *testing.T) {
	c := newAuthServer(t)
	c.stop()
	token := filepath.Join(c.dir, "token")
	if err := os.WriteFile(token, []byte(c.tokens["c1"]), 0o600); err != nil {
		t.Fatal(err)
	}
	// It has a certificate of the same CA, for its own address.
	host := newTrap(t, func(http.ResponseWriter, *http.Request) {})
	cert, key := c.ca.Issue(t, certs.Request{Name: "h1", Organization: []string{"bursar:agent"}, Hosts: []string{"127.0.0.1"}, Both: true}).Files(t, c.dir, "host")
	own, err := credential.ServerTLS{Cert: cert, Key: key}.Open(credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	host.TLS = own.Config()
	host.EnableHTTP2 = true
	host.StartTLS()
	// It sends those who come to it elsewhere.
	elsewhere := newTrap(t, func(http.ResponseWriter, *http.Request) {})
	elsewhere.Start()
	redirecting := newTrap(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	redirecting.Start()

	config := c.config
	config.AuditLog = filepath.Join(t.TempDir(), "audit.log")
	config.Peers = Peers{TLS: credential.ClientTLS{CA: c.config.TLS.ClientCA}, TokenFile: token}
	b := newFakeElection()
	f := start(t, config, storetest.NewMemory("shared").Open(), func(server *Server) {
		server.elect = func(self Self) (election.Election, error) {
			b.bar(self.URL, true)
			return &candidate{fakeElection: b, self: self}, nil
		}
	})
	f.url = f.server.URL()
	standby := &authServer{fixture: f, ca: c.ca, dir: c.dir, tokens: c.tokens}
	reader := standby.visit(t, "reader")
	for _, test := range []struct{ name, leader, says string }{
		{"in clear to another machine", "http://192.0.2.1:7070", "192.0.2.1:7070 is not a loopback address"},
		{"with the certificate of a host", host.URL, `O = "bursar:coordinator"`},
	} {
		b.announce(election.Leader{URL: test.leader, Epoch: 7})
		eventually(t, test.name+": its status says what is wrong", func() bool {
			status, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
			return err == nil && slices.ContainsFunc(status.GetWarnings(), func(w string) bool {
				return strings.Contains(w, test.leader) && strings.Contains(w, test.says)
			})
		})
		if _, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%s: a caller is told %v, want UNAVAILABLE: another coordinator may do better", test.name, err)
		}
	}
	b.announce(election.Leader{URL: redirecting.URL})
	if <-redirecting.caught == nil { // over loopback nobody listens on the way
		t.Error("a leader on this machine is called")
	}
	if _, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{}); err == nil {
		t.Error("a redirect is an answer")
	}
	for name, trap := range map[string]*trap{"a host": host, "another server": elsewhere} {
		select {
		case header := <-trap.caught:
			t.Errorf("%s got a call: %v", name, header)
		default:
		}
	}
}

// announce says who leads, as somebody would who writes it there.
func (e *fakeElection) announce(leader election.Leader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = leader
	e.changedLocked()
}

func TestWhoHasATokenShowsIt(t *testing.T) {
	for name, c := range map[string]struct {
		trust trust
		shows bool
	}{
		"nothing":       {trust{config: &Config{}}, false},
		"a token":       {trust{config: &Config{}, token: &credential.TokenSource{}}, true},
		"a certificate": {trust{config: &Config{Peers: Peers{TLS: credential.ClientTLS{Cert: "cert.pem"}}}}, true},
	} {
		if o := c.trust.peersOptions(nil, nil); o.Shows != c.shows || (o.Token != nil) != (c.trust.token != nil) {
			t.Errorf("%s: shown %v, a token %v", name, o.Shows, o.Token != nil)
		}
	}
}

func TestACoordinatorThatOthersWouldNotCallIsRefused(t *testing.T) {
	ca, dir := certs.New(t, "here"), t.TempDir()
	file := ca.File(t, dir, "ca.pem")
	cert := func(name string, r certs.Request) credential.ServerTLS {
		r.Name = name
		var tls credential.ServerTLS
		tls.Cert, tls.Key = ca.Issue(t, r).Files(t, dir, name)
		return tls
	}
	plain := cert("plain", certs.Request{Hosts: []string{"10.1.2.3", "bursar.example.com"}})
	role := cert("role", certs.Request{Hosts: []string{"10.1.2.3"}, Organization: []string{"bursar:coordinator"}})
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	named := Peers{TokenFile: token, TLS: credential.ClientTLS{CA: file, ServerName: "bursar.example.com"}}
	for name, test := range map[string]struct {
		config Config
		says   string
	}{
		"a token and no TLS":                 {Config{Listen: "10.1.2.3:7070", Insecure: true, Peers: Peers{TokenFile: token}}, "tls.cert and tls.key on every coordinator"},
		"no TLS and nothing to show":         {Config{Listen: "10.1.2.3:7070", Insecure: true}, ""},
		"on this machine":                    {Config{Listen: "127.0.0.1:7070", Peers: Peers{TokenFile: token}}, ""},
		"no TLS but at the URL":              {Config{Listen: "127.0.0.1:7070", Advertise: "https://rm-1:7070", Peers: Peers{TokenFile: token}}, ""},
		"a certificate without a role":       {Config{Listen: "10.1.2.3:7070", Insecure: true, TLS: plain, Peers: Peers{TokenFile: token}}, `O = "bursar:coordinator"`},
		"with it":                            {Config{Listen: "10.1.2.3:7070", Insecure: true, TLS: role, Peers: Peers{TokenFile: token}}, ""},
		"with a name of all coordinators":    {Config{Listen: "10.1.2.3:7070", Insecure: true, TLS: plain, Peers: named}, ""},
		"without the name of all the others": {Config{Listen: "10.1.2.3:7070", Insecure: true, TLS: role, Peers: named}, "peers.tls.serverName"},
	} {
		err := Check(test.config, nil, true)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v: want %q", name, err, test.says)
		}
		if err := Check(test.config, nil, false); err != nil {
			t.Errorf("%s, alone: %v", name, err)
		}
	}
}

package credential_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/proc"
)

// clock is a time that a test sets. Files of a test are always older than this time.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration // guarded by mu
}

func newClock() *clock { return &clock{ahead: 10 * time.Second} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// logs is a buffer that many may write to.
type logs struct{ proc.Output }

func (l *logs) count(words string) int {
	return strings.Count(l.String(), words)
}

// site is a server with an authority.
type site struct {
	ca     *certs.Authority
	dir    string
	clock  *clock
	logs   *logs
	config credential.ServerTLS
	server *credential.Server
	http   *httptest.Server
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{ca: certs.New(t, "site"), dir: t.TempDir(), clock: newClock(), logs: &logs{}}
	s.config.ClientCA = s.ca.File(t, s.dir, "ca.pem")
	s.config.Cert, s.config.Key = s.issue(t, "server", certs.Request{Name: "server", Hosts: []string{"127.0.0.1"}})
	var err error
	s.server, err = s.config.Open(s.options())
	if err != nil {
		t.Fatal(err)
	}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaf, err := s.server.Verify(r.TLS)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case leaf != nil:
			fmt.Fprint(w, leaf.Subject.CommonName, " ", r.Proto)
		default:
			fmt.Fprint(w, "nobody ", r.Proto)
		}
	}))
	s.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.http.EnableHTTP2 = true
	s.http.TLS = s.server.Config()
	s.http.StartTLS()
	t.Cleanup(s.http.Close)
	return s
}

func (s *site) options() credential.Options {
	return credential.Options{Log: slog.New(slog.NewTextHandler(s.logs, nil)), Now: s.clock.now}
}

func (s *site) issue(t *testing.T, name string, r certs.Request) (cert, key string) {
	t.Helper()
	return s.ca.Issue(t, r).Files(t, s.dir, name)
}

// client returns a client and its transport.
func (s *site) client(t *testing.T, config credential.ClientTLS) *http.Client {
	t.Helper()
	opened, err := config.Open(s.options())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	opened.Use(transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *site) trusting(t *testing.T) credential.ClientTLS {
	t.Helper()
	return credential.ClientTLS{CA: s.ca.File(t, s.dir, "ca.pem")}
}

func (s *site) get(client *http.Client) (string, error) {
	res, err := client.Get(s.http.URL)
	if err != nil {
		return "", credential.Describe(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return strings.TrimSpace(string(text)), err
}

func (s *site) must(t *testing.T, client *http.Client, want string) {
	t.Helper()
	if got, err := s.get(client); err != nil || got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func TestServerKnowsClientsByTheirCertificates(t *testing.T) {
	s := newSite(t)
	anonymous := s.trusting(t)
	s.must(t, s.client(t, anonymous), "nobody HTTP/2.0")
	known := anonymous
	known.Cert, known.Key = s.issue(t, "alice", certs.Request{Name: "alice"})
	s.must(t, s.client(t, known), "alice HTTP/2.0")
}

func TestMistrustSaysWhatToDo(t *testing.T) {
	s := newSite(t)
	other := certs.New(t, "other")
	for name, c := range map[string]struct {
		client credential.ClientTLS
		hosts  []string
		want   string
	}{
		"wrong CA": {
			credential.ClientTLS{CA: other.File(t, t.TempDir(), "other.pem")},
			[]string{"127.0.0.1"},
			"want tls.ca to name the file of the CA that has issued the server's certificate",
		},
		"CA of the machine": {
			credential.ClientTLS{},
			[]string{"127.0.0.1"},
			"want tls.ca to name the file of the CA that has issued the server's certificate",
		},
		"wrong address": {
			s.trusting(t),
			[]string{"bursar.example", "10.1.2.3"},
			"want an address that the server's certificate has (bursar.example, 10.1.2.3), tls.serverName set to one of them",
		},
		"wrong server name": {
			credential.ClientTLS{CA: s.trusting(t).CA, ServerName: "bursar.example"},
			[]string{"127.0.0.1"},
			"tls.serverName set to one of them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.issue(t, "server", certs.Request{Hosts: c.hosts})
			s.clock.advance(2 * time.Second)
			got, err := s.get(s.client(t, c.client))
			var trust *credential.TrustError
			if !errors.As(err, &trust) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v; want a *TrustError with %q", got, err, c.want)
			}
		})
	}
}

func TestRefusedClientsAreToldWhy(t *testing.T) {
	past := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		foreign bool
		request certs.Request
		want    string
	}{
		"another CA":    {true, certs.Request{Name: "alice"}, `client certificate of "CN=alice": x509: certificate signed by unknown authority`},
		"not yet":       {false, certs.Request{Name: "alice", NotBefore: past.Add(time.Hour), NotAfter: past.Add(2 * time.Hour)}, "want one that is valid now"},
		"once, not now": {false, certs.Request{Name: "alice", NotAfter: past.Add(time.Hour)}, "want one that is valid now"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			issuer := s.ca
			if c.foreign {
				issuer = certs.New(t, "other")
			}
			certificate, err := tls.X509KeyPair(pems(issuer.Issue(t, c.request)))
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(s.ca.PEM())
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}}
			defer transport.CloseIdleConnections()
			// The refusal lists only its own authority: show the certificate nevertheless.
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
			client := &http.Client{Transport: transport}
			if name == "once, not now" { // on an open connection
				s.must(t, client, "alice HTTP/1.1")
				s.clock.advance(2 * time.Hour)
			}
			if got, err := s.get(client); err != nil || !strings.Contains(got, c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func pems(c certs.Certificate) (cert, key []byte) { return c.CertPEM, c.KeyPEM }

func TestRefusalsOfOtherServersAreKnownByTheirWords(t *testing.T) {
	for text, want := range map[string]string{
		"remote error: tls: bad certificate":                "the server refuses the certificate of this client",
		"remote error: tls: certificate required":           "want a client certificate: tls.cert and tls.key",
		"remote error: tls: unknown certificate authority":  "from a CA in the server's tls.clientCA",
		"remote error: tls: protocol version not supported": "TLS 1.2 or later",
	} {
		if err := credential.Describe(fmt.Errorf("post: %w", errors.New(text))); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestServerThatExpiredWhileItRanIsRefusedByClients(t *testing.T) {
	s := newSite(t)
	client := s.client(t, s.trusting(t))
	s.clock.advance(3 * time.Hour)
	_, err := s.get(client)
	if err == nil || !strings.Contains(err.Error(), "the server has to be given a new certificate") {
		t.Errorf("%v; want that the server needs a new certificate", err)
	}
	if list := s.server.Warnings(); len(list) != 1 || !strings.Contains(list[0], "server.pem expired at ") {
		t.Errorf("warnings: %q", list)
	}
}

func TestServerWithoutTLSIsToldApart(t *testing.T) {
	s := newSite(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	_, err := s.client(t, s.trusting(t)).Get("https://" + plain.Listener.Addr().String()) //nolint:bodyclose // there is none
	if err = credential.Describe(err); err == nil || !strings.Contains(err.Error(), "want http://, or TLS at the server") {
		t.Errorf("TLS to a plain server: %v", err)
	}
}

func TestFilesAreReadAgainWhileConnectionsAreOpen(t *testing.T) {
	s := newSite(t)
	config := s.trusting(t)
	config.Cert, config.Key = s.issue(t, "alice", certs.Request{Name: "alice"})
	open := s.client(t, config)
	s.must(t, open, "alice HTTP/2.0")

	// A new authority replaces the old one, at the server first.
	old := s.ca
	s.ca = certs.New(t, "next")
	both := append(old.PEM(), s.ca.PEM()...)
	replace(t, s.config.ClientCA, both)
	s.issue(t, "server", certs.Request{Name: "server", Hosts: []string{"127.0.0.1"}})
	s.clock.advance(2 * time.Second)
	s.must(t, open, "alice HTTP/2.0") // the connection and its certificate are still good

	open.CloseIdleConnections()
	// a new connection: the client's file of CAs is the same and has changed
	s.must(t, open, "alice HTTP/2.0")
	s.issue(t, "alice", certs.Request{Name: "alice2"})
	s.clock.advance(2 * time.Second)
	open.CloseIdleConnections()
	s.must(t, open, "alice2 HTTP/2.0")

	// The old authority is gone: its certificates are not valid any more, also on an open
	// connection.
	other := s.trusting(t)
	other.Cert, other.Key = old.Issue(t, certs.Request{Name: "bob"}).Files(t, s.dir, "bob")
	replace(t, s.config.ClientCA, both)
	s.clock.advance(2 * time.Second)
	bob := s.client(t, other)
	s.must(t, bob, "bob HTTP/2.0")
	replace(t, s.config.ClientCA, s.ca.PEM())
	s.clock.advance(2 * time.Second)
	if got, err := s.get(bob); err != nil || !strings.Contains(got, "certificate signed by unknown authority") {
		t.Errorf("on an open connection: %q, %v", got, err)
	}
	s.must(t, open, "alice2 HTTP/2.0")
}

func TestBrokenFilesLeaveTheOldOnesAndAreLoggedOnce(t *testing.T) {
	s := newSite(t)
	client := s.client(t, s.trusting(t))
	good, err := os.ReadFile(s.config.Cert)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range [][]byte{nil, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), s.ca.Issue(t, certs.Request{Hosts: []string{"127.0.0.1"}}).CertPEM} {
		before := s.logs.count("cannot be used")
		replace(t, s.config.Cert, broken)
		for range 4 {
			s.clock.advance(2 * time.Second)
			client.CloseIdleConnections()
			s.must(t, client, "nobody HTTP/2.0")
		}
		if got := s.logs.count("cannot be used") - before; got != 1 {
			t.Errorf("logged %d times, want once", got)
		}
		if list := s.server.Warnings(); len(list) != 1 || !strings.Contains(list[0], "the earlier file stays in use") {
			t.Errorf("warnings: %q", list)
		}
	}
	replace(t, s.config.Cert, good)
	s.clock.advance(2 * time.Second)
	if list := s.server.Warnings(); len(list) != 0 {
		t.Errorf("warnings: %q; want none", list)
	}
}

func TestWrongFilesAreRefusedAtTheStart(t *testing.T) {
	ca, dir := certs.New(t, "ca"), t.TempDir()
	now := time.Now()
	issue := func(name string, r certs.Request) (cert, key string) { return ca.Issue(t, r).Files(t, dir, name) }
	hosts := []string{"127.0.0.1"}
	good, goodKey := issue("good", certs.Request{Hosts: hosts})
	_, otherKey := issue("other", certs.Request{Hosts: hosts})
	expired, expiredKey := issue("expired", certs.Request{Hosts: hosts, NotAfter: now.Add(-time.Minute)})
	early, earlyKey := issue("early", certs.Request{Hosts: hosts, NotBefore: now.Add(time.Minute)})
	client, clientKey := issue("client", certs.Request{Name: "alice"})
	open := filepath.Join(dir, "open.key")
	replace(t, open, read(t, goodKey))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage.pem")
	replace(t, garbage, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	encrypted := filepath.Join(dir, "encrypted.key")
	replace(t, encrypted, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	oldCA := certs.NewUntil(t, "old", now.Add(-time.Hour)).File(t, dir, "old.pem")

	server := func(cert, key, clientCA string) func() error {
		return func() error {
			_, err := credential.ServerTLS{Cert: cert, Key: key, ClientCA: clientCA}.Open(credential.Options{})
			return err
		}
	}
	asClient := func(c credential.ClientTLS) func() error {
		return func() error { _, err := c.Open(credential.Options{Field: "upstream.tls"}); return err }
	}
	for name, c := range map[string]struct {
		open        func() error
		field, want string
	}{
		"no certificate":        {server("", goodKey, ""), "tls.cert", "is not set: want a file in PEM"},
		"no key":                {server(good, "", ""), "tls.key", "is not set: want a file in PEM"},
		"no such file":          {server(filepath.Join(dir, "none.pem"), goodKey, ""), "tls.cert", "no such file or directory: want a file in PEM"},
		"a directory":           {server(dir, goodKey, ""), "tls.cert", "is no regular file"},
		"garbage":               {server(garbage, goodKey, ""), "tls.cert", "malformed certificate"},
		"a key for a cert":      {server(goodKey, goodKey, ""), "tls.cert", "has no certificate in PEM"},
		"mismatch":              {server(good, otherKey, ""), "tls.key", "private key does not match public key"},
		"encrypted":             {server(good, encrypted, ""), "tls.key", "is encrypted: want a file in PEM with the private key of the certificate, not encrypted"},
		"key for everybody":     {server(good, open, ""), "tls.key", "(mode 0644): want a file that only its owner can change, and only its owner and group can read: chmod 0600 or 0640"},
		"expired":               {server(expired, expiredKey, ""), "tls.cert", "expired at "},
		"not yet":               {server(early, earlyKey, ""), "tls.cert", "is not valid before "},
		"a client's":            {server(client, clientKey, ""), "tls.cert", "want a certificate that was issued for serverAuth"},
		"old CA":                {server(good, goodKey, oldCA), "tls.clientCA", "expired at "},
		"no CA":                 {server(good, goodKey, goodKey), "tls.clientCA", "has no certificate in PEM"},
		"a server's":            {asClient(credential.ClientTLS{Cert: good, Key: goodKey}), "upstream.tls.cert", "want a certificate that was issued for clientAuth"},
		"client without key":    {asClient(credential.ClientTLS{Cert: client}), "upstream.tls.key", "is not set"},
		"client without cert":   {asClient(credential.ClientTLS{Key: clientKey}), "upstream.tls.cert", "is not set"},
		"no such CA":            {asClient(credential.ClientTLS{CA: filepath.Join(dir, "none.pem")}), "upstream.tls.ca", "no such file or directory"},
		"client's key mismatch": {asClient(credential.ClientTLS{Cert: client, Key: goodKey}), "upstream.tls.key", "private key does not match public key"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.open()
			var wrong *credential.FileError
			if !errors.As(err, &wrong) {
				t.Fatalf("%v: want a *FileError", err)
			}
			if wrong.Field != c.field || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant field %s, and %q", err, c.field, c.want)
			}
		})
	}
}

func TestDescribeLeavesOtherErrors(t *testing.T) {
	other := errors.New("connection refused")
	if credential.Describe(nil) != nil || !errors.Is(credential.Describe(other), other) || credential.Describe(other).Error() != other.Error() {
		t.Error("want it as it is")
	}
}

func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

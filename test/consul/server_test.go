package consul

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/test/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, s *Server) *api.Client {
	t.Helper()
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t *testing.T, s *Server, key, value string) {
	t.Helper()
	if _, err := client(t, s).KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Server, key string) string {
	t.Helper()
	pair, _, err := client(t, s).KV().Get(key, nil)
	if err != nil || pair == nil {
		t.Fatalf("%s: %v, %v", key, pair, err)
	}
	return string(pair.Value)
}

func TestServerKeepsItsDataOverARestart(t *testing.T) {
	began := time.Now()
	s := Start(t, Options{})
	t.Logf("up after %v", time.Since(began))
	put(t, s, "a", "1")
	s.Kill()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, s, "b", "2")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := get(t, s, "a"), get(t, s, "b"); a != "1" || b != "2" {
		t.Errorf("after two restarts %q, %q", a, b)
	}
}

func TestPausedServerGoesOn(t *testing.T) {
	s := Start(t, Options{})
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := client(t, s).Status().Leader()
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestClusterOutlivesAServer(t *testing.T) {
	servers := StartCluster(t, 3, Options{})
	put(t, servers[0], "a", "1")
	servers[0].Kill()
	if err := servers[1].Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get(t, servers[2], "a"); got != "1" {
		t.Errorf("got %q", got)
	}
}

func TestTokensAndCertificatesAreAskedFor(t *testing.T) {
	dir, authority := t.TempDir(), certs.New(t, "Consul CA")
	cert, key := authority.Issue(t, certs.Request{Name: "consul", Hosts: []string{"127.0.0.1"}, Both: true}).Files(t, dir, "consul")
	s := Start(t, Options{
		Token: "0e4b2c9a-7a34-4d0e-9a52-3a3c6c1f2b11", Cert: cert, Key: key, CA: authority.File(t, dir, "ca.pem"), VerifyClients: true,
	})
	put(t, s, "a", "1")
	for name, change := range map[string]func(*Server){
		"no token":       func(s *Server) { s.Token = "" },
		"no certificate": func(s *Server) { s.options.VerifyClients = false },
		"another CA":     func(s *Server) { s.options.CA = certs.New(t, "Other").File(t, dir, "other.pem") },
	} {
		other := *s
		change(&other)
		if _, _, err := client(t, &other).KV().Get("a", nil); err == nil {
			t.Errorf("%s: it answered", name)
		}
	}
}

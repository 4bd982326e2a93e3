//go:build linux

package ha

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

// wrongConfig is a configuration that must not work, next to servers that do.
type wrongConfig struct {
	t        *testing.T
	dir, dsn string
	consul   *consul.Server
	database *postgres.Server
	program  string // that is run; empty: the one under test
}

// What a bursar ends with.
const (
	exitFailure = 1
	exitConfig  = 78
	goesOn      = -1 // not at all: the fault may go away by itself
)

func newWrongConfig(t *testing.T) *wrongConfig {
	t.Helper()
	m := &wrongConfig{t: t, dir: t.TempDir(), consul: consul.Start(t, consul.Options{}), database: postgres.Start(t, postgres.Options{})}
	m.dsn = m.create("bursar")
	return m
}

func (m *wrongConfig) create(database string) (dsn string) {
	m.t.Helper()
	dsn, err := m.database.CreateDatabase(m.t.Context(), database)
	if err != nil {
		m.t.Fatal(err)
	}
	return dsn
}

// longest is more bytes than any printed line has, whatever others have written.
const longest = 3000

// run starts a bursar with a configuration, and waits until it ends or has said each of these.
func (m *wrongConfig) run(part, config string, code int, says ...string) {
	m.t.Helper()
	file := filepath.Join(m.dir, strings.ReplaceAll(m.t.Name(), "/", "-")+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	said := &proc.Output{}
	program := executable
	if m.program != "" {
		program = m.program
	}
	cmd := exec.CommandContext(ctx, program, part, "--config", file, "--log-format", "text")
	cmd.Env, cmd.Stdout, cmd.Stderr = proc.Environment(), said, said
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	var err error // of its end; read after ended
	go func() {
		defer close(ended)
		err = cmd.Wait()
	}()
	defer func() {
		for line := range strings.Lines(said.String()) {
			if len(line) > longest {
				m.t.Errorf("a line of %d bytes: %.300q", len(line), line)
			}
		}
	}()
	deadline, again := time.After(patience), time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		select {
		case <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != code || !contains(said.String(), says) {
				m.t.Errorf("ended with %v, want code %d and to say %q:\n%s", err, code, says, said)
			}
			return
		case <-again.C:
			if code == goesOn && contains(said.String(), says) {
				cancel()
				<-ended
				return
			}
		case <-deadline:
			cancel()
			<-ended
			m.t.Errorf("goes on, want code %d and to say %q:\n%s", code, says, said)
			return
		}
	}
}

func contains(text string, each []string) bool {
	for _, part := range each {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func (m *wrongConfig) coordinator(dsn, consulAddress, more string) string {
	scheme := "http"
	if strings.HasPrefix(more, "tls:") {
		scheme = "https"
	}
	return fmt.Sprintf("listen: 127.0.0.1:0\nadvertise: %s://127.0.0.1:1\nstore: %s\nconsul: {address: '%s'}\n%s", scheme, dsn, consulAddress, more)
}

func (m *wrongConfig) agent(more string) string {
	return fmt.Sprintf("hostId: a\nsocket: %s/a.sock\nstateDir: %s\n%s", m.dir, m.dir, more)
}

// TestOneStoreIsOneClusters: if a store belongs to another cluster, the error says to which.
func TestOneStoreIsOneClusters(t *testing.T) {
	m := newWrongConfig(t)
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, "cluster: first\n"), goesOn, "leading")
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, "cluster: second\n"), exitConfig, "another cluster's", "first", "want")
	elsewhere := consul.Start(t, consul.Options{})
	m.run("coordinator", m.coordinator(m.dsn, elsewhere.Address, "cluster: first\n"), exitConfig, "another cluster's", "--adopt")
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, "election: alone\n"), exitConfig, "another cluster's", "alone")
	// One election, two stores.
	m.run("coordinator", m.coordinator(m.create("elsewhere"), m.consul.Address, "cluster: first\n"), exitConfig, "point it to theirs")
}

// TestNonsenseInConsulsKeysKeepsNoCoordinatorFromStarting, and it lets no other store in: the key
// gets back what the cluster's store knows.
func TestNonsenseInConsulsKeysKeepsNoCoordinatorFromStarting(t *testing.T) {
	m := newWrongConfig(t)
	asked, err := m.consul.Client()
	if err != nil {
		t.Fatal(err)
	}
	const storeKey, idKey = "bursar/bursar/store", "bursar/bursar/id"
	read := func(key string) string {
		pair, _, err := asked.KV().Get(key, nil)
		if err != nil || pair == nil {
			t.Fatalf("%s: %v, %v", key, pair, err)
		}
		return string(pair.Value)
	}
	spoil := func(keys ...string) {
		for _, key := range keys {
			if _, err := asked.KV().Put(&api.KVPair{Key: key, Value: []byte("\n\x00garbage" + strings.Repeat("z", 400_000))}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, ""), goesOn, "leading")
	store, id := read(storeKey), read(idKey)
	elsewhere := m.create("elsewhere")
	spoil(storeKey)
	m.run("coordinator", m.coordinator(elsewhere, m.consul.Address, ""), exitConfig, "use store "+store+", this one has", "point it to theirs")
	spoil(idKey)
	m.run("coordinator", m.coordinator(m.create("fresh"), m.consul.Address, ""), goesOn, idKey+" holds", "delete the key")
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, ""), goesOn, "held no store's id", "did not know the cluster's id", "leading")
	if got := read(storeKey); got != store {
		t.Errorf("%s holds %.80q, want %s", storeKey, got, store)
	}
	if got := read(idKey); got != id {
		t.Errorf("%s holds %.80q, want %s", idKey, got, id)
	}
	m.run("coordinator", m.coordinator(elsewhere, m.consul.Address, ""), exitConfig, "point it to theirs")
}

// TestStoresThatAreNotForThisVersion are left as they are.
func TestStoresThatAreNotForThisVersion(t *testing.T) {
	m := newWrongConfig(t)
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, ""), goesOn, "leading")
	if err := m.database.Execute(t.Context(), "bursar", "INSERT INTO bursar_schema (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, ""), exitConfig, "from a newer version", "want")
	foreign := m.create("foreign")
	if err := m.database.Execute(t.Context(), "foreign", "CREATE TABLE customers (name text)"); err != nil {
		t.Fatal(err)
	}
	m.run("coordinator", m.coordinator(foreign, m.consul.Address, ""), goesOn, "not a bursar store", "want")
	m.run("coordinator", m.coordinator(strings.Replace(m.dsn, "/bursar", "/nowhere", 1), m.consul.Address, ""), goesOn, "nowhere", "want")
}

// TestConsulThatIsNone: if Consul is in trouble, or its answer is not Consul's, coordinators and
// agents say so and keep asking.
func TestConsulThatIsNone(t *testing.T) {
	m := newWrongConfig(t)
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"an error", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
		}, "No cluster leader"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><body>Welcome!</body></html>")
		}, "set consul.address to Consul's HTTP API"},
		{"nonsense", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte{0xff, 0}, 1000))
		}, "set consul.address to Consul's HTTP API"},
		{"another service's answer", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status": "ok"}`)
		}, "set consul.address to Consul's HTTP API"},
		{"no permission", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Permission denied: token with AccessorID '0' lacks permission", http.StatusForbidden)
		}, "set consul.token or consul.tokenFile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			defer server.Close()
			m := *m
			m.t = t
			m.run("coordinator", m.coordinator(m.dsn, server.URL, ""), goesOn, server.URL, test.says)
			m.run("agent", m.agent(fmt.Sprintf("consul: {address: '%s'}\n", server.URL)), goesOn, server.URL, test.says)
		})
	}
}

// TestCertificatesThatAreNotTrusted: the errors say which certificate is not trusted. What may be
// put right while a start waits ends none: a missing file, a clock, another's certificate.
func TestCertificatesThatAreNotTrusted(t *testing.T) {
	m := newWrongConfig(t)
	authority, other := certs.New(t, "Bursar"), certs.New(t, "Somebody")
	ca, otherCA := authority.File(t, m.dir, "ca.pem"), other.File(t, m.dir, "other.pem")
	good, goodKey := authority.Issue(t, certs.Request{Name: "good", Hosts: []string{"127.0.0.1"}, Both: true}).Files(t, m.dir, "good")
	old, oldKey := authority.Issue(t, certs.Request{Name: "old", Hosts: []string{"127.0.0.1"}, Both: true, NotAfter: time.Now().Add(-time.Minute)}).
		Files(t, m.dir, "old")
	secured := consul.Start(t, consul.Options{Cert: good, Key: goodKey, CA: ca})
	m.run("coordinator", fmt.Sprintf("listen: 127.0.0.1:0\nadvertise: http://127.0.0.1:1\nstore: %s\nconsul: {address: '%s', tls: {ca: %s}}\n", m.dsn, secured.Address, otherCA), goesOn,
		"unknown authority", "want tls.ca")
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, fmt.Sprintf("tls: {cert: %s, key: %s}\n", old, oldKey)), goesOn, "expired", "want")
	m.run("coordinator", m.coordinator(m.dsn, m.consul.Address, fmt.Sprintf("tls: {cert: %s, key: %s}\n", good, oldKey)), goesOn, "does not match", "want")
	m.run("agent", m.agent(fmt.Sprintf("coordinators: ['%s']\ntls: {ca: %s}\n", secured.Address, otherCA)), goesOn, "unknown authority", "want")
	m.run("agent", m.agent(fmt.Sprintf("coordinators: ['%s']\ntls: {ca: %s}\n", "https://127.0.0.1:1", m.dir+"/none.pem")), goesOn, "none.pem", "cannot be used yet")
}

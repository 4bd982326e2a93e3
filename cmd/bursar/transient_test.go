package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bursar/bursar/test/certs"
	consultest "github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

// starting runs a coordinator whose start waits, checks what it logs and what it shows to anybody
// meanwhile, mends the fault, and waits until it is ready. From the first answer on, /healthz must
// be served all the time, also while attempts fail and while the coordinator takes over.
func starting(t *testing.T, address string, env []string, logs, shows string, mend func(), args ...string) {
	t.Helper()
	s := startService(t, env, nil, append([]string{"coordinator", "--listen", address, "--log-format", "text"}, args...)...)
	s.told.until("STATUS=starting; ")
	s.logged.until(logs)
	s.logged.until("only /healthz and /readyz are served")
	for path, code := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		got, body := probe(t, address, path)
		if want := "starting: " + shows + "; the log of this coordinator says more\n"; got != code || path == "/readyz" && body != want {
			t.Errorf("%s: %d %q; want %d and %q", path, got, body, code, want)
		}
	}
	up, polled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(polled)
		for {
			select {
			case <-up:
				return
			default:
				// 400 is the answer to HTTP at a port of HTTPS: it has its certificate now.
				if code, body := probe(t, address, "/healthz"); code != http.StatusOK && code != http.StatusBadRequest {
					t.Errorf("/healthz while it starts: %d %s", code, body)
					return
				}
			}
		}
	}()
	s.told.until("STATUS=starting; ") // of another attempt
	mend()
	s.told.until("READY=1")
	close(up)
	<-polled
	s.stops()
}

// probe gets a page over a connection of its own; 0: there was no answer.
func probe(t *testing.T, address, path string) (code int, body string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(text)
}

func TestStartWaitsForTransientFaults(t *testing.T) {
	t.Run("certificate", func(t *testing.T) {
		dir := t.TempDir()
		cert, key := certs.New(t, "ca").Issue(t, certs.Request{Name: "c", Hosts: []string{"127.0.0.1"}}).Files(t, dir, "made")
		env := []string{"BURSAR_COORDINATOR_TLS_CERT=" + dir + "/own.pem", "BURSAR_COORDINATOR_TLS_KEY=" + dir + "/own.key"}
		starting(t, proc.Address(t), env, "own.pem", "a file or a folder cannot be used now", func() {
			for from, to := range map[string]string{key: "own.key", cert: "own.pem"} {
				if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
					t.Error(err)
				}
			}
		}, "--data-dir", filepath.Join(dir, "data"))
	})
	t.Run("file of the store's address", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "store")
		starting(t, proc.Address(t), []string{"BURSAR_COORDINATOR_STORE_FILE=" + file}, file, "a file or a folder cannot be used now", func() {
			writeConfig(t, file, filepath.Join(dir, "made", "bursar.db"))
		}, "--data-dir", dir)
	})
	for field, content := range map[string]string{
		"QUOTA_FILES": "quotas: []\n", "PROVIDERS_FILE": "providers: []\n", "IDENTITIES": "identities: []\n",
	} {
		t.Run(field, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file.yaml")
			starting(t, proc.Address(t), []string{"BURSAR_COORDINATOR_" + field + "=" + file}, file, "a file or a folder cannot be used now", func() {
				writeConfig(t, file, content)
			}, "--data-dir", filepath.Join(dir, "data"))
		})
	}
	t.Run("folder of the audit log", func(t *testing.T) {
		dir := t.TempDir()
		logs := filepath.Join(dir, "log")
		starting(t, proc.Address(t), []string{"BURSAR_COORDINATOR_AUDIT_LOG=" + logs + "/audit.log"}, logs, "a file or a folder cannot be used now", func() {
			if err := os.Mkdir(logs, 0o700); err != nil {
				t.Error(err)
			}
		}, "--data-dir", filepath.Join(dir, "data"))
	})
	t.Run("file system of the data", func(t *testing.T) {
		dir := t.TempDir()
		mounted, link := filepath.Join(dir, "disk"), filepath.Join(dir, "data")
		if err := os.Symlink(mounted, link); err != nil {
			t.Fatal(err)
		}
		starting(t, proc.Address(t), nil, link, "a file or a folder cannot be used now", func() {
			if err := os.Mkdir(mounted, 0o700); err != nil {
				t.Error(err)
			}
		}, "--data-dir", link)
	})
	t.Run("another process has the store", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		first := startService(t, nil, nil, "coordinator", "--listen", "127.0.0.1:0", "--data-dir", dir)
		first.told.until("READY=1")
		starting(t, proc.Address(t), nil, "in use", "another process has the store", first.stops, "--data-dir", dir)
	})
	t.Run("another process has the port", func(t *testing.T) {
		address := proc.Address(t)
		first, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		s := startService(t, nil, nil, "coordinator", "--listen", address, "--data-dir", filepath.Join(t.TempDir(), "data"))
		s.told.until("address already in use")
		first.Close()
		s.told.until("READY=1")
		s.stops()
	})
	server := postgres.Start(t, postgres.Options{})
	execute := func(t *testing.T, database, statement string) {
		t.Helper()
		if err := server.Execute(t.Context(), database, statement); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, "postgres", "CREATE ROLE late LOGIN")
	execute(t, "postgres", "CREATE DATABASE d OWNER late")
	t.Run("name of the database's host", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "store")
		writeConfig(t, file, "postgres://late@db.invalid/d?sslmode=disable")
		env := []string{"BURSAR_COORDINATOR_STORE_FILE=" + file, "BURSAR_COORDINATOR_ELECTION=alone"}
		starting(t, proc.Address(t), env, "db.invalid", "the store cannot be reached", func() {
			writeConfig(t, file, strings.Replace(server.DSN("d"), postgres.User+"@", "late@", 1))
		})
	})
	t.Run("Consul refuses the token", func(t *testing.T) {
		registry := consultest.Start(t, consultest.Options{})
		to, err := url.Parse(registry.Address)
		if err != nil {
			t.Fatal(err)
		}
		var refuses atomic.Bool
		refuses.Store(true)
		proxy := httputil.NewSingleHostReverseProxy(to)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuses.Load() {
				http.Error(w, "Permission denied", http.StatusForbidden)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		defer front.Close()
		execute(t, "postgres", "CREATE DATABASE led OWNER late")
		address := proc.Address(t)
		env := []string{
			"BURSAR_COORDINATOR_STORE=" + strings.Replace(server.DSN("led"), postgres.User+"@", "late@", 1),
			"BURSAR_COORDINATOR_CONSUL_ADDRESS=" + front.URL, "BURSAR_COORDINATOR_ADVERTISE=http://" + address,
		}
		starting(t, address, env, "Permission denied", "Consul refuses this coordinator", func() { refuses.Store(false) })
	})
	for _, c := range []struct{ name, database, want, shows, fault, mend string }{
		{"role may not log in", "d", "not permitted to log in", "the store cannot be used now", "ALTER ROLE late NOLOGIN", "ALTER ROLE late LOGIN"},
		{"no connections are left", "d", "too many connections", "the store cannot be reached", "ALTER ROLE late CONNECTION LIMIT 0", "ALTER ROLE late CONNECTION LIMIT -1"},
		{"database is not there yet", "later", "does not exist", "the store cannot be used now", "SELECT 1", "CREATE DATABASE later OWNER late"},
		{"database is read-only", "d", "read-only", "the store cannot be used now", "ALTER DATABASE d SET default_transaction_read_only = on", "ALTER DATABASE d RESET default_transaction_read_only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			execute(t, "postgres", c.fault)
			dsn := strings.Replace(server.DSN(c.database), postgres.User+"@", "late@", 1)
			env := []string{"BURSAR_COORDINATOR_STORE=" + dsn, "BURSAR_COORDINATOR_ELECTION=alone"}
			starting(t, proc.Address(t), env, c.want, c.shows, func() { execute(t, "postgres", c.mend) })
		})
	}
}

// An agent serves its engines without the files that it shows coordinators, and registers once they
// are there.
func TestAgentServesWithoutItsCredentials(t *testing.T) {
	dir, files := folderOfSockets(t), t.TempDir()
	authority := certs.New(t, "ca")
	cert, key := authority.Issue(t, certs.Request{Name: "c", Hosts: []string{"127.0.0.1"}}).Files(t, files, "server")
	who := filepath.Join(files, "identities.yaml")
	if out, code := command(t, "token", "create", "--identities", who, "--out", filepath.Join(files, "made"), "--name", "h", "--role", "agent", "--host", "h"); code != 0 {
		t.Fatal(out)
	}
	address := proc.Address(t)
	c := startService(t, []string{
		"BURSAR_COORDINATOR_TLS_CERT=" + cert, "BURSAR_COORDINATOR_TLS_KEY=" + key, "BURSAR_COORDINATOR_IDENTITIES=" + who,
	}, nil, "coordinator", "--listen", address, "--data-dir", filepath.Join(files, "data"))
	c.told.until("READY=1")
	s := startService(t, []string{
		"BURSAR_AGENT_TOKEN_FILE=" + files + "/token", "BURSAR_AGENT_TLS_CA=" + files + "/ca.pem", "BURSAR_AGENT_HOST_ID=h",
	}, nil, "agent", "--coordinator", "https://"+address, "--socket", filepath.Join(dir, "s"), "--state-dir", filepath.Join(files, "state"))
	s.told.until("READY=1\nSTATUS=no coordinator has answered yet")
	s.logged.until("files cannot be used yet")
	writeConfig(t, files+"/ca.pem", string(authority.PEM()))
	if err := os.Rename(files+"/made", files+"/token"); err != nil {
		t.Fatal(err)
	}
	s.told.until("STATUS=a coordinator answers")
	s.stops()
	c.stops()
}

// The same holds for the files that it needs for Consul.
func TestAgentServesWithoutItsTokenForConsul(t *testing.T) {
	dir, files := folderOfSockets(t), t.TempDir()
	s := startService(t, []string{
		"BURSAR_AGENT_CONSUL_ADDRESS=https://" + proc.Address(t), "BURSAR_AGENT_CONSUL_TOKEN_FILE=" + files + "/token", "BURSAR_AGENT_CONSUL_TLS_CA=" + files + "/ca.pem",
	}, nil, "agent", "--socket", filepath.Join(dir, "s"), "--state-dir", filepath.Join(files, "state"))
	s.told.until("READY=1")
	s.logged.until("files cannot be used yet")
	s.stops()
}

// An agent waits for the file system of its state: it would forget its engines without.
func TestAgentWaitsForItsStateDir(t *testing.T) {
	dir, files := folderOfSockets(t), t.TempDir()
	mounted, link := filepath.Join(files, "disk"), filepath.Join(files, "state")
	if err := os.Symlink(mounted, link); err != nil {
		t.Fatal(err)
	}
	s := startService(t, nil, nil, "agent", "--coordinator", "http://"+proc.Address(t), "--socket", filepath.Join(dir, "s"), "--state-dir", link)
	s.told.until("STATUS=starting; agent: state directory")
	s.told.until("STATUS=starting; agent: state directory")
	if err := os.Mkdir(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	s.told.until("READY=1")
	s.stops()
}

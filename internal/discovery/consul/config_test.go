package consul

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/test/certs"
)

func TestConfigurationsThatCannotBeUsedAreRefused(t *testing.T) {
	for _, test := range []struct {
		field  string
		config Config
	}{
		{"address", Config{Address: "consul.example.com:8500/?x"}},
		{"address", Config{Address: "ftp://consul:8500"}},
		{"address", Config{Address: "unix://consul.sock"}},
		{"address", Config{Address: "https://"}},
		{"address", Config{Address: "http://admin:s3cret@consul:8500"}},
		{"scheme", Config{Scheme: "grpc"}},
		{"scheme", Config{Scheme: "http", Address: "https://consul:8501"}},
		{"datacenter", Config{Datacenter: "dc 1"}},
		{"namespace", Config{Namespace: "a/b"}},
		{"partition", Config{Partition: "a&b"}},
		{"tokenFile", Config{Token: "s3cret", TokenFile: "/token"}},
		{"token", Config{Token: "s3cret two"}},
		{"tls.key", Config{TLS: TLS{Cert: "a.pem"}}},
		{"tls.cert", Config{TLS: TLS{Key: "a.key"}}},
		{"service", Config{Service: "bursar_coordinator"}},
		{"service", Config{Service: strings.Repeat("a", 64)}},
		{"waitTime", Config{WaitTime: 1}},
		{"waitTime", Config{WaitTime: 1e15}},
		{"timeout", Config{Timeout: -1}},
	} {
		err := test.config.Validate()
		var wrong *ConfigError
		if !errors.As(err, &wrong) || wrong.Field != test.field || wrong.Want == "" {
			t.Errorf("%+v: error %v: want one about %s", test.config, err, test.field)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error %q tells a secret", err)
		}
	}
	for _, config := range []Config{
		{},
		{Address: "127.0.0.1:8500"},
		{Address: "consul", Scheme: "https"},
		{Address: "https://[::1]:8501"},
		{Address: "unix:///run/consul.sock"},
		{Address: "http://proxy:80/consul"},
		{Token: "0e4b2c9a-7a34-4d0e-9a52-3a3c6c1f2b11", Datacenter: "dc-1", Namespace: "default"},
	} {
		if err := config.Validate(); err != nil {
			t.Errorf("%+v: %v", config, err)
		}
	}
}

// heard is the content of a request.
type heard struct{ Token, Path, Datacenter, Namespace, Partition string }

// listen returns an address, and the requests that arrive there.
func listen(t *testing.T) (string, <-chan heard) {
	t.Helper()
	requests := make(chan heard, 100)
	server := httptest.NewServer(recordRequests(requests))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func recordRequests(requests chan<- heard) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		requests <- heard{r.Header.Get("X-Consul-Token"), r.URL.Path, q.Get("dc"), q.Get("ns"), q.Get("partition")}
		respondWith(w, http.StatusOK, 1, `"127.0.0.1:8300"`)
	})
}

func ask(t *testing.T, client *Client, requests <-chan heard) heard {
	t.Helper()
	if _, err := client.API().Status().Leader(); err != nil {
		t.Fatal(err)
	}
	return <-requests
}

func TestConfigurationGoesBeforeTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	address, requests := listen(t)
	for _, test := range []struct {
		name        string
		environment map[string]string
		config      Config
		want        heard
	}{
		{"nothing but the address", nil, Config{Address: address}, heard{Path: "/v1/status/leader"}},
		{"the environment", map[string]string{
			"CONSUL_HTTP_ADDR": address, "CONSUL_HTTP_TOKEN": "t1", "CONSUL_NAMESPACE": "n1", "CONSUL_PARTITION": "p1",
		}, Config{}, heard{"t1", "/v1/status/leader", "", "n1", "p1"}},
		{"the configuration", map[string]string{
			"CONSUL_HTTP_ADDR": "127.0.0.1:1", "CONSUL_HTTP_TOKEN": "t1", "CONSUL_NAMESPACE": "n1", "CONSUL_PARTITION": "p1", "CONSUL_HTTP_SSL": "true",
		}, Config{Address: address, Token: "t2", Namespace: "n2", Partition: "p2", Datacenter: "d2"}, heard{"t2", "/v1/status/leader", "d2", "n2", "p2"}},
		{"the file of the environment before its token", map[string]string{
			"CONSUL_HTTP_TOKEN": "t1", "CONSUL_HTTP_TOKEN_FILE": file("env", "t3\n"),
		}, Config{Address: address}, heard{Token: "t3", Path: "/v1/status/leader"}},
		{"the token before the file of the environment", map[string]string{
			"CONSUL_HTTP_TOKEN": "t1", "CONSUL_HTTP_TOKEN_FILE": file("env", "t3\n"),
		}, Config{Address: address, Token: "t1"}, heard{Token: "t1", Path: "/v1/status/leader"}},
		{"the file", map[string]string{
			"CONSUL_HTTP_TOKEN": "t1", "CONSUL_HTTP_TOKEN_FILE": file("env", "t3\n"),
		}, Config{Address: address, TokenFile: file("config", "t4\n")}, heard{Token: "t4", Path: "/v1/status/leader"}},
		{"a path before Consul's", nil, Config{Address: address + "/consul"}, heard{Path: "/consul/v1/status/leader"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			if diff := cmp.Diff(test.want, ask(t, open(t, test.config), requests)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConsulBehindAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "consul.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan heard, 1)
	server := &http.Server{Handler: recordRequests(requests)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	if got := ask(t, open(t, Config{Address: "unix://" + path, Token: "t"}), requests); got.Token != "t" {
		t.Errorf("asked %+v: want the token", got)
	}
}

func TestFilesThatCannotBeUsedAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]Config{
		"no token file":     {TokenFile: filepath.Join(dir, "none")},
		"an empty token":    {TokenFile: empty},
		"no CA":             {TLS: TLS{CA: filepath.Join(dir, "none")}},
		"an empty CA":       {TLS: TLS{CA: empty}},
		"no certificate":    {TLS: TLS{Cert: filepath.Join(dir, "none"), Key: empty}},
		"an empty one's":    {TLS: TLS{Cert: empty, Key: empty}},
		"an unreadable one": {TLS: TLS{CA: dir}},
	} {
		_, err := New(config, slog.New(slog.DiscardHandler))
		var wrong *credential.FileError
		if !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, "consul.") {
			t.Errorf("%s: error %v: want a *credential.FileError", name, err)
		}
	}
}

func TestConsulThatAsksForACertificateGetsIt(t *testing.T) {
	dir, authority := t.TempDir(), certs.New(t, "CA")
	ca := authority.File(t, dir, "ca.pem")
	server, serverKey := authority.Issue(t, certs.Request{Name: "consul", Hosts: []string{"server.dc1.consul"}}).Files(t, dir, "server")
	cert, key := authority.Issue(t, certs.Request{Name: "bursar"}).Files(t, dir, "client")
	address, requests := listenTLS(t, server, serverKey, authority.PEM())
	t.Setenv("CONSUL_CLIENT_CERT", cert)
	t.Setenv("CONSUL_CLIENT_KEY", key)
	t.Setenv("CONSUL_CACERT", ca)
	t.Setenv("CONSUL_TLS_SERVER_NAME", "server.dc1.consul")
	ask(t, open(t, Config{Address: address}), requests)

	for name, change := range map[string]func(){
		"no certificate": func() { t.Setenv("CONSUL_CLIENT_CERT", ""); t.Setenv("CONSUL_CLIENT_KEY", "") },
		"another name":   func() { t.Setenv("CONSUL_TLS_SERVER_NAME", "other") },
	} {
		change()
		client := open(t, Config{Address: address})
		_, err := client.API().Status().Leader()
		if err = client.Explain("ask", err); !Refused(err) {
			t.Errorf("%s: error %v: want one that says what to do", name, err)
		}
	}
}

// The folder of CAs that the environment names is read again before each connection.
func TestAFolderOfCAsIsReadAgain(t *testing.T) {
	dir, folder, authority := t.TempDir(), t.TempDir(), certs.New(t, "CA")
	server, serverKey := authority.Issue(t, certs.Request{Name: "consul", Hosts: []string{"127.0.0.1"}}).Files(t, dir, "server")
	cert, key := authority.Issue(t, certs.Request{Name: "bursar"}).Files(t, dir, "client")
	address, requests := listenTLS(t, server, serverKey, authority.PEM())
	t.Setenv("CONSUL_CLIENT_CERT", cert)
	t.Setenv("CONSUL_CLIENT_KEY", key)
	certs.New(t, "another").File(t, folder, "ca.pem")
	t.Setenv("CONSUL_CAPATH", folder)
	client := open(t, Config{Address: address})
	if _, err := client.API().Status().Leader(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("got %v, with another CA", err)
	}
	authority.File(t, folder, "ca.pem")
	ask(t, client, requests)
}

func TestTokenGoesNowhereElse(t *testing.T) {
	elsewhere, requests := listen(t)
	redirecting := httptest.NewServer(http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	client := open(t, Config{Address: redirecting.URL, Token: "s3cret"})
	if _, err := client.API().Status().Leader(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v: want one without the token", err)
	}
	select {
	case got := <-requests:
		t.Errorf("a redirection was followed: %+v", got)
	default:
	}
}

package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bursar/bursar/internal/discovery"
	consulserver "github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/proc"
)

// shared is the server for tests that do not disturb it.
var shared *consulserver.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		for _, line := range os.Environ() { // the environment of the test run
			if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "CONSUL_") {
				_ = os.Unsetenv(name)
			}
		}
		dir, err := os.MkdirTemp("", "discovery")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		servers, err := consulserver.Launch(context.Background(), dir, 1, consulserver.Options{})
		if err != nil {
			panic(err)
		}
		shared = servers[0]
		code := m.Run()
		shared.Kill()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// patience is far longer than anything here takes.
const patience = 20 * time.Second

func open(t *testing.T, config Config) *Client {
	t.Helper()
	if config.Service == "" {
		name, _, _ := strings.Cut(t.Name(), "/")
		config.Service = name
	}
	client, err := New(config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// run runs f until the end of the test, or until the returned function is called.
func run(t *testing.T, f func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f(ctx)
	}()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return end
}

// register registers a coordinator and waits for the first pass.
func register(t *testing.T, client *Client, options RegistrationOptions) (r *Registration, end func()) {
	t.Helper()
	options.Log = slog.New(slog.DiscardHandler)
	r, err := NewRegistration(client, options)
	if err != nil {
		t.Fatal(err)
	}
	end = run(t, r.Run)
	if err := r.Registered(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, end
}

func find(t *testing.T, client *Client) *Finder {
	t.Helper()
	f := NewFinder(client, FinderOptions{Log: slog.New(slog.DiscardHandler)})
	run(t, f.Run)
	return f
}

// finds waits until the finder's list satisfies right.
func finds(t *testing.T, f discovery.Finder, right func([]discovery.Coordinator) bool) {
	t.Helper()
	late := time.After(patience)
	for {
		list, changed := f.Coordinators()
		if right(list) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("still %+v", list)
		}
	}
}

// eventually polls a condition that has no channel.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	proc.Until(t, patience, 10*time.Millisecond, "what has no channel to wait on", condition)
}

// respondWith writes this answer.
func respondWith(w http.ResponseWriter, status, index int, text string) {
	if index > 0 {
		w.Header().Set("X-Consul-Index", fmt.Sprint(index))
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// listenTLS is listen for a server that accepts only clients with a certificate of that authority.
func listenTLS(t *testing.T, cert, key string, authority []byte) (string, <-chan heard) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	requests := make(chan heard, 100)
	server := httptest.NewUnstartedServer(recordRequests(requests))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, requests
}

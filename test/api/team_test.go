// Package api shows what others see of Bursar on the wire: that a call is one trace, from its
// caller to the commit, and that the common tools, buf curl and grpcurl, work with every server,
// over every protocol, with TLS and without.
package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/tracing"
)

// appointed is an election that was decided before it began.
type appointed struct{ leader, self string }

func (appointed) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (a appointed) Campaign(ctx context.Context) (election.Term, error) {
	if a.leader == a.self {
		return term{}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (a appointed) Leader() (election.Leader, <-chan struct{}) {
	return election.Leader{URL: a.leader}, nil
}

// term never ends.
type term struct{}

func (term) Over() <-chan struct{}                          { return nil }
func (term) Announce(context.Context, uint64, string) error { return nil }
func (term) Resign(context.Context) error                   { return nil }

// team is a leader and a standby on one store in memory.
type team struct {
	t               testing.TB
	leader, standby string // URLs
}

// traces opens what a process of its own would have.
func traces(t testing.TB, service string) *tracing.Tracing {
	t.Helper()
	opened := tracing.Open(t.Context(), service, "test", slog.New(slog.DiscardHandler))
	t.Cleanup(func() { opened.Close(context.Background()) })
	return opened
}

// startTeam starts both with a configuration. If it has a certificate they use TLS, and trust each
// other by the CA.
func startTeam(t testing.TB, config coordinator.Config) *team {
	t.Helper()
	scheme := "http://"
	if config.TLS.IsSet() {
		scheme = "https://"
	}
	memory := storetest.NewMemory("shared")
	m := &team{t: t}
	var listeners []net.Listener
	for _, url := range []*string{&m.leader, &m.standby} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, listener)
		*url = scheme + listener.Addr().String()
	}
	for i, name := range []string{"leader", "standby"} {
		config.Listen = listeners[i].Addr().String()
		server, err := coordinator.New(config, coordinator.Dependencies{
			Store: memory.Open(), Version: "test", Tracing: traces(t, name),
			Elect: func(self coordinator.Self) (election.Election, error) { return appointed{m.leader, self.URL}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		background(t, name, func(ctx context.Context) error { return server.Serve(ctx, listeners[i]) })
	}
	for _, url := range []string{m.leader, m.standby} {
		m.ready(url, config.TLS)
	}
	return m
}

// background runs a server until the test ends.
func background(t testing.TB, name string, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// ready waits until a coordinator answers calls.
func (m *team) ready(url string, own credential.ServerTLS) {
	m.t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if own.IsSet() {
		trusts, err := credential.ClientTLS{CA: own.ClientCA}.Open(credential.Options{})
		if err != nil {
			m.t.Fatal(err)
		}
		trusts.Use(transport)
	}
	deadline, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(deadline, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			m.t.Fatal(err)
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if deadline.Err() != nil {
			m.t.Fatalf("%s: not ready: %v", url, err)
		}
	}
}

// startAgent starts the agent of a host that knows the standby alone, and returns its socket.
func (m *team) startAgent() string {
	m.t.Helper()
	dir, err := os.MkdirTemp("", "api") // short: the path of a socket has at most 107 bytes
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	finder, err := discovery.Static([]string{m.standby})
	if err != nil {
		m.t.Fatal(err)
	}
	own := traces(m.t, "agent")
	upstream := client.NewCluster(finder, client.WithoutRetries(), client.WithInterceptors(own.Clients()...))
	m.t.Cleanup(upstream.Close)
	socket := filepath.Join(dir, "agent.sock")
	server, err := agent.New(agent.Config{
		HostID: "host-1", Socket: socket, StateDir: filepath.Join(dir, "state"), Tick: 100 * time.Millisecond,
	}, agent.Deps{Allocations: upstream.Allocations(), Hosts: upstream.Hosts(), Version: "test", Tracing: own})
	if err != nil {
		m.t.Fatal(err)
	}
	background(m.t, "agent", server.Run)
	select {
	case <-server.Ready():
	case <-time.After(30 * time.Second):
		m.t.Fatal("the agent is not ready")
	}
	return socket
}

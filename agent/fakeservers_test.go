package agent_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/discovery"
)

// fakeServers are several coordinators with the same ledger, and the finder that knows them.
type fakeServers struct {
	books *coordinator
	all   []*fakeServer

	mu      sync.Mutex
	list    []discovery.Coordinator // guarded by mu
	changed chan struct{}           // guarded by mu
}

// fakeServer is one of them.
type fakeServer struct {
	books  *coordinator
	server *httptest.Server
	calls  atomic.Int64 // but for those for a sign of life

	mu     sync.Mutex
	acts   http.Handler  // guarded by mu: what it does with a call
	frozen chan struct{} // closed at the end

	isFrozen atomic.Bool
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	acts := s.acts
	s.mu.Unlock()
	if r.URL.Path != "/healthz" {
		s.calls.Add(1)
		s.books.do(func() {}) // who waits for a change may wait for this
	}
	acts.ServeHTTP(&gate{ResponseWriter: w, fake: s, over: r.Context().Done()}, r)
}

// gate lets answers through as long as the server is not frozen.
type gate struct {
	http.ResponseWriter

	fake *fakeServer
	over <-chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	if g.fake.isFrozen.Load() {
		select {
		case <-g.fake.frozen:
		case <-g.over:
		}
	}
	return g.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (g *gate) Unwrap() http.ResponseWriter { return g.ResponseWriter }

func (s *fakeServer) does(acts http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts = acts
}

// refuse answers that another coordinator leads.
func (s *fakeServer) refuse() {
	s.does(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeUnavailable, errors.New("I do not lead")))
	}))
}

// die cuts every connection and takes no new ones.
func (s *fakeServer) die() {
	s.does(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	s.server.CloseClientConnections()
}

// freeze answers nothing any more, and nothing of what is under way.
func (s *fakeServer) freeze() {
	s.isFrozen.Store(true)
	s.does(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-s.frozen:
		case <-r.Context().Done():
		}
	}))
}

// passOn forwards everything to another one.
func (s *fakeServer) passOn(t *testing.T, to *fakeServer) {
	t.Helper()
	u, err := url.Parse(to.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport, proxy.ErrorLog = transport, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.does(proxy)
}

// lead makes one of them the leader of a new epoch; its ledger is empty, and the others refuse.
func (s *fakeServers) lead(n int) {
	s.books.do(func() {
		s.books.epoch++
		s.books.host, s.books.heardAll = nil, false
	})
	s.all[n].does(s.books.handler)
}

// name makes one of them the one that the finder says leads; -1: none. The finder knows all.
func (s *fakeServers) name(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
	for i, fake := range s.all {
		s.list = append(s.list, discovery.Coordinator{URL: fake.server.URL, Leads: i == n})
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Coordinators implements discovery.Finder.
func (s *fakeServers) Coordinators() ([]discovery.Coordinator, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, s.changed
}

func (s *fakeServers) calls() (sum int64) {
	for _, fake := range s.all {
		sum += fake.calls.Load()
	}
	return sum
}

// runAmong starts an agent with n coordinators, of which the first one leads and is named.
func runAmong(t *testing.T, n int) *subject {
	t.Helper()
	s := newSubject(t)
	s.servers = &fakeServers{books: s.coordinator, changed: make(chan struct{})}
	for range n {
		fake := &fakeServer{books: s.coordinator, frozen: make(chan struct{})}
		fake.refuse()
		fake.server = httptest.NewServer(fake)
		t.Cleanup(func() {
			close(fake.frozen)
			fake.server.Close()
		})
		s.servers.all = append(s.servers.all, fake)
	}
	s.servers.lead(0)
	s.servers.name(0)
	s.start()
	return s
}

package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/internal/discovery/consul"
	consulserver "github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/proc"
)

// shared is the server of the tests that do nothing to it.
var shared *consulserver.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "election")
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
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:errcheck,forcetypeassert // it is one
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// patience is far longer than any step here: to reach it means that an event does not happen at
// all.
const patience = 20 * time.Second

// ttl is the TTL of coordinators whose terms shall expire.
const ttl = 2 * time.Second

// longTTL is the TTL of all others: their terms do not expire on a busy machine or with a slow
// Consul.
const longTTL = time.Minute

// brief makes the terms of a coordinator expire soon.
func brief(_ *consul.Config, o *Options) { o.TTL = ttl }

// The ids of two stores, as stores make them.
const (
	storeOne = "aaaabbbbccccddddeeeeffff22"
	storeTwo = "gggghhhhiiiijjjjkkkkllll33"
)

// candidate is one coordinator of a test.
type coordinator struct {
	*ConsulElection
	log  *proc.Output
	dead atomic.Bool // it does not renew any more
	end  func()      // ends Run, and waits for that
}

// newCandidate starts a coordinator of the test's own cluster.
func newCandidate(t *testing.T, address, id string, change ...func(*consul.Config, *Options)) *coordinator {
	t.Helper()
	c := &coordinator{log: new(proc.Output)}
	log := slog.New(slog.NewTextHandler(c.log, nil))
	config := consul.Config{Address: address, Service: strings.ReplaceAll(t.Name(), "_", "-")[:min(60, len(t.Name()))], Timeout: 5 * time.Second}
	config.Service = strings.Map(func(r rune) rune {
		if r == '/' || r == '_' {
			return '-'
		}
		return r
	}, config.Service)
	options := Options{ID: id, URL: "http://" + id + ".example.com:7070", TTL: longTTL, Log: log, Alive: func(context.Context) error {
		if c.dead.Load() {
			return errors.New("the loop stands still")
		}
		return nil
	}}
	for _, f := range change {
		f(&config, &options)
	}
	client, err := consul.New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	if c.ConsulElection, err = Consul(client, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
		client.Close()
	}()
	c.end = func() { cancel(); <-done }
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			t.Logf("%s said:\n%s", id, c.log)
		}
	})
	return c
}

// lead campaigns until the coordinator leads, and announces it. Like a coordinator it campaigns
// again if the term has ended by then: a Consul that has just returned may end a new session.
func (c *coordinator) lead(t *testing.T, epoch uint64) Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		term, err := c.Campaign(ctx)
		if err != nil {
			t.Fatalf("%s does not lead: %v", c.options.ID, err)
		}
		switch err := term.Announce(ctx, epoch, storeOne); {
		case err == nil:
			return term
		case !errors.Is(err, errOver):
			t.Fatal(err)
		}
		if err := term.Resign(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// leadKnownTo leads until a coordinator knows it. If a brief term expires before that, it leads
// again.
func (c *coordinator) leadKnownTo(t *testing.T, other *coordinator) Term {
	t.Helper()
	for {
		term := c.lead(t, 1)
		for !isOver(term) {
			leader, changed := other.Leader()
			if leader == (Leader{URL: c.options.URL, Epoch: 1, StoreID: storeOne}) {
				return term
			}
			select {
			case <-changed:
			case <-term.Over():
			case <-time.After(patience):
				t.Fatalf("%s knows %+v to lead: want %s", other.options.ID, leader, c.options.URL)
			}
		}
		if err := term.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// rule leads in the background, like a coordinator: term after term.
func (c *coordinator) rule(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for epoch := uint64(10); ; epoch++ {
			term, err := c.Campaign(ctx)
			if err != nil {
				return
			}
			if err := term.Announce(ctx, epoch, storeOne); err == nil {
				select {
				case <-term.Over():
				case <-ctx.Done():
				}
			}
			_ = term.Resign(ctx) // what it could not give up is taken back
		}
	}()
}

// campaign campaigns in the background.
func (c *coordinator) campaign(t *testing.T) <-chan Term {
	t.Helper()
	won := make(chan Term, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		if term, err := c.Campaign(ctx); err == nil {
			won <- term
		}
	}()
	return won
}

// await fails the test if it has to wait for too long.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
	panic("unreachable")
}

// knows waits until a coordinator knows that leader.
func (c *coordinator) knows(t *testing.T, want Leader) {
	t.Helper()
	c.awaitLeader(t, want, func(leader Leader) bool { return leader == want })
}

// knowsURL waits until a coordinator knows that leader, in any epoch.
func (c *coordinator) knowsURL(t *testing.T, want string) {
	t.Helper()
	c.awaitLeader(t, Leader{URL: want}, func(leader Leader) bool { return leader.URL == want && leader.Epoch > 0 })
}

func (c *coordinator) awaitLeader(t *testing.T, want Leader, right func(Leader) bool) {
	t.Helper()
	for {
		leader, changed := c.Leader()
		if right(leader) {
			return
		}
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatalf("%s knows %+v to lead: want %+v", c.options.ID, leader, want)
		}
	}
}

func isOver(term Term) bool {
	select {
	case <-term.Over():
		return true
	default:
		return false
	}
}

func admin(t *testing.T, s *consulserver.Server) *api.Client {
	t.Helper()
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// holder returns the session that holds the key.
func holder(t *testing.T, s *consulserver.Server, c *coordinator) string {
	t.Helper()
	pair, _, err := admin(t, s).KV().Get(c.key(), nil)
	if err != nil || pair == nil {
		t.Fatalf("%s: %v, %v", c.key(), pair, err)
	}
	return pair.Session
}

// front is a proxy between a coordinator and Consul, and can answer in Consul's place.
type front struct {
	URL string

	serve  http.HandlerFunc
	answer atomic.Pointer[http.HandlerFunc] // nil: Consul answers
	mu     sync.Mutex
	turned chan struct{} // closed when answer changes, so that calls that Consul holds end
}

func inFrontOf(t *testing.T, s *consulserver.Server) *front {
	t.Helper()
	target, err := url.Parse(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{turned: make(chan struct{})}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	f.serve = func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		turned := f.turned
		f.mu.Unlock()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-turned:
				cancel()
			case <-ctx.Done():
			}
		}()
		r = r.WithContext(ctx)
		if answer := f.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}
	server := httptest.NewServer(f.serve)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(func() {
		f.answerWith(nil)
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	f.URL = server.URL
	return f
}

// answerWith replaces the handler; nil: Consul.
func (f *front) answerWith(answer http.HandlerFunc) {
	if answer == nil {
		f.answer.Store(nil)
	} else {
		f.answer.Store(&answer)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.turned)
	f.turned = make(chan struct{})
}

// cutConnection ends every connection without an answer.
func cutConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// respondWith answers every request with this.
func respondWith(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// neverAnswer never answers. A server notices that its client has gone only after it has read the
// request.
func neverAnswer(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// nonsense returns handlers whose answers a healthy Consul never gives, by name.
func nonsense() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"cut":     cutConnection,
		"500":     respondWith(http.StatusInternalServerError, "text/plain", "No cluster leader"),
		"HTML":    respondWith(http.StatusOK, "text/html", "<html><body>Please log in</body></html>"),
		"empty":   respondWith(http.StatusOK, "application/json", "[]"),
		"null":    respondWith(http.StatusOK, "application/json", "null"),
		"404":     respondWith(http.StatusNotFound, "text/plain", ""),
		"silence": neverAnswer,
	}
}

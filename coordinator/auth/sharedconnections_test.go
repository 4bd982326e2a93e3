package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
)

// overHTTP2 serves a handler over HTTP/2, and returns a function that makes calls, and the number
// of connections.
func overHTTP2(t *testing.T, l *Limits, handler http.HandlerFunc) (call func(path, as, body string) (int, error), connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, ended := l.Connections.Start(r)
		defer ended()
		handler(w, r)
	}))
	server.Listener = l.Connections.Listen(server.Listener)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		connections.Add(1)
		return l.ConnContext(ctx, conn)
	}
	server.Start()
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{Protocols: server.Config.Protocols}}
	t.Cleanup(client.CloseIdleConnections)
	return func(path, as, body string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("As", as)
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}, connections
}

// The connection of an agent or a coordinator carries other requests beside the refused one.
func TestARequestThatIsTooLargeDoesNotEndItsConnectionOfHTTP2(t *testing.T) {
	limits := &requestLimits{
		next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), time: &Timeouts{Body: time.Minute, Write: time.Minute}, largest: func(string) int64 { return 10 },
		refuse: connect.NewErrorWriter(), code: func(err error) error { return connect.NewError(connect.CodeInvalidArgument, err) },
	}
	call, connections := overHTTP2(t, NewLimits(usualLimits()), limits.ServeHTTP)
	for range 3 {
		if code, err := call("/", "", "far too much"); err != nil || code != http.StatusBadRequest {
			t.Errorf("a large request: %d, %v", code, err)
		}
		if code, err := call("/", "", "little"); err != nil || code != http.StatusOK {
			t.Errorf("a small request: %d, %v", code, err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections; want 1", n)
	}
}

// A caller that ignores refusals loses its own connection. If an agent or a coordinator has
// forwarded the calls, only the next call fails, and the connection stays for other callers.
func TestConnectionsOfAgentsAndCoordinatorsOutliveTheirCallers(t *testing.T) {
	standby := identity.Actor{Name: "standby", Role: identity.Coordinator}
	agent := identity.Actor{Name: "agent-h1", Role: identity.Agent, Host: "h1"}
	submitter := identity.Actor{Name: "gateway", Role: identity.Submitter}
	admin := identity.Local()
	user := func(name, host string) identity.Actor {
		return identity.Actor{Name: name, Role: identity.Submitter, Users: []string{name}, Host: host}
	}
	for name, test := range map[string]struct {
		maker, many, other identity.Actor
		shared             bool
	}{
		"passed on by a standby":                     {standby, user("mallory", ""), user("alice", ""), true},
		"passed on by a standby without an identity": {admin, user("mallory", ""), user("alice", ""), true},
		"a standby's own":                            {standby, standby, user("alice", ""), true},
		"passed on by an agent":                      {agent, user("mallory@h1", "h1"), agent, true},
		"a caller's own":                             {submitter, submitter, submitter, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLimits(usualLimits())
			callers := map[string]*Caller{"many": {Maker: test.maker, Actor: test.many}, "other": {Maker: test.maker, Actor: test.other}}
			for _, c := range callers {
				c.account = accountOf(c)
				c.limits = l.Callers
			}
			if name == "passed on by an agent" { // all callers of its host count together
				callers["other"].account = admission.Caller{ID: "caller/other", Name: "other"}
			}
			call, connections := overHTTP2(t, l, func(w http.ResponseWriter, r *http.Request) {
				switch c := callers[r.Header.Get("As")]; r.URL.Path {
				case "/refused":
					l.refuse(w, r, c, admission.Refusal(errors.New("too many"), time.Second))
				case "/denied":
					l.serveDenied(w, r, c, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
				}
			})
			if _, err := call("/", "other", ""); err != nil {
				t.Fatal(err)
			}
			for range maxNameless { // refusals that the caller does not take
				if _, err := l.nameless.Begin(callers["many"].account); err != nil {
					t.Fatal(err)
				}
			}
			for range maxRefused {
				if _, err := l.refusals.Begin(callers["many"].account); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range []string{"/refused", "/denied"} {
				before := connections.Load()
				if code, err := call(path, "many", ""); test.shared && err == nil {
					t.Errorf("%s: one refusal too many is answered with %d", path, code)
				}
				code, err := call(path, "other", "")
				if kept := connections.Load() == before; kept != test.shared && path == "/refused" {
					t.Errorf("%s: the connection goes on: %v; want %v", path, kept, test.shared)
				}
				if test.shared && (err != nil || code != http.StatusTooManyRequests || connections.Load() != 1) {
					t.Errorf("%s: another caller of the connection: %d, %v, over connection %d", path, code, err, connections.Load())
				}
			}
		})
	}
}

package socket

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/subuid"
)

// pipes is a listener within a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// newServer is a server of a handler, without a place to listen.
func newServer(handler http.Handler) *Server {
	return New(Options{
		HostID: "h1", Limits: Limits(50, 200, 64), Refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "Refused."}, []string{"reason"}),
		Handler: func(context.Context, bool) http.Handler { return handler }, Log: slog.New(slog.DiscardHandler),
	})
}

// dial serves an API in a bubble, with one procedure that reads its request, and gives f a
// connection to it.
func dial(t *testing.T, f func(conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /bursar.v1.AllocationService/Get", func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
		s := newServer(mux)
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		s.listeners = []net.Listener{listener}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx) }()
		near, far := net.Pipe()
		listener.conns <- far
		f(near)
		_ = near.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// cutOff reads until the other side closes, and returns how long that took.
func cutOff(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	return time.Since(began)
}

func TestHalfOpenConnectionsAreCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		says string
		want time.Duration
	}{
		"says nothing":         {"", headerTimeout},
		"stops in the header":  {"POST /bursar.v1.AllocationService/Get HTTP/1.1\r\nHost: a", headerTimeout},
		"stops before the end": {"POST /bursar.v1.AllocationService/Get HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", bodyTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			dial(t, func(conn net.Conn) {
				if _, err := io.WriteString(conn, test.says); err != nil {
					t.Fatal(err)
				}
				if got := cutOff(t, conn); got < test.want || got > test.want+time.Second {
					t.Errorf("cut off after %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	dial(t, func(conn net.Conn) {
		if _, err := io.WriteString(conn, "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if got := cutOff(t, conn); got < idleTimeout || got > idleTimeout+time.Second {
			t.Errorf("closed after %v, want %v", got, idleTimeout)
		}
	})
}

func TestPeerThatDoesNotReadIsLetGo(t *testing.T) {
	dial(t, func(conn net.Conn) {
		if _, err := io.WriteString(conn, "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTimeout + time.Second)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("not closed: %v", err)
		}
	})
}

func TestAStreamMayBeQuietForLongerThanAWriteMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		near, far := net.Pipe()
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{ReadHeaderTimeout: headerTimeout, Protocols: protocols, Handler: newServer(nil).limited(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				for range 2 {
					_, _ = io.WriteString(w, "event")
					_ = http.NewResponseController(w).Flush()
					select {
					case <-time.After(2 * writeTimeout):
					case <-r.Context().Done():
					}
				}
			},
		))}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		listener.conns <- far
		transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "eventevent" {
			t.Errorf("%q, %v: want both events", text, err)
		}
	})
}

func TestTrustIsByNameOrNumber(t *testing.T) {
	p := newPeers("h1", 77, []string{"hadoop", "1001"})
	p.users.Charged = func(uid uint32, hasName bool, _ subuid.Names) (string, bool, error) {
		if uid != 100007 || hasName {
			return "", false, nil
		}
		return "alice", true, nil
	}
	names := map[uint32]string{1000: "alice", 1001: "ecm", 1002: "hadoop", 0: "root", 77: "bursar"}
	p.users.UIDOf = nobodysName
	lookups := 0
	p.users.NameOf = func(_ context.Context, uid uint32) (string, error) {
		lookups++
		if names[uid] == "" {
			return "", osuser.ErrNoUser
		}
		return names[uid], nil
	}
	for uid, want := range map[uint32]struct {
		name    string
		trusted bool
	}{
		0: {"root@h1", true}, 77: {"bursar@h1", true}, 1000: {"alice@h1", false}, 1001: {"ecm@h1", true},
		1002: {"hadoop@h1", true}, 1003: {"1003@h1", false}, 1004: {"1004@h1", false},
		100007: {"100007@h1", false},
	} {
		for range 2 {
			c := callerOf(t, p, uid)
			if c.Actor.Name != want.name || c.Trusted != want.trusted || c.Actor.Anyone != want.trusted || c.Actor.Priority != want.trusted ||
				c.Actor.Admin || c.Actor.Role != identity.Submitter || c.Actor.Host != "h1" ||
				uid == 100007 && (c.account.ID != "user/alice" || c.Actor.Owner != "alice" || c.Actor.ChargedName() != "alice@h1") ||
				uid != 100007 && c.Actor.Owner != "" {
				t.Errorf("uid %d: %+v", uid, c.Actor)
			}
		}
	}
	if lookups != 8 {
		t.Errorf("%d lookups for 8 users", lookups)
	}
}

package coordinator

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/admission"
)

// gateway is a listener whose connections all come from one address.
type gateway struct{ net.Listener }

func (gateway) Accept() (net.Conn, error) { return &fromGateway{}, nil }

type fromGateway struct{ net.Conn }

func (*fromGateway) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}
}

func (*fromGateway) Close() error { return nil }

// Where nobody has an identity, a gateway in front of many callers must not cost those that wait their connections.
func TestRequestsOfABelievedAddressKeepTheirConnections(t *testing.T) {
	limits := Config{}.WithDefaults().Limits
	e := newEntrance(&limits, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	closed := 0
	e.connections = admission.NewConnections(admission.ConnectionLimits{
		Unknown: 8, Address: 2, Known: 8, Caller: 4, First: time.Minute, Nameless: time.Minute,
	}, admission.ConnectionOptions{Refused: func() { closed++ }, Log: slog.New(slog.DiscardHandler)})
	listener := e.connections.Listen(gateway{})
	request := func() error {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(e.connections.Context(r.Context(), conn))
		e.connections.Begin(r.Context()) // and it never ends
		c := &caller{maker: remote(), actor: remote(), peer: conn.RemoteAddr().String(), limits: e.callers}
		c.account = accountOf(c)
		_, err = e.begin(c, r)
		return err
	}
	for i := range 4 {
		if err := request(); err != nil || closed != 0 {
			t.Fatalf("request %d: %v, %d connections were closed", i, err, closed)
		}
	}
	if err := request(); admission.TryAgain(err) == 0 {
		t.Errorf("one more than one address may have: %v: want it refused", err)
	}
}

// Whoever has one address of a network of IPv6, or of loopback, has them all: its calls count together, however it spreads them.
func TestCallersWithoutAnIdentityCountByWhatTheirAddressGivesThem(t *testing.T) {
	account := func(peer string) string { return accountOf(&caller{maker: remote(), actor: remote(), peer: peer}).ID }
	for _, peers := range [][2]string{
		{"[2001:db8::1]:5", "[2001:db8::ffff:2]:6"}, {"127.0.0.1:5", "[::1]:6"}, {"[::ffff:10.0.0.1]:5", "10.0.0.1:6"},
	} {
		if a, b := account(peers[0]), account(peers[1]); a != b {
			t.Errorf("%s counts as %s, %s as %s", peers[0], a, peers[1], b)
		}
	}
	for _, peers := range [][2]string{{"[2001:db8::1]:5", "[2001:db8:0:1::1]:5"}, {"10.0.0.1:5", "10.0.0.2:5"}, {"@", "pipe"}} {
		if a, b := account(peers[0]), account(peers[1]); a == b {
			t.Errorf("%s and %s count as %s", peers[0], peers[1], a)
		}
	}
}

package auth

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// usualLimits returns the default limits of a coordinator.
func usualLimits() LimitsOptions {
	return LimitsOptions{
		Waiting: 4096, MessageBytes: 1 << 20, SyncBytes: 16 << 20, ProbeTime: 5 * time.Second, Page: func(any) int { return 0 },
		Code: func(err error) error { return err }, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	}
}

// gateway is a listener whose connections all come from one address.
type gateway struct{ net.Listener }

func (gateway) Accept() (net.Conn, error) { return &fromGateway{}, nil }

type fromGateway struct{ net.Conn }

func (*fromGateway) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}
}

func (*fromGateway) Close() error { return nil }

// If there are no identities, a gateway in front of many callers must not cost waiting callers
// their connections.
func TestRequestsOfABelievedAddressKeepTheirConnections(t *testing.T) {
	e := NewLimits(usualLimits())
	closed := 0
	e.Connections = admission.NewConnections(admission.ConnectionLimits{
		Unknown: 8, Address: 2, Known: 8, Caller: 4, First: time.Minute, Nameless: time.Minute,
	}, admission.ConnectionOptions{Refused: func() { closed++ }, Log: slog.New(slog.DiscardHandler)})
	listener := e.Connections.Listen(gateway{})
	request := func() error {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(e.Connections.Context(r.Context(), conn))
		e.Connections.Begin(r.Context()) // and it never ends
		c := &Caller{Maker: remote(), Actor: remote(), Peer: conn.RemoteAddr().String(), limits: e.Callers}
		c.account = accountOf(c)
		_, err = e.countCall(c, r)
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

// Connections of a user, and of all subordinate ids of that user, count together.
func TestConnectionsOfSubordinateIDsCountOnTheirOwner(t *testing.T) {
	e := NewLimits(usualLimits())
	closed := 0
	e.Connections = admission.NewConnections(admission.ConnectionLimits{
		Unknown: 8, Address: 8, Known: 100, Caller: 4, First: time.Minute, Nameless: time.Minute,
	}, admission.ConnectionOptions{Refused: func() { closed++ }, Log: slog.New(slog.DiscardHandler)})
	listener := e.Connections.Listen(gateway{})
	for id := range 8 {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(e.Connections.Context(r.Context(), conn))
		e.Connections.Begin(r.Context()) // and it never ends
		user := strconv.Itoa(100000 + id)
		actor := identity.Actor{Name: identity.LocalPrefix + user, Users: []string{user}, Owner: "mallory", Role: identity.Submitter}
		c := &Caller{Maker: actor, Actor: actor, Peer: "127.0.0.1:4000", limits: e.Callers}
		c.account = (peerCreds{}).accountOf(c)
		if _, err := e.countCall(c, r); (err == nil) != (id < 4) {
			t.Errorf("the connection of id %d: %v", id, err)
		}
	}
}

// A caller with one address of an IPv6 network, or of loopback, has all of its addresses: its calls
// count together, from any of them.
func TestCallersWithoutAnIdentityCountByWhatTheirAddressGivesThem(t *testing.T) {
	account := func(peer string) string { return accountOf(&Caller{Maker: remote(), Actor: remote(), Peer: peer}).ID }
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

// Pages count from their request on. Otherwise thousands of pages that are never sent would be
// built at once.
func TestAPageCountsBeforeItIsMade(t *testing.T) {
	const pageMost = 4<<20 + 64<<10
	o := usualLimits()
	o.Page = func(request any) int {
		asked, _ := request.(*bursarv1.AllocationServiceListRequest)
		return min(pageMost, int(asked.GetPageSize())*convert.MaxAllocationSize)
	}
	e := NewLimits(o)
	made, release := make(chan struct{}), make(chan struct{})
	list := e.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		made <- struct{}{}
		<-release
		return connect.NewResponse(&bursarv1.AllocationServiceListResponse{}), nil
	})
	call := func(name string, size int32) (*Caller, error) {
		c := &Caller{account: admission.Caller{ID: name, Name: name}, limits: e.Callers}
		_, err := list(WithCaller(t.Context(), c), connect.NewRequest(&bursarv1.AllocationServiceListRequest{PageSize: size}))
		return c, err
	}
	const most = callerAnswers / pageMost
	ended := make(chan *Caller, most+2)
	begin := func(name string, size int32) {
		go func() {
			c, err := call(name, size)
			if err != nil {
				t.Error(err)
			}
			ended <- c
		}()
		<-made
	}
	for range most {
		begin("alice", 1000)
	}
	if _, err := call("alice", 1000); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("one page more than may be sent: %v", err)
	}
	begin("bob", 1000)
	begin("alice", 100) // there is room for less
	close(release)
	for range most + 2 {
		(<-ended).answerSent()
	}
	for range 100 { // they are empty: none counts any more, nor does a small page
		begin("alice", 1)
		(<-ended).answerSent()
	}
}

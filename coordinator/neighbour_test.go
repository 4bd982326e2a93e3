package coordinator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/identity"
)

func TestTheKernelTellsWhoseConnectionItIs(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		listener, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		to := net.JoinHostPort("127.0.0.1", port)
		if listen == "[::1]:0" {
			to = net.JoinHostPort("::1", port)
		}
		client, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		own, other := netip.MustParseAddrPort(server.LocalAddr().String()), netip.MustParseAddrPort(server.RemoteAddr().String())
		if uid, err := socketOwner(own, other); err != nil || uid != uint32(os.Geteuid()) {
			t.Errorf("%s: uid %d, %v: want this test's", listen, uid, err)
		}
		// A socket that its process has let go of is nobody's: the kernel shows root for it.
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if uid, err := socketOwner(own, other); err == nil {
			t.Errorf("%s: uid %d of a connection that was closed: want an error", listen, uid)
		}
	}
}

func TestOtherUsersOfTheMachineAreThemselves(t *testing.T) {
	const own = 990
	for uid, want := range map[uint32]identity.Actor{
		0:    identity.Local(),
		own:  identity.Local(),
		1000: {Name: "local:alice", Users: []string{"alice"}, Role: identity.Submitter},
	} {
		asked := 0
		n := neighbours{
			self: own, name: func(uint32) string { return "alice" },
			table: func(netip.AddrPort, netip.AddrPort) (uint32, error) { asked++; return uid, nil },
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = "127.0.0.1:4711"
		ctx := context.WithValue(withNeighbour(t.Context(), nil), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}))
		for range 2 {
			got, err := n.of(r.WithContext(ctx))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("uid %d: %v %s", uid, err, diff)
			}
		}
		if asked != 1 {
			t.Errorf("the kernel was asked %d times about one connection", asked)
		}
	}
	n := neighbours{table: func(netip.AddrPort, netip.AddrPort) (uint32, error) { return 0, errors.New("not there") }}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}))
	if _, err := n.of(r.WithContext(ctx)); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a connection of nobody: %v", err)
	}
}

package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/localuser"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/subuid"
)

// If a user closes a connection and another user gets its port, the connection must not count as
// the other's, under any wrapper of the connection.
func TestConnectionThatItsPeerHasClosedIsNobodys(t *testing.T) {
	counted := admission.NewConnections(admission.ConnectionLimits{Unknown: 8, Address: 8, Known: 8, Caller: 8, First: time.Minute, Nameless: time.Minute}, admission.ConnectionOptions{Refused: func() {}, Log: slog.New(slog.DiscardHandler)})
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"as it is": func(l net.Listener) net.Listener { return l },
		"counted":  counted.Listen,
		"TLS":      func(l net.Listener) net.Listener { return tls.NewListener(l, &tls.Config{}) },
		"TLS over one that is counted": func(l net.Listener) net.Listener {
			return tls.NewListener(counted.Listen(l), &tls.Config{})
		},
	} {
		t.Run(name, func(t *testing.T) { closedIsNobodys(t, wrap) })
	}
}

func closedIsNobodys(t *testing.T, wrap func(net.Listener) net.Listener) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener = wrap(listener)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	known := peerCreds{owner: func(netip.AddrPort, netip.AddrPort) (uint32, error) { return 0, nil }}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = client.LocalAddr().String()
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, server.LocalAddr())
	if _, err := known.actorOf(r.WithContext(withPeerCred(ctx, server))); err != nil {
		t.Errorf("while it is open: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if actor, err := known.actorOf(r.WithContext(withPeerCred(ctx, server))); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("after that: %+v, %v", actor, err)
	}
}

// usersOf returns the users of a machine with ranges and accounts, and records lookups.
func usersOf(ranges *subuid.File, accounts map[uint32]string, asked func()) *localuser.Users {
	return localuser.New(localuser.Source{
		NameOf: func(_ context.Context, uid uint32) (string, error) {
			if asked(); accounts[uid] == "" {
				return "", osuser.ErrNoUser
			}
			return accounts[uid], nil
		},
		NameOfFile: func(uint32) (string, error) { return "", osuser.ErrNoUser },
		UIDOf: func(context.Context, string) (uint32, error) {
			asked()
			return 0, osuser.ErrNoUser
		},
		Charged: ranges.Charged,
	}, localuser.Options{})
}

func TestOtherUsersOfTheMachineAreThemselves(t *testing.T) {
	const own = 990
	file := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(file, []byte("alice:100000:65536\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ranges := subuid.New(file, time.Now)
	for uid, want := range map[uint32]identity.Actor{
		0:      identity.Local(),
		own:    identity.Local(),
		1000:   {Name: "local:alice", Users: []string{"alice"}, Role: identity.Submitter},
		100007: {Name: "local:100007", Users: []string{"100007"}, Role: identity.Submitter, Owner: "alice"},
	} {
		asked := 0
		n := peerCreds{
			self: own, users: usersOf(ranges, map[uint32]string{1000: "alice"}, func() {}),
			owner: func(netip.AddrPort, netip.AddrPort) (uint32, error) { asked++; return uid, nil },
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = "127.0.0.1:4711"
		ctx := context.WithValue(withPeerCred(t.Context(), nil), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}))
		for range 2 {
			got, err := n.actorOf(r.WithContext(ctx))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("uid %d: %v %s", uid, err, diff)
			}
			// All ids of a user within namespaces count as one, and act only for themselves.
			if id := n.accountOf(&Caller{Actor: got, Maker: got}).ID; uid == 100007 && id != "caller/local:alice" || uid == 1000 && id != "caller/local:alice" {
				t.Errorf("uid %d counts as %s", uid, id)
			}
		}
		if asked != 1 {
			t.Errorf("the kernel was asked %d times about one connection", asked)
		}
	}
	n := peerCreds{owner: func(netip.AddrPort, netip.AddrPort) (uint32, error) { return 0, errors.New("not there") }}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}))
	if _, err := n.actorOf(r.WithContext(ctx)); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a connection of nobody: %v", err)
	}
}

// Another coordinator forwards calls of users of its machine, and names the users to charge.
func TestUsersOfAnotherMachineAreNotChargedHere(t *testing.T) {
	n := peerCreds{}
	for name, c := range map[string]struct{ owner, charged string }{"100007": {"alice", "alice"}, "100008": {"", "100008"}, "alice": {"", "alice"}} {
		user := identity.Actor{Name: identity.LocalPrefix + name, Users: []string{name}, Role: identity.Submitter, Owner: c.owner}
		if got, want := n.accountOf(&Caller{Actor: user, Maker: user}).ID, "caller/local:"+c.charged; got != want {
			t.Errorf("%s of this machine counts as %s, want %s", name, got, want)
		}
		standby := identity.Actor{Name: "rm-2", Role: identity.Coordinator}
		if got, want := n.accountOf(&Caller{Actor: user, Maker: standby}).ID, "caller/rm-2/local:"+c.charged; got != want {
			t.Errorf("%s of another machine counts as %s, want %s", name, got, want)
		}
		user.Host = "h1" // and has come there through an agent
		if got, want := n.accountOf(&Caller{Actor: user, Maker: standby}).ID, "host/h1"; got != want {
			t.Errorf("%s of a host counts as %s, want %s", name, got, want)
		}
	}
}

// A flood of connections of ids whose owner is a number is no flood of lookups: the kernel
// identifies the users of connections, and names are looked up at a limited rate. Until an id is
// known, its requests are refused: the owner of the range is charged neither for an account nor for
// its connections.
func TestAFloodOfConnectionsIsNoFloodOfLookups(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(file, []byte("1001:100000:65536\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		asked, uid := 0, uint32(0)
		n := peerCreds{
			self: 990, users: usersOf(subuid.New(file, time.Now), map[uint32]string{1001: "mallory", 165000: "carol"}, func() { asked++ }),
			owner: func(netip.AddrPort, netip.AddrPort) (uint32, error) { return uid, nil },
		}
		request := func(id uint32) (identity.Actor, error) {
			uid = id
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.RemoteAddr = "127.0.0.1:4711"
			return n.actorOf(r.WithContext(context.WithValue(withPeerCred(t.Context(), nil), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}))))
		}
		for uid = 100000; uid < 160000; uid++ {
			if c := n.connectionOwner(fromHere{}); c.ID != "user/range:1001" {
				t.Fatalf("a connection counts on %+v", c)
			}
		}
		if asked != 0 {
			t.Errorf("%d lookups for connections", asked)
		}
		for id := uint32(100000); id < 101000; id++ {
			actor, err := request(id)
			if err == nil && actor.Owner != "mallory" || err != nil && (connect.CodeOf(err) != connect.CodeUnavailable || actor.Owner != "") {
				t.Fatalf("%+v, %v", actor, err)
			}
		}
		if most := localuser.Burst/2 + 2; asked != most {
			t.Errorf("%d lookups for 1000 ids: want %d", asked, most)
		}
		if actor, err := request(165000); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("an account in the range is %+v, %v", actor, err)
		}
		time.Sleep(localuser.PacedFor)
		if actor, err := request(165000); err != nil || actor.Name != "local:carol" || actor.Owner != "" {
			t.Errorf("an account in the range is %+v, %v", actor, err)
		}
		uid = 165000
		if c := n.connectionOwner(fromHere{}); c.ID != "user/carol" {
			t.Errorf("its connection counts on %+v", c)
		}
	})
}

// fromHere is a connection within this machine.
type fromHere struct{ net.Conn }

func (fromHere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }

func (fromHere) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070} }

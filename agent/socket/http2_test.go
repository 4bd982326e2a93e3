package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/subuid"
)

// broken is a body that its sender gives up.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("given up") }

// A connection of HTTP/2 carries other requests beside the one whose body does not arrive.
func TestABodyThatIsGivenUpDoesNotEndItsConnectionOfHTTP2(t *testing.T) {
	var connections atomic.Int64
	read := make(chan error, 1)
	s := newServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}))
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := s.HTTP(true)
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.ofPeers(listener)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", listener.Addr().String())
	}}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(body io.Reader) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent/", body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	for range 3 {
		if call(broken{}) == nil || <-read == nil {
			t.Error("a body without its end is taken")
		}
		if err := errors.Join(call(strings.NewReader("{}")), <-read); err != nil {
			t.Error(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections; want 1", n)
	}
}

// Callers over TCP have the same rights. One of them must not use up the share of another.
func TestCallersOverLoopbackCountByUser(t *testing.T) {
	s := newServer(http.NotFoundHandler())
	owners := map[uint16]uint32{1: stranger, 2: stranger, 3: honest}
	s.Peers.users.Charged = func(uint32, bool, subuid.Names) (string, bool, error) { return "", false, nil }
	s.Peers.dialer = func(remote, _ netip.AddrPort) (uint32, error) {
		if uid, known := owners[remote.Port()]; known {
			return uid, nil
		}
		return 0, os.ErrNotExist
	}
	of := func(port int) *Caller {
		return s.Peers.dialed(s.local, &fromPort{port: port})
	}
	if one, other := of(1).Counted(), of(2).Counted(); one != other || one == of(3).Counted() || one == (admission.Caller{}) {
		t.Errorf("two connections of one user count on %v and %v, one of another user on %v", one, other, of(3).Counted())
	}
	if unknown := of(4); unknown != s.local {
		t.Errorf("one that the kernel does not know counts on %v", unknown.Counted())
	}
	if own := s.Peers.connecting(stranger); own == of(1).Counted() {
		t.Errorf("calls over TCP, which may be anybody's, count on %v as those over the socket", own)
	}
	if a, b := of(1).Actor.Name, s.local.Actor.Name; a != b {
		t.Errorf("the actor is %s, want %s", a, b)
	}
}

// fromPort is a connection of loopback.
type fromPort struct {
	net.Conn

	port int
}

func (c *fromPort) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.port}
}

func (c *fromPort) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
}

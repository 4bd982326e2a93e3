package discovery_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bursar/bursar/internal/discovery"
)

// names is a DNS server: each lookup gets the next list of addresses, and then always the last one.
type names struct {
	t       *testing.T
	answers [][]string
}

// resolver returns a resolver that asks only this server. A lookup for IPv6 finds nothing, and does
// not count.
func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go n.serve(far)
		return near, nil
	}}
}

// serve answers one connection, in DNS's format for streams.
func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	var size [2]byte
	for {
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		text := make([]byte, binary.BigEndian.Uint16(size[:]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(conn, text); err != nil || m.Unpack(text) != nil {
			return
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			for _, address := range n.answers[0] {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
				})
			}
			n.answers = n.answers[min(1, len(n.answers)-1):]
		}
		text, err := m.AppendPack(make([]byte, 2, 512))
		if err != nil {
			n.t.Error(err)
			return
		}
		binary.BigEndian.PutUint16(text, uint16(len(text)-2))
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

// listen accepts connections on this machine, and returns the port.
func listen(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

const (
	here      = "127.0.0.1"
	elsewhere = "192.0.2.1" // an unassigned address: RFC 5737
)

// A resolver may return this machine's address for the check, and another one for the connection.
func TestANameIsJudgedByTheAddressThatIsDialed(t *testing.T) {
	port := listen(t)
	for name, test := range map[string]struct {
		answers [][]string
		refused string
	}{
		"this machine, twice":                {[][]string{{here}, {here}}, ""},
		"this machine, and then another one": {[][]string{{here}, {elsewhere}}, elsewhere},
		"another one, and then this machine": {[][]string{{elsewhere}, {here}}, ""},
		// each address that is tried
		"this machine, and then both":           {[][]string{{here}, {elsewhere, here}}, ""},
		"this machine, and then two other ones": {[][]string{{here}, {elsewhere, "192.0.2.2"}}, elsewhere},
	} {
		dns := &names{t: t, answers: test.answers}
		resolver := dns.resolver()
		first, err := resolver.LookupHost(t.Context(), "coordinator.test.")
		if err != nil || len(first) != 1 || first[0] != test.answers[0][0] {
			t.Fatalf("%s: looked up as %v, %v", name, first, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		conn, err := discovery.DialLoopback(net.Dialer{Resolver: resolver})(ctx, "tcp", "coordinator.test.:"+port)
		cancel()
		refused, ok := errors.AsType[*discovery.NetworkError](err)
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.refused != "" && (!ok || refused.Address != net.JoinHostPort(test.refused, port)):
			t.Errorf("%s: %v: want %s refused", name, err, test.refused)
		}
		if err == nil {
			if to, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); to != here {
				t.Errorf("%s: connected to %s", name, to)
			}
			_ = conn.Close()
		}
	}
}

func TestTheNameLocalhostIsThisMachineAlone(t *testing.T) {
	port := listen(t)
	dns := &names{t: t, answers: [][]string{{here}}}
	dial := discovery.DialLocalhost(net.Dialer{Resolver: dns.resolver()})
	// a name that is not localhost is dialed without a check
	for _, host := range []string{"localhost", here, "coordinator.test."} {
		conn, err := dial(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_ = conn.Close()
	}
}

package coordinator

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/test/certs"
)

// helloOf is what a client of TLS says first.
func helloOf(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	// it ends with the pipe
	go func() { _ = tls.Client(theirs, &tls.Config{ServerName: "127.0.0.1"}).Handshake() }()
	hello := make([]byte, 16<<10)
	n, err := ours.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}

// Clients that never end their handshake are closed in time, and have no more connections than
// others without an identity.
func TestHandshakesThatDoNotEndAreConnectionsWithoutAnIdentity(t *testing.T) {
	hello := helloOf(t)
	for name, sent := range map[string][]byte{
		"nothing":            nil,
		"half of the hello":  hello[:len(hello)/2],
		"nothing after that": hello,
	} {
		for deadline, first := range map[string]time.Duration{"and its time is over": 300 * time.Millisecond, "and others come": time.Minute} {
			t.Run(name+" "+deadline, func(t *testing.T) { handshakesEnd(t, sent, first) })
		}
	}
}

func handshakesEnd(t *testing.T, sent []byte, first time.Duration) {
	t.Helper()
	ca, dir := certs.New(t, "ca"), t.TempDir()
	config := Config{}
	config.TLS.Cert, config.TLS.Key = ca.Issue(t, certs.Request{Name: "server", Hosts: []string{"127.0.0.1"}}).Files(t, dir, "server")
	var refused atomic.Int64
	f := start(t, config, nil, func(s *Server) {
		s.limits.Connections = admission.NewConnections(admission.ConnectionLimits{
			Unknown: 4, Address: 4, Known: 4, Caller: 4, First: first, Nameless: time.Minute,
		}, admission.ConnectionOptions{Refused: func() { refused.Add(1) }, Log: slog.New(slog.DiscardHandler)})
		s.timeouts.Header = time.Minute
	})
	conns := make([]net.Conn, 4)
	for i := range conns {
		conn, err := net.Dial("tcp", f.server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	ended := func(conn net.Conn) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v, want it closed", err)
		}
	}
	if first < time.Minute {
		for _, conn := range conns {
			ended(conn)
		}
		if n := refused.Load(); n != 0 {
			t.Errorf("%d were closed for others", n)
		}
		return
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca.PEM())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := client.Get("https://" + f.server.Address() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || refused.Load() != 1 {
		t.Errorf("%s; %d were closed", res.Status, refused.Load())
	}
	ended(conns[0])
}

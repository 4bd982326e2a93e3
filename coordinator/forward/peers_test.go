package forward

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/credential"
)

// The name of a leader does not determine the address of a call: it may get another address between
// a check and the call.
func TestTheAddressThatIsDialedIsJudged(t *testing.T) {
	opened, err := credential.ClientTLS{}.Open(credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transport := NewPeers(PeersOptions{Credential: opened, Shows: true}).transport
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if accepted, err := listener.Accept(); err == nil {
			_, _ = accepted.Read(make([]byte, 1)) // until it is closed
			_ = accepted.Close()
		}
	}()
	conn, err := transport.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatalf("this machine: %v", err)
	}
	_ = conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if conn, err := transport.DialContext(ctx, "tcp", "192.0.2.1:7070"); err == nil || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("another machine: %v, %v", conn, err)
	}
}

package postgres

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

// cutter is a proxy between a store and its server, and cuts connections.
type cutter struct {
	net.Listener

	server string

	mu sync.Mutex
	// next handles the next request, before its connection is cut. It is guarded by mu.
	next func(request []byte, server net.Conn, answered <-chan struct{})
	// over is closed when next has returned.
	over chan struct{}
	busy sync.WaitGroup
}

func newCutter(t *testing.T, server string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: listener, server: server, over: make(chan struct{})}
	c.busy.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			c.busy.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() { listener.Close(); c.busy.Wait() })
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	answered := make(chan struct{})
	var cutting atomic.Bool
	c.busy.Go(func() {
		defer client.Close()
		defer close(answered)
		answer := make([]byte, 1<<20)
		for {
			n, err := server.Read(answer)
			if err != nil || cutting.Load() {
				return
			}
			if _, err := client.Write(answer[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		c.mu.Lock()
		cut := c.next
		c.next = nil
		c.mu.Unlock()
		if cut != nil {
			cutting.Store(true) // the answer is not passed on
			cut(buffer[:n], server, answered)
			// Only now: a client that is cut off asks the server to cancel its query.
			client.Close()
			close(c.over)
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestConnectionIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(request []byte, server net.Conn, answered <-chan struct{})
		want uint64
	}{
		"before the request": {func([]byte, net.Conn, <-chan struct{}) {}, 1},
		"within the request": {func(request []byte, server net.Conn, answered <-chan struct{}) {
			_, _ = server.Write(request[:len(request)/2])
		}, 1},
		"before the answer": {func(request []byte, server net.Conn, answered <-chan struct{}) {
			_, _ = server.Write(request)
			<-answered
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			address, err := url.Parse(emptySchema(t))
			if err != nil {
				t.Fatal(err)
			}
			proxy := newCutter(t, address.Host)
			address.Host = proxy.Addr().String()
			s, epoch := started(t, address.String())
			proxy.mu.Lock()
			proxy.next = c.cut
			proxy.mu.Unlock()
			wantUnknown(t, s, epoch, s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(2)}))
			<-proxy.over // otherwise the lead may be taken before the server has the request
			verify(t, s, c.want, c.want)
			s.Close()
		})
	}
}

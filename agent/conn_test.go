package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
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

// patient is a coordinator that takes an hour to grant.
type patient struct {
	bursarv1connect.AllocationServiceClient
}

func (p *patient) Allocate(ctx context.Context, _ *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	select {
	case <-time.After(time.Hour):
		return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{Id: "late"}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Await is what a coordinator says that knows no such stream.
func (p *patient) Await(context.Context, *bursarv1.AwaitRequest) (*connect.ServerStreamForClient[bursarv1.AwaitResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("404 Not Found"))
}

func TestRequestMayWaitLongerThanAnyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{HostID: "h1"}, Deps{Allocations: &patient{}, Hosts: &heartbeatServer{interval: time.Minute}, Meter: still{}})
		if err != nil {
			t.Fatal(err)
		}
		a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1"}, tracker.Snapshot{}))
		becomeReady(a)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = a.callers.Run(ctx) }()
		server := a.socket.HTTP(true)
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		conn, far := net.Pipe()
		defer conn.Close()
		listener.conns <- far
		const body = `{"resource":{},"wait":"7200s"}`
		request, err := http.NewRequest(http.MethodPost, "http://agent/bursar.v1.AllocationService/Allocate", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if err := request.Write(conn); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), "late") {
			t.Errorf("%d %s %v", response.StatusCode, text, err)
		}
	})
}

package admission_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/test/underrace"
)

// names are short names of headers, all different.
func names(n int) []string {
	const letters = "bcdfghjklmnpqrsvwxyz"
	list := make([]string, n)
	for i := range list {
		list[i] = string([]byte{letters[i/400], letters[i/20%20], letters[i%20]})
	}
	return list
}

// headerServer holds requests, and reports the counted size of the header of each.
type headerServer struct {
	address string
	counted chan int
	leave   chan struct{}
}

// newHeaderServer serves HTTP/1 and HTTP/2 with the bounds that coordinators and agents have.
func newHeaderServer(t *testing.T) *headerServer {
	t.Helper()
	s := &headerServer{counted: make(chan int), leave: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		counted := admission.HeaderBytes(r)
		_, _ = io.Copy(io.Discard, admission.WithoutTrailers(r))
		s.counted <- counted
		<-s.leave
		runtime.KeepAlive(r)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { // all of it, as the next test measures what comes on top
		close(s.leave)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		served.Wait()
	})
	s.address = listener.Addr().String()
	return s
}

// held sends a request many times, and returns the memory of each while it is held, and its counted
// size.
func (s *headerServer) held(t *testing.T, send func()) (bytes, counted int) {
	t.Helper()
	const requests = 64
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for range requests {
		send()
		select {
		case counted = <-s.counted:
		case <-time.After(10 * time.Second):
			t.Fatal("the request does not come")
		}
	}
	return (heap() - before) / requests, counted
}

// The memory of a header is about its counted size, even with small values, and trailers are no way
// around.
func TestHeaderCountsWithWhatItTakesInMemory(t *testing.T) {
	if underrace.Factor > 1 {
		return // what the race detector keeps is not what is measured
	}
	many := strings.Join(names(2600), ":\r\n") + ":\r\n"
	for name, head := range map[string]string{
		"2,600 values":               many,
		"897 values":                 strings.Join(names(897), ":\r\n") + ":\r\n",
		"480 values":                 strings.Join(names(480), ":y\r\n") + ":y\r\n",
		"one name, many times":       strings.Repeat("a:\r\n", 4000),
		"long ones":                  "a: " + strings.Repeat("x", 14<<10) + "\r\n",
		"trailers that are said":     "Trailer: " + strings.Join(names(2600), ",") + "\r\n",
		"trailers":                   "",
		"trailers, one of them said": "Trailer: aaa\r\n",
	} {
		t.Run("HTTP/1, "+name, func(t *testing.T) {
			s := newHeaderServer(t)
			send := func(head, trailer string) func() {
				return func() {
					conn, err := net.Dial("tcp", s.address)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = conn.Close() })
					if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%s\r\n1\r\nx\r\n0\r\n%s\r\n", head, trailer); err != nil {
						t.Fatal(err)
					}
				}
			}
			trailer := ""
			if strings.HasPrefix(name, "trailers") {
				trailer = strings.Join(names(660), ":\r\n") + ":\r\n"
			}
			base, nothing := s.held(t, send("", ""))
			bytes, counted := s.held(t, send(head, trailer))
			wantCounted(t, bytes-base, counted-nothing)
		})
	}
	for name, req := range map[string]*http.Request{
		"400 values":             {Header: values(400, "")},
		"some of one letter":     {Header: values(400, "y")},
		"trailers that are said": {Header: http.Header{}, Trailer: values(240, "y")},
	} {
		t.Run("HTTP/2, "+name, func(t *testing.T) {
			s := newHeaderServer(t)
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: protocols}
			var all sync.WaitGroup
			t.Cleanup(all.Wait)
			t.Cleanup(transport.CloseIdleConnections)
			send := func(header, trailer http.Header) func() {
				return func() {
					sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address, io.NopCloser(strings.NewReader("x")))
					if err != nil {
						t.Fatal(err)
					}
					sent.Header, sent.Trailer = header, trailer
					all.Go(func() {
						if res, err := transport.RoundTrip(sent); err == nil {
							_ = res.Body.Close()
						}
					})
				}
			}
			base, nothing := s.held(t, send(http.Header{}, nil))
			bytes, counted := s.held(t, send(req.Header, req.Trailer))
			wantCounted(t, bytes-base, counted-nothing)
		})
	}
}

func values(n int, value string) http.Header {
	header := make(http.Header)
	for _, name := range names(n) {
		header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return header
}

func wantCounted(t *testing.T, bytes, counted int) {
	t.Helper()
	const unsure = 16 << 10 // of stacks, buffers and tables that have another purpose
	if bytes > counted+counted/8+unsure {
		t.Errorf("%d bytes are held, %d counted", bytes, counted)
	}
}

// The headers of browsers, agents, clients of Connect and gRPC, and gateways count as nothing.
func TestUsualHeaderIsFree(t *testing.T) {
	browser := &http.Request{Host: "10.0.0.11:7070", RequestURI: "/bursar.v1.AllocationService/List", Header: http.Header{
		"Accept": {"*/*"}, "Accept-Encoding": {"gzip, deflate, br, zstd"}, "Accept-Language": {"en-GB,en;q=0.9,de-DE;q=0.8,de;q=0.7"},
		"Cache-Control": {"no-cache"}, "Connection": {"keep-alive"}, "Content-Length": {"118"}, "Content-Type": {"application/json"},
		"Connect-Protocol-Version": {"1"}, "Connect-Timeout-Ms": {"30000"}, "Origin": {"http://10.0.0.11:7070"}, "Pragma": {"no-cache"},
		"Referer": {"http://10.0.0.11:7070/queues/research?sort=waiting"}, "Priority": {"u=1, i"}, "Dnt": {"1"},
		"Sec-Ch-Ua": {`"Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"`}, "Sec-Ch-Ua-Mobile": {"?0"}, "Sec-Ch-Ua-Platform": {`"Linux"`},
		"Sec-Fetch-Dest": {"empty"}, "Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Site": {"same-origin"},
		"User-Agent":      {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"},
		"X-Forwarded-For": {"192.0.2.7, 10.1.2.3"}, "X-Forwarded-Proto": {"https"}, "X-Request-Id": {"3f0e9f57-5a0c-4d0e-a1c1-bd7bd1a3c0a5"},
		"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}}
	service := &http.Request{Host: "rm-1.example.com:7070", RequestURI: "/bursar.v1.AllocationService/Allocate", Header: http.Header{
		"Accept-Encoding": {"identity"}, "Content-Type": {"application/grpc"}, "Grpc-Accept-Encoding": {"gzip"}, "Grpc-Timeout": {"29999m"}, "Te": {"trailers"},
		// a large JWT
		"User-Agent": {"grpc-go-connect/1.21.1 (go1.26.8)"}, "Authorization": {"Bearer " + strings.Repeat("t", 2048)},
		"X-Forwarded-For": {"192.0.2.7"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "Tracestate": {strings.Repeat("s", 256)},
	}}
	for name, r := range map[string]*http.Request{"browser": browser, "service": service} {
		if n := admission.HeaderBytes(r); n > admission.UsualHeader {
			t.Errorf("%s: %d bytes, of which %d are free", name, n, admission.UsualHeader)
		}
	}
}

package coordinator

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// http2Frame is a frame of HTTP/2.
func http2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
	frame = binary.BigEndian.AppendUint32(append(frame, kind, flags), stream)
	return append(frame, payload...)
}

// unreadRequests are calls of a path, each on a stream of one connection, whose answers are not
// read: POSTs of a body, or GETs if there is no content type.
func unreadRequests(streams uint32, path, contentType string, body []byte) []byte {
	// the methods in HPACK's table; flags of frames
	const post, get, ends, whole = 0x83, 0x82, 1, 4
	header := append([]byte{get, 0x86, 0x04, byte(len(path))}, path...)
	header = append(append(header, 0x01, 9), "127.0.0.1"...)
	flags := byte(whole | ends)
	if contentType != "" {
		header[0], flags = post, whole
		header = append(append(header, 0x0f, 0x10, byte(len(contentType))), contentType...)
	}
	// no window
	requests := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), http2Frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0})...)
	for i := range streams {
		requests = append(requests, http2Frame(1, flags, 2*i+1, header)...)
		if contentType != "" {
			requests = append(requests, http2Frame(0, ends, 2*i+1, body)...)
		}
	}
	return requests
}

// sendTo sends the same over some connections, and returns how many of them the server ended
// within some time.
func sendTo(t *testing.T, address string, connections int, request []byte, most time.Duration) int64 {
	t.Helper()
	var ended atomic.Int64
	var all sync.WaitGroup
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		all.Go(func() {
			_ = conn.SetDeadline(time.Now().Add(most))
			_, _ = conn.Write(request)
			_, err := io.Copy(io.Discard, conn)
			if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
				ended.Add(1)
			}
		})
	}
	all.Wait()
	return ended.Load()
}

// Requests without an identity whose answers nobody takes are bounded by the user whose
// connections they come over: what is beyond ends its connection. Others are answered.
func TestAnswersWithoutAnIdentityThatNobodyTakesAreBounded(t *testing.T) {
	for _, path := range []string{"/metrics", "/healthz"} {
		t.Run(path, func(t *testing.T) {
			f := start(t, Config{}, nil)
			before := runtime.NumGoroutine()
			const connections, streams = 2, 3000
			ended := sendTo(t, f.server.Address(), connections, unreadRequests(streams, path, "", nil), namelessTime/2)
			if held := runtime.NumGoroutine() - before; ended == 0 && held > maxNameless {
				t.Errorf("no connection was ended, and there are %d goroutines more than before", held)
			}
			eventually(t, "few answers are under way", func() bool { return runtime.NumGoroutine()-before < maxNameless/2 })
			if code, _ := f.fetch("GET", "/healthz", ""); code != 200 {
				t.Errorf("somebody else's probe: %d", code)
			}
		})
	}
}

// Small answers, and refusals, that a caller does not take count until they are sent: so many of
// them are bounded too.
func TestSmallAnswersThatNobodyTakesAreBounded(t *testing.T) {
	// 1,040 calls of a caller, and refusals beyond
	f := start(t, Config{Limits: Limits{CallerWaiting: 16}}, nil)
	before := runtime.NumGoroutine()
	const connections, streams = 3, 3000
	request := unreadRequests(streams, "/bursar.v1.ClusterService/Get", "application/json", []byte("{}"))
	// What is beyond ends its connection, or is not read yet.
	sendTo(t, f.server.Address(), connections, request, 5*time.Second)
	if held := runtime.NumGoroutine() - before; held > 2*(1040+maxRefused) {
		t.Errorf("%d goroutines more than before", held)
	}
	if code, _ := f.fetch("GET", "/healthz", ""); code != 200 {
		t.Errorf("somebody's probe: %d", code)
	}
}

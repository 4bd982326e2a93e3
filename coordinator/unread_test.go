package coordinator

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A client of HTTP/2 says how much of an answer it takes. If that is nothing, even the smallest
// answer stays, with its goroutine, and no call is under way any more that would be counted.
func TestSmallAnswersThatNobodyTakesEnd(t *testing.T) {
	f := start(t, Config{}, nil, func(s *Server) { s.timeouts.Write = 50 * time.Millisecond })
	f.host("h1", gib)
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", f.server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := runtime.NumGoroutine()
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	const requests = 500
	body := []byte("{}")
	for n := range uint32(requests) {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, field := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":authority", f.server.Address()},
			{":path", "/bursar.v1.ClusterService/Status"},
			{"content-type", "application/json"},
			{"content-length", fmt.Sprint(len(body))},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				t.Fatal(err)
			}
		}
		// Each request has its own table of headers: none is added to the connection's.
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if err := framer.WriteData(2*n+1, true, body); err != nil {
			t.Fatal(err)
		}
	}
	given := 0 // up
	answered := make(map[uint32]bool)
	for given < requests {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("after %d answers, of which %d were given up: %v", len(answered), given, err)
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			answered[frame.StreamID] = true
		case *http2.RSTStreamFrame:
			given++
		}
	}
	if len(answered) == 0 { // some are given up before their header is sent
		t.Error("no request was answered")
	}
	eventually(t, "nothing is left of them", func() bool { return runtime.NumGoroutine() < before+50 })
}

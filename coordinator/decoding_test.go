package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/underrace"
)

// largeRules are a request of more than 8 KiB.
func largeRules() *bursarv1.ApplyRequest {
	req := &bursarv1.ApplyRequest{}
	for i := range 300 {
		req.Quotas = append(req.Quotas, &bursarv1.Quota{Selector: map[string]string{"user": fmt.Sprintf("somebody-%d", i)}, Limit: memory(gib)})
	}
	return req
}

// Requests whose message is there and which do not end keep nobody from being answered, in any
// protocol and with any codec.
func TestRequestsThatDoNotEndKeepNobodyFromDecoding(t *testing.T) {
	message := append([]byte{0x0a, 0x80, 0x48}, make([]byte, 9<<10)...) // a field of 9 KiB
	message = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	packed := gzipped(t, message[5:])
	packed = append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(packed))), packed...)
	get, watch := bursarv1connect.AllocationServiceGetProcedure, bursarv1connect.AllocationServiceWatchProcedure
	for name, open := range map[string]struct {
		path, header string
		body         []byte
	}{
		"gRPC-Web":             {get, "Content-Type: application/grpc-web+proto", message},
		"gRPC-Web, compressed": {get, "Content-Type: application/grpc-web+proto\r\nGrpc-Encoding: gzip", packed},
		"Connect, a stream":    {watch, "Content-Type: application/connect+proto", message},
		"Connect":              {get, "Content-Type: application/proto", message[5:]},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, Config{}, nil)
			for range 4 * runtime.GOMAXPROCS(0) {
				conn, err := net.Dial("tcp", f.server.Address())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
					open.path, f.server.Address(), open.header, len(open.body), open.body); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "they are all there", func() bool { return f.server.calls.Load() >= int64(4*runtime.GOMAXPROCS(0)) })
			ctx, cancel := context.WithTimeout(t.Context(), underrace.Factor*5*time.Second)
			defer cancel()
			if _, err := f.quotas.Apply(ctx, largeRules()); err != nil {
				t.Errorf("a large request: %v", err)
			}
		})
	}
}

// A caller who sends a second message to a procedure that takes one is told so.
func TestTwoMessagesWhereOneIsWanted(t *testing.T) {
	f := start(t, Config{}, nil)
	for _, second := range []int{10, 9 << 10} {
		one := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(second)), make([]byte, second)...)
		first := append(binary.BigEndian.AppendUint32([]byte{0}, 3), 0x0a, 1, 'a')
		res, err := f.http.Post(f.url+bursarv1connect.AllocationServiceGetProcedure, "application/grpc-web+proto", strings.NewReader(string(first)+string(one)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Header.Get("Grpc-Status"); got != fmt.Sprint(int(connect.CodeUnimplemented)) && got != fmt.Sprint(int(connect.CodeInvalidArgument)) {
			t.Errorf("a second message of %d bytes: status %q, %q", second, got, res.Header.Get("Grpc-Message"))
		}
	}
}

package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// A standby passes the calls of all its callers on over one connection. One of them who has too
// many calls at the leader is refused there, and the others' calls go on.
func TestOneCallersRefusalsDoNotEndAStandbysConnection(t *testing.T) {
	f := start(t, Config{Limits: Limits{CallerWaiting: 16}}, nil)
	as := func(name string) string {
		return identity.Actor{Name: name, Users: []string{name}, Role: identity.Submitter}.Encode()
	}
	memory := int64(1 << 40)
	f.silentHost(memory)
	transport := forward.Transport()
	transport.HTTP2.PingTimeout = time.Minute // a busy machine answers late, which is not what is tested
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	defer func() {
		cancel()
		if err := <-ended; err == nil {
			t.Error("alice's call is answered")
		}
	}()
	go func() {
		alice := bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: &bearer{transport, http.Header{"Bursar-Actor": {as("alice")}}}}, f.url)
		_, err := alice.Allocate(ctx, &bursarv1.AllocateRequest{
			RequestId: "a", Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: &memory}, Wait: durationpb.New(time.Hour),
		})
		ended <- err
	}()
	eventually(t, "alice waits", func() bool { return f.status().GetWaiting() == 1 })
	// Mallory takes all that a caller may have, by herself: requests whose bodies do not come.
	const all = 1040
	for range all {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /bursar.v1.ClusterService/Status HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nBursar-Actor: %s\r\n"+
			"Content-Length: 10\r\n\r\n{", as("mallory")); err != nil {
			t.Fatal(err)
		}
	}
	var refused, broken atomic.Int64
	ask := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+bursarv1connect.ClusterServiceStatusProcedure, bytes.NewReader([]byte("{}")))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Bursar-Actor", as("mallory"))
		res, err := transport.RoundTrip(req)
		if err != nil {
			broken.Add(1)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests {
			refused.Add(1)
		}
	}
	const calls = 3900 // of one connection
	var asked sync.WaitGroup
	for range calls {
		asked.Go(ask)
	}
	asked.Wait()
	if refused.Load() < maxRefused || broken.Load() > 0 {
		t.Errorf("of mallory's %d calls %d are refused, and %d end with the connection", calls, refused.Load(), broken.Load())
	}
	select {
	case err := <-ended:
		t.Errorf("alice's call is over: %v", err)
		ended <- err
	default:
	}
}

package coordinator

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
)

// What a call keeps of its header while it is under way counts as what is held of the request, and
// a header has a bound.
func TestHeadersCountAsWhatIsHeldOfARequest(t *testing.T) {
	t.Parallel() // it waits
	f := start(t, Config{}, nil)
	memory := int64(1 << 40)
	f.silentHost(memory)
	ask := func(user, header string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		actor := identity.Actor{Name: user, Users: []string{user}, Role: identity.Submitter}.Encode()
		body := fmt.Sprintf(`{"labels":{"user":%q},"resource":{"memoryBytes":"%d"},"wait":"60s"}`, user, memory)
		_, err = fmt.Fprintf(conn, "POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Bursar-Actor: %s\r\n%sContent-Length: %d\r\n\r\n%s", actor, header, len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	answer := func(conn net.Conn, within time.Duration) int {
		_ = conn.SetReadDeadline(time.Now().Add(within))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0 // none yet
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	note := func(bytes int) string { return "Note: " + strings.Repeat("x", bytes) + "\r\n" }
	// a name of three letters and no value, 2,600 times: 16 KB on the wire, 250 KB in memory
	var short strings.Builder
	for i := range 2600 {
		fmt.Fprintf(&short, "%c%c%c:\r\n", 'a'+i/400, 'a'+i/20%20, 'a'+i%20)
	}
	for user, of := range map[string]struct {
		header string
		held   int // at least
	}{
		"mallory": {note(14 << 10), 10 << 10},
		"trudy":   {short.String(), 240 << 10},
	} {
		const calls = 600
		var refused atomic.Int64
		for range calls {
			conn := ask(user, of.header)
			go func() {
				if answer(conn, 30*time.Second) == http.StatusTooManyRequests {
					refused.Add(1)
				}
			}()
		}
		least := int64(calls - callerBytes/of.held)
		what := fmt.Sprintf("of %d calls of %s with headers that take %d bytes %d are refused", calls, user, of.held, least)
		eventually(t, what, func() bool { return refused.Load() >= least })
	}
	if code := answer(ask("alice", note(14<<10)), time.Second); code != 0 {
		t.Errorf("another user's call does not wait: %d", code)
	}
	if code := answer(ask("alice", note(40<<10)), 5*time.Second); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 40 KiB: %d", code)
	}
}

// Trailers are not kept with a call, whether or not its header has announced them.
func TestTrailersAreDropped(t *testing.T) {
	f := start(t, Config{}, nil)
	kept := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.server.Handler().ServeHTTP(w, r)
		kept <- len(r.Trailer)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "POST /bursar.v1.ClusterService/Status HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: 1\r\nb: 2\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if n := <-kept; response.StatusCode != http.StatusOK || n > 0 {
		t.Errorf("%s, with %d trailers", response.Status, n)
	}
}

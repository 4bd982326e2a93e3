package coordinator

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bursar/bursar/identity"
)

// What a call keeps of its header while it is under way counts as what is held of the request, and a header has a bound.
func TestHeadersCountAsWhatIsHeldOfARequest(t *testing.T) {
	f := start(t, Config{}, nil)
	memory := int64(1 << 40)
	f.silentHost(memory)
	ask := func(user string, header int) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		actor := identity.Actor{Name: user, Users: []string{user}, Role: identity.Submitter}.Encode()
		body := fmt.Sprintf(`{"labels":{"user":%q},"resource":{"memoryBytes":"%d"},"wait":"60s"}`, user, memory)
		_, err = fmt.Fprintf(conn, "POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Bursar-Actor: %s\r\nNote: %s\r\nContent-Length: %d\r\n\r\n%s", actor, strings.Repeat("x", header), len(body), body)
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
	const calls, header, fit = 600, 14 << 10, callerBytes / (13 << 10)
	var refused atomic.Int64
	var all sync.WaitGroup
	for range calls {
		conn := ask("mallory", header)
		all.Go(func() {
			if answer(conn, 5*time.Second) == http.StatusTooManyRequests {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if least := int64(calls - fit); refused.Load() < least {
		t.Errorf("of %d calls with headers of %d bytes %d are refused: want %d at least", calls, header, refused.Load(), least)
	}
	if code := answer(ask("alice", header), time.Second); code != 0 {
		t.Errorf("another user's call does not wait: %d", code)
	}
	if code := answer(ask("alice", 40<<10), 5*time.Second); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 40 KiB: %d", code)
	}
}

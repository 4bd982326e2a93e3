package agent_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a call keeps of its header counts as what is held of the request, many short values as
// well.
func TestHeadersCountAsWhatIsHeldOfARequest(t *testing.T) {
	s := newSubject(t)
	s.startOnLoopback()
	// a name of three letters and no value, 2,600 times: 16 KB on the wire, 250 KB in memory
	var short strings.Builder
	for i := range 2600 {
		fmt.Fprintf(&short, "%c%c%c:\r\n", 'a'+i/400, 'a'+i/20%20, 'a'+i%20)
	}
	const calls, held, fit = 40, 240 << 10, (4 << 20) / (240 << 10)
	refused := 0
	for range calls {
		conn, err := net.Dial("tcp", s.config.LoopbackListen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = fmt.Fprintf(conn, "POST /bursar.v1.AllocationService/Get HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Expect: 100-continue\r\nContent-Length: 2\r\n%s\r\n", short.String())
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		switch response.StatusCode {
		case http.StatusContinue: // its body does not come
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Errorf("a call is answered %s", response.Status)
		}
	}
	if refused < calls-fit {
		t.Errorf("of %d calls with headers that take %d bytes %d are refused: want %d at least", calls, held, refused, calls-fit)
	}
}

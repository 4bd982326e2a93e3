package standin

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/test/proc"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestStandInAnswersUntilTheServerTakesOver(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{Reason: "the store is read-only", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + s.Address()
	if code, _ := get(t, url+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	if code, text := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "read-only") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	s.Says("Consul answers 403")
	if code, text := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "403") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if code, text := get(t, url+"/bursar.v1.AllocationService/Allocate"); code != http.StatusServiceUnavailable || !strings.Contains(text, `"unavailable"`) {
		t.Errorf("a call: %d %s", code, text)
	}
	// A connection that says nothing does not hold the hand-over up.
	silent, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	// A start that fails leaves it as it is.
	if failed := s.Reserve(); failed.Close() != nil || failed.Taken() {
		t.Error("a reservation that is given up has taken the listener")
	}
	if code, _ := get(t, url+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz after a start that failed: %d", code)
	}
	listener := s.Reserve()
	if err := listener.Take(); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-accepted; err != nil {
		t.Errorf("the server's Accept: %v", err)
	}
}

// Every connection is answered, by the stand-in or by the server, also while one takes over from
// the other.
func TestNobodyIsTurnedAwayWhileTheServerTakesOver(t *testing.T) {
	for range 20 {
		s, err := Listen(t.Context(), "127.0.0.1:0", Options{Reason: "x", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		url, stop, done := "http://"+s.Address(), make(chan struct{}), make(chan error, 4)
		for range cap(done) {
			go func() {
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				for {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					res, err := client.Get(url + "/healthz")
					if err != nil {
						done <- err
						return
					}
					res.Body.Close()
				}
			}()
		}
		listener := s.Reserve()
		if err := listener.Take(); err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(listener)
		}()
		get(t, url)
		close(stop)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		server.Close()
		<-served
	}
}

// Silent connections that fill the stand-in hold up no server for as long as they may be open.
func TestSilentConnectionsHoldUpNoServer(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{Reason: "x", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range connections + 1 {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	began := time.Now()
	listener := s.Reserve()
	if err := listener.Take(); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if took := time.Since(began); took > answering+patience/2 {
		t.Errorf("the server had to wait for %s", took)
	}
}

// One caller's silent connections keep nobody else from an answer, nor that caller's next one.
func TestSlowConnectionsOfOneCallerKeepNobodyFromAnAnswer(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{Reason: "x", Log: slog.New(slog.DiscardHandler), OwnerOf: func(conn net.Conn) admission.Caller {
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		return admission.Caller{ID: host, Name: host}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	slow := make(chan net.Conn, 4*connections)
	from := func(host string) *net.Dialer { return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}} }
	for range cap(slow) {
		conn, err := from("127.0.0.2").DialContext(t.Context(), "tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost"); err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Fatal(err)
		}
	}
	delays, began := proc.Delays(t), time.Now()
	for _, host := range []string{"127.0.0.3", "127.0.0.2"} {
		client := http.Client{Transport: &http.Transport{DialContext: from(host).DialContext, DisableKeepAlives: true}}
		for _, page := range []string{"/healthz", "/readyz"} {
			res, err := client.Get("http://" + s.Address() + page)
			if err != nil {
				t.Fatalf("%s of %s: %v", page, host, err)
			}
			res.Body.Close()
		}
	}
	if took := time.Since(began); took > headerPatience/2+delays() {
		t.Errorf("the answers took %s", took)
	}
}

func TestASlowHeaderEndsSoon(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{Reason: "x", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	delays, began := proc.Delays(t), time.Now()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn)
	if took := time.Since(began); took > headerPatience+time.Second+delays() {
		t.Errorf("it ended after %s", took)
	}
}

package standin

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
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
	s, err := Listen(t.Context(), "127.0.0.1:0", nil, "the store is read-only")
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
		s, err := Listen(t.Context(), "127.0.0.1:0", nil, "x")
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
	s, err := Listen(t.Context(), "127.0.0.1:0", nil, "x")
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

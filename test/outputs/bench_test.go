package outputs

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

const benchMiB = 256

// BenchmarkLogs and BenchmarkRawStream bring as many bytes from an agent to a reader, by Logs and
// by HTTP/2 alone: one body from the agent to the coordinator, which copies it into the reader's.
// Logs should have at least half of the raw rate.
func BenchmarkLogs(b *testing.B) {
	p := setUp(b, 1)
	leader, _ := p.leader()
	id, want := p.written("bench", benchMiB)
	engines := p.visit(leader, "alice").Engines()
	b.SetBytes(benchMiB << 20)
	for b.Loop() {
		if _, sum, err := sumOf(b.Context(), engines, stdout(id)); err != nil || sum != want {
			b.Fatal(sum, err)
		}
	}
}

func BenchmarkRawStream(b *testing.B) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	bodies := make(chan io.ReadCloser)
	copied := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/send", func(_ http.ResponseWriter, r *http.Request) {
		bodies <- r.Body
		<-copied
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{<-bodies}, make([]byte, 64<<10))
		if err != nil {
			b.Error(err)
		}
		copied <- struct{}{}
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = protocols
	server.Start()
	defer server.Close()
	client := func() *http.Client {
		return &http.Client{Transport: &http.Transport{Protocols: protocols, DialContext: (&net.Dialer{}).DialContext}}
	}
	sender, reader := client(), client()
	defer sender.CloseIdleConnections()
	defer reader.CloseIdleConnections()
	b.SetBytes(benchMiB << 20)
	for b.Loop() {
		sent := make(chan error, 1)
		go func() {
			request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+"/send", io.LimitReader(zeros{}, benchMiB<<20))
			if err == nil {
				var response *http.Response
				if response, err = sender.Do(request); err == nil {
					err = response.Body.Close()
				}
			}
			sent <- err
		}()
		response, err := reader.Get(server.URL + "/read")
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, struct{ io.Reader }{response.Body})
		if err = errors.Join(err, response.Body.Close(), <-sent); err != nil || n != benchMiB<<20 {
			b.Fatal(n, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

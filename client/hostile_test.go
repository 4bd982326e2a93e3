package client_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/bursar/bursar/test/underrace"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/readlimit"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/hostile"
)

func TestAServerCannotFillItsClient(t *testing.T) {
	for name, serve := range hostile.Answers() {
		server := httptest.NewServer(serve)
		finder, err := discovery.Static([]string{server.URL})
		if err != nil {
			t.Fatal(err)
		}
		one, err := client.New(server.URL, client.WithoutRetries(), client.WithTimeout(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for kind, c := range map[string]*client.Client{"one": one, "several": client.NewCluster(finder, client.WithoutRetries(), client.WithTimeout(3*time.Second))} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			if _, err := c.Hosts().Sync(t.Context(), &bursarv1.SyncRequest{}); err == nil {
				t.Errorf("%s, %s: taken", name, kind)
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			// A buffer doubles as it grows, and the packed text is held next to the unpacked one.
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 5*readlimit.Message*underrace.Factor {
				t.Errorf("%s, %s: %d MiB were taken", name, kind, taken>>20)
			} else {
				t.Logf("%s, %s: %d MiB in %v", name, kind, taken>>20, took.Round(time.Millisecond))
			}
			if took > 20*time.Second {
				t.Errorf("%s, %s: took %v", name, kind, took)
			}
			c.Close()
		}
		server.CloseClientConnections()
		server.Close()
	}
}

// A server that is wrongly listed as a coordinator costs one attempt.
func TestAServerThatIsNoCoordinatorIsLeft(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"a page":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"nothing": http.NotFound,
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"an odd reply": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			_, _ = w.Write([]byte{0xff})
		},
	} {
		rogue := httptest.NewServer(serve)
		m := newMember(t, httptest.NewServer)
		c := client.NewCluster(named{{URL: rogue.URL, Leads: true}, {URL: m.server.URL}}, client.WithoutRetries())
		var err error
		for range 3 {
			if _, err = c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{}); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("%s: calls stay with it: %v", name, err)
		}
		c.Close()
		rogue.Close()
	}
}

type named []discovery.Coordinator

func (n named) Coordinators() ([]discovery.Coordinator, <-chan struct{}) { return n, nil }

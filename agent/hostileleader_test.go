package agent_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/bursar/bursar/test/underrace"

	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/readlimit"
	"github.com/bursar/bursar/test/hostile"
)

// A false coordinator costs an agent no more than its largest answers. Engines and callers go on.
func TestACoordinatorCannotFillAnAgent(t *testing.T) {
	// Garbage is collected soon, on a busy machine too: what is held counts.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	s := runAmong(t, 1)
	fake := s.servers.all[0]
	s.allocate(1)
	for name, serve := range hostile.Answers() {
		var calls atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				calls.Add(1)
			}
			serve(w, r)
		}))
		s.servers.is(server.URL)
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		most := before.HeapAlloc
		until(t, name+": it was called twice", func() bool {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			return calls.Load() >= 2
		})
		// A buffer doubles as it grows.
		if grew := most - before.HeapAlloc; grew > 5*readlimit.Agent*underrace.Factor {
			t.Errorf("%s: the heap grew by %d MiB, want at most %d", name, grew>>20, 5*readlimit.Agent*underrace.Factor>>20)
		} else {
			t.Logf("%s: %d MiB", name, grew>>20)
		}
		if status, _ := s.get(s.http, "/healthz"); status != http.StatusOK {
			t.Errorf("%s: /healthz answers %d", name, status)
		}
		server.CloseClientConnections()
		server.Close()
	}
	s.servers.name(0)
	calls := fake.calls.Load()
	until(t, "the agent goes on", func() bool { return fake.calls.Load() > calls })
	s.allocate(1)
}

// is makes another server the one that the finder says leads.
func (s *fakeServers) is(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = []discovery.Coordinator{{URL: url, Leads: true}}
	close(s.changed)
	s.changed = make(chan struct{})
}

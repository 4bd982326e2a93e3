package consul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/test/proc"
)

func TestFinderFollowsTheCatalog(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	finder := find(t, client)
	if list, _ := finder.Coordinators(); len(list) > 0 {
		t.Fatalf("%v before anybody has registered", list)
	}
	a, endA := register(t, client, RegistrationOptions{ID: "a", URL: "https://a.example.com:7070"})
	b, _ := register(t, client, RegistrationOptions{ID: "b", URL: "http://[::1]:7070"})
	finds(t, finder, func(list []discovery.Coordinator) bool { return len(list) == 2 && !list[0].Leads && !list[1].Leads })

	b.Lead(1)
	finds(t, finder, func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: "http://[::1]:7070", Leads: true}, {URL: "https://a.example.com:7070"}})
	})
	a.Lead(2) // b still has its mark
	finds(t, finder, func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: "https://a.example.com:7070", Leads: true}, {URL: "http://[::1]:7070"}})
	})
	a.Follow()
	b.Follow()
	finds(t, finder, func(list []discovery.Coordinator) bool { return len(list) == 2 && !list[0].Leads })
	endA()
	finds(t, finder, func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: "http://[::1]:7070"}})
	})
}

func TestOnlyCoordinatorsWithTLSAreFoundWhereThatIsRequired(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	var log proc.Output
	finder := NewFinder(client, FinderOptions{RequireTLS: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	run(t, finder.Run)
	liar, _ := register(t, client, RegistrationOptions{ID: "liar", URL: "http://10.6.6.6:7070"})
	liar.Lead(99)
	register(t, client, RegistrationOptions{ID: "nearby", URL: "http://127.0.0.1:7070"})
	register(t, client, RegistrationOptions{ID: "a", URL: "https://a.example.com:7070"})
	finds(t, finder, func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: "https://a.example.com:7070"}})
	})
	eventually(t, func() bool { return strings.Contains(log.String(), "http://10.6.6.6:7070") })
	if !strings.Contains(log.String(), "want https://") {
		t.Errorf("the log says %q", log.String())
	}
}

// Anybody who may register services can register many of them with long names; these must not fill
// the log.
func TestRegistrationsThatCannotBeCalledDoNotFillTheLog(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	var log proc.Output
	finder := NewFinder(client, FinderOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	run(t, finder.Run)
	for i := range 8 {
		err := client.API().Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: fmt.Sprintf("%s-long-%d", client.Service(), i), Name: client.Service(), Address: strings.Repeat("z", 20_000), Port: 7070,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	register(t, client, RegistrationOptions{ID: "a", URL: "https://a.example.com:7070"})
	finds(t, finder, func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: "https://a.example.com:7070"}})
	})
	eventually(t, func() bool { return strings.Contains(log.String(), "at most 253 characters") })
	for line := range strings.Lines(log.String()) {
		if len(line) > 2000 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

func TestCoordinatorThatDoesNotWorkIsNotFound(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	finder := find(t, client)
	var dead atomic.Bool
	register(t, client, RegistrationOptions{ID: "a", URL: "http://a:1", TTL: 1e9, Alive: func(ctx context.Context) error {
		if dead.Load() { // it hangs
			<-ctx.Done()
		}
		return nil
	}})
	register(t, client, RegistrationOptions{ID: "b", URL: "http://b:1"})
	finds(t, finder, func(list []discovery.Coordinator) bool { return len(list) == 2 })
	dead.Store(true)
	finds(t, finder, func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: "http://b:1"}})
	})
	dead.Store(false)
	finds(t, finder, func(list []discovery.Coordinator) bool { return len(list) == 2 })
}

func TestRegistrationThatTheAgentLostIsMadeAgain(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	r, _ := register(t, client, RegistrationOptions{ID: "a", URL: "http://a:1", TTL: 1e9, Meta: map[string]string{"version": "1.2"}})
	r.Lead(5)
	service := func() *api.AgentService {
		services, err := client.API().Agent().Services()
		if err != nil {
			t.Fatal(err)
		}
		return services[r.ServiceID()]
	}
	complete := func() bool {
		s := service()
		return s != nil && len(s.Tags) == 1 && s.Meta["epoch"] == "5" && s.Meta["version"] == "1.2"
	}
	eventually(t, complete)
	if err := client.API().Agent().ServiceDeregister(r.ServiceID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, complete)
}

// fake answers the query for coordinators with changeable content.
type fake struct {
	url    string
	mu     sync.Mutex
	answer func(w http.ResponseWriter)
	asked  chan string // the index of each query
}

func pretend(t *testing.T, answer func(w http.ResponseWriter)) *fake {
	t.Helper()
	f := &fake{answer: answer, asked: make(chan string, 10000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked <- r.URL.Query().Get("index")
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answer(w)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *fake) answerWith(answer func(w http.ResponseWriter)) {
	f.mu.Lock()
	f.answer = answer
	f.mu.Unlock()
	for len(f.asked) > 0 {
		<-f.asked
	}
}

const one = `[{"Node":{"Address":"10.0.0.1"},"Service":{"ID":"x","Address":"","Port":7070,"Tags":["leader"]}}]`

func TestNonsenseNeverReplacesWhatIsKnown(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"500":          func(w http.ResponseWriter) { respondWith(w, 500, 9, "rpc error") },
		"HTML":         func(w http.ResponseWriter) { respondWith(w, 200, 9, "<html>") },
		"no index":     func(w http.ResponseWriter) { respondWith(w, 200, 0, strings.Replace(one, "10.0.0.1", "10.6.6.6", 1)) },
		"nobody":       func(w http.ResponseWriter) { respondWith(w, 200, 9, "[]") },
		"null":         func(w http.ResponseWriter) { respondWith(w, 200, 9, "null") },
		"null entries": func(w http.ResponseWriter) { respondWith(w, 200, 9, `[null,{"Service":null}]`) },
		"another form": func(w http.ResponseWriter) { respondWith(w, 200, 9, `{"a":1}`) },
		"odd services": func(w http.ResponseWriter) {
			respondWith(w, 200, 9, `[{"Service":{"Address":"evil/path?","Port":1}},{"Service":{"Address":"a","Port":0}},{"Service":{"Address":"a","Port":1,"Meta":{"scheme":"ftp"}}}]`)
		},
		"endless": func(w http.ResponseWriter) {
			w.Header().Set("X-Consul-Index", "9")
			_, _ = fmt.Fprint(w, "[")
			for range (maxAnswer + 1<<20) / len(one) {
				_, _ = fmt.Fprint(w, strings.Replace(one[1:len(one)-1], "10.0.0.1", "10.6.6.6", 1)+",")
			}
			_, _ = fmt.Fprint(w, one[1:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := pretend(t, func(w http.ResponseWriter) { respondWith(w, 200, 5, one) })
			finder := find(t, open(t, Config{Address: f.url}))
			known := []discovery.Coordinator{{URL: "http://10.0.0.1:7070", Leads: true}}
			finds(t, finder, func(list []discovery.Coordinator) bool { return cmp.Equal(list, known) })
			f.answerWith(answer)
			for range 3 {
				<-f.asked
			}
			if list, _ := finder.Coordinators(); !cmp.Equal(list, known) {
				t.Errorf("it knows %v: want %v", list, known)
			}
			f.answerWith(func(w http.ResponseWriter) { respondWith(w, 200, 3, strings.Replace(one, "10.0.0.1", "10.0.0.2", 1)) })
			finds(t, finder, func(list []discovery.Coordinator) bool { return list[0].URL == "http://10.0.0.2:7070" })
		})
	}
}

func TestIndexesFollowConsulsRules(t *testing.T) {
	for _, test := range []struct{ before, told, want uint64 }{
		{0, 7, 7}, {7, 7, 7}, {7, 9, 9}, {9, 7, 0}, {0, 0, 1}, {1, 0, 0}, {1, 1, 1},
	} {
		if got := nextIndex(test.before, test.told); got != test.want {
			t.Errorf("after %d, told %d: %d, want %d", test.before, test.told, got, test.want)
		}
	}
}

func TestIndexThatWentBackBeginsAnew(t *testing.T) {
	index := 50
	f := pretend(t, nil)
	f.answerWith(func(w http.ResponseWriter) { respondWith(w, 200, index, one) })
	find(t, open(t, Config{Address: f.url}))
	want := []string{"", "50"}
	for _, w := range want {
		if got := <-f.asked; got != w {
			t.Fatalf("asked with index %q: want %q", got, w)
		}
	}
	f.answerWith(func(w http.ResponseWriter) { respondWith(w, 200, 20, one) })
	for got := range f.asked {
		if got == "" {
			break // again
		}
		if got != "50" {
			t.Fatalf("asked with index %q: want 50, then none", got)
		}
	}
	if got := <-f.asked; got != "20" {
		t.Errorf("asked with index %q: want 20", got)
	}
}

func TestRegistrationsThatCannotBeCalledAreRefused(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	for _, options := range []RegistrationOptions{
		{ID: "a", URL: "https://a"},
		{ID: "a", URL: "a:7070"},
		{ID: "a", URL: "http://0.0.0.0:7070"},
		{ID: "a", URL: "http://[::]:7070"},
		{ID: "", URL: "http://a:1"},
		{ID: "a b", URL: "http://a:1"},
		{ID: "a", URL: "http://a:1", TTL: 1},
		{ID: "a", URL: "http://a:1", TTL: 1e12},
	} {
		options.Log = slog.New(slog.DiscardHandler)
		_, err := NewRegistration(client, options)
		var url *discovery.URLError
		var field *ConfigError
		if !errors.As(err, &url) && !errors.As(err, &field) {
			t.Errorf("%+v: error %v: want a typed one", options, err)
		}
	}
}

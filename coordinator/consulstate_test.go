package coordinator

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// byConsul is a candidate in an election that knows Consul.
type byConsul struct {
	*candidate

	state atomic.Pointer[election.ConsulState]
}

func (c *byConsul) Consul() election.ConsulState { return *c.state.Load() }

// page is a page of the coordinator's.
func (f *fixture) page(path string) (text string) {
	f.tb.Helper()
	request, err := http.NewRequestWithContext(f.tb.Context(), http.MethodGet, f.server.URL()+path, nil)
	if err != nil {
		f.tb.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		f.tb.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		f.tb.Fatal(err)
	}
	return string(body)
}

// If nobody leads because of Consul, callers, probes, status and metrics say that.
func TestEverybodyIsToldThatConsulIsWhyNobodyLeads(t *testing.T) {
	for _, fault := range []error{election.ErrConsulAway, election.ErrConsulRefuses, election.ErrConsulLeaderless} {
		t.Run(fault.Error(), func(t *testing.T) {
			b, c := newFakeElection(), new(byConsul)
			c.state.Store(&election.ConsulState{AsOf: time.Now()})
			f := start(t, Config{}, nil, func(server *Server) {
				server.elect = func(self Self) (election.Election, error) {
					b.bar(self.URL, true)
					c.candidate = &candidate{fakeElection: b, self: self}
					return c, nil
				}
			})
			says := func(what, text string, want bool) {
				t.Helper()
				if strings.Contains(text, fault.Error()) != want {
					t.Errorf("%s: %q; want the fault: %t", what, text, want)
				}
			}
			told := func(named bool) {
				t.Helper()
				_, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
				if connect.CodeOf(err) != connect.CodeUnavailable {
					t.Fatalf("a caller is told %v", err)
				}
				says("a caller", err.Error(), named)
				page := f.page("/readyz")
				says("readiness", page, named)
				stale, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
				if err != nil {
					t.Fatal(err)
				}
				says("status", strings.Join(stale.GetWarnings(), "; "), named)
				metrics := f.page("/metrics")
				for _, line := range []string{"bursar_consul_up " + map[bool]string{true: "0", false: "1"}[named], "bursar_consul_lock_held 0", "bursar_consul_index_age_seconds "} {
					if !strings.Contains(metrics, "\n"+line) {
						t.Errorf("no metric %s", line)
					}
				}
			}
			told(false)
			c.state.Store(&election.ConsulState{AsOf: time.Now().Add(-time.Minute), Fault: fault})
			told(true)
			c.state.Store(&election.ConsulState{AsOf: time.Now()})
			told(false)
		})
	}
}

// A coordinator that no Consul elects says nothing about it.
func TestWithoutConsulThereIsNothingToSay(t *testing.T) {
	f := start(t, Config{}, nil)
	if metrics := f.page("/metrics"); strings.Contains(metrics, "bursar_consul") {
		t.Error("there are metrics of Consul")
	}
}

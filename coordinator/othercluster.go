package coordinator

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/internal/clusterid"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ofOwnCluster refuses calls from callers of other clusters, before anything of their bodies is
// read.
func ofOwnCluster(guard *clusterid.Guard, next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(clusterid.StoreHeader) != "" || r.Header.Get(clusterid.ClusterHeader) != "" {
			if err := guard.Admit(r.Header, nameOf(r)); err != nil {
				_ = refuse.Write(w, r, rpcError(err)) // nobody reads it any more
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// nameOf names the maker of a call for warnings: its host, its name, or its address.
func nameOf(r *http.Request) string {
	caller := auth.CallerOf(r.Context())
	return cmp.Or(caller.Maker.Host, caller.Maker.Name, r.RemoteAddr)
}

// registerGuard shows how many callers of other clusters called of late.
func registerGuard(r prometheus.Registerer, guard *clusterid.Guard) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bursar_other_cluster_callers",
		Help: "Callers that belong to another cluster and were refused in the last 10 minutes, at most 1,000.",
	}, func() float64 {
		count, _ := guard.Refused()
		return float64(count)
	}))
}

// mostSightings bounds the number of hosts that are remembered.
const mostSightings = 1000

// sightings are the hosts that see coordinators of other clusters, as they last reported. Many
// goroutines may use them.
type sightings struct {
	mu     sync.Mutex
	byHost map[string]clusterid.Identity // guarded by mu: one of the clusters that a host sees
}

func newSightings() *sightings { return &sightings{byHost: make(map[string]clusterid.Identity)} }

// note takes the report of a host.
func (s *sightings) note(host string, others []*bursarv1.ClusterIdentity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(others) == 0 {
		delete(s.byHost, host)
		return
	}
	if _, known := s.byHost[host]; known || len(s.byHost) < mostSightings {
		s.byHost[host] = clusterid.New(others[0].GetCluster(), others[0].GetStoreId())
	}
}

func (s *sightings) warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byHost) == 0 {
		return nil
	}
	example := ""
	for host := range s.byHost {
		if example == "" || host < example {
			example = host
		}
	}
	return []string{fmt.Sprintf("hosts that find coordinators of another cluster, and do not call them: %d, such as %s (%s): "+
		"want a consul.service of its own for each cluster in one Consul, or addresses of one cluster in agent.yaml", len(s.byHost), example, s.byHost[example])}
}

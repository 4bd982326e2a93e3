package report

import (
	"cmp"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/clusterid"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// PinCluster takes over the stored cluster, unless an operator says otherwise: by --forget-cluster,
// or with the name of another one in the configuration. The epoch belongs to the cluster.
func (r *Reporter) PinCluster(saved *statefile.State) {
	pin := r.pin
	if pin == nil {
		return
	}
	stored := clusterid.New(saved.Cluster, saved.StoreID)
	named := clusterid.Identity{Cluster: pin.Configured()}
	moves := named.Cluster != "" && stored.Cluster != "" && named.Cluster != stored.Cluster
	if (r.forgetCluster || moves) && stored.Known() {
		r.log.Warn("this host leaves its cluster: the next coordinator that registers it decides which one it belongs to, and is told of its engines",
			"was", stored.String(), "cluster", named.Cluster, "engines", len(saved.Engines))
		saved.Cluster, saved.StoreID, saved.Epoch, saved.Leadership = "", "", 0, 0
		return
	}
	pin.Hold(stored)
}

// registeredAt pins the agent to the cluster that has registered its host. It refuses one of
// another cluster, which an earlier version's coordinator shows in its answer alone.
func (r *Reporter) registeredAt(from clusterid.Identity, response *bursarv1.RegisterResponse) error {
	pin := r.pin
	if pin == nil {
		return nil
	}
	from.Store = cmp.Or(from.Store, clusterid.New("", response.GetStoreId()).Store)
	if err := pin.Check("that answered", from); err != nil {
		r.elsewhere()
		return err //nolint:wrapcheck // the caller does
	}
	if pin.Hold(from) {
		r.log.Info("this host belongs to a cluster", "cluster", pin.Held().Cluster, "store_id", pin.Held().Store)
	}
	return nil
}

// noteClusters puts other clusters that were seen into the next Sync, and logs new ones. Only the
// sync loop calls it.
func (r *Reporter) noteClusters() {
	if r.pin == nil {
		return
	}
	var others []*bursarv1.ClusterIdentity
	seen := make(map[clusterid.Identity]bool)
	for _, other := range r.pin.Seen() {
		others = append(others, &bursarv1.ClusterIdentity{Cluster: other.Cluster, StoreId: other.Store})
		seen[other] = true
		if !r.otherClusters[other] {
			r.log.Warn("coordinators of another cluster were found, and are not called: want a consul.service of its own for each cluster in one Consul, "+
				"or addresses of one cluster", "found", other.String(), "own", r.pin.Held().String())
		}
	}
	r.otherClusters = seen
	r.state.Locked(func(t *tracker.Tracker) { t.SetCluster(r.pin.Held().Cluster, others) })
}

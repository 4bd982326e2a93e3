package election

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
)

// clusterID matches the id after a cluster's name: one of ClusterID, or "alone" if the coordinator
// was alone when it made its store.
var clusterID = regexp.MustCompile(`^([a-z2-7]{8}|alone)$`)

// IDError is ClusterID's error if Consul's key holds no valid id. A store may know the right one.
type IDError struct {
	// Key is Consul's key, Value the beginning of its value.
	Key, Value string
}

func (e *IDError) Error() string {
	return fmt.Sprintf("Consul's key %s holds %q, which is no cluster's id: "+
		"a coordinator whose store is the cluster's puts it back; where another or a new store is to be the cluster's, delete the key", e.Key, e.Value)
}

// IsClusterID reports whether owner, the owner of a store, is the id of a cluster of this name:
// then it is the result of ClusterID.
func IsClusterID(owner, cluster string) bool {
	id, named := strings.CutPrefix(owner, cluster+"/")
	return named && clusterID.MatchString(id)
}

// ClusterID returns the permanent id of the coordinators of a cluster in one Consul. A cluster of
// the same name in another Consul has another id. The first coordinator that asks makes it, at
// bursar/<cluster>/id. A store of one cluster is refused by another. The error is an *IDError if
// the key holds no id.
func ClusterID(ctx context.Context, client *consul.Client, cluster string) (string, error) {
	ctx, cancel := client.Bounded(ctx)
	defer cancel()
	key := idKey(cluster)
	for range 5 { // another coordinator may make it between the read and the write
		options := client.Query(ctx)
		options.RequireConsistent = true
		pair, meta, err := client.API().KV().Get(key, options)
		if err == nil && meta.LastIndex == 0 {
			err = consul.ErrNotConsul
		}
		if err != nil {
			return "", client.Explain("read "+key, err)
		}
		if pair != nil && !clusterID.Match(pair.Value) {
			return "", &IDError{Key: key, Value: discovery.Cut(string(pair.Value), discovery.MaxShownValue)}
		}
		if pair != nil {
			return cluster + "/" + string(pair.Value), nil
		}
		// with index 0: only if there is none
		made := &api.KVPair{Key: key, Value: []byte(strings.ToLower(rand.Text()[:8]))}
		if _, _, err := client.API().KV().CAS(made, client.Write(ctx)); err != nil {
			return "", client.Explain("write "+key, err)
		}
	}
	return "", fmt.Errorf("read %s: it comes and goes", key)
}

func idKey(cluster string) string { return "bursar/" + cluster + "/id" }

// restoreID restores the cluster's id if Consul has lost its data, or if another writer has put
// something else there. Otherwise the next coordinator that starts would make another id and be
// refused by the store, and in the end all coordinators would.
func (e *ConsulElection) restoreID(ctx context.Context) error {
	if !IsClusterID(e.options.ClusterID, e.options.Cluster) {
		return nil
	}
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	key := idKey(e.options.Cluster)
	options := e.client.Query(ctx)
	options.RequireConsistent = true
	held, _, err := e.client.API().KV().Get(key, options)
	if err != nil {
		return e.client.Explain("read "+key, err)
	}
	// with index 0: only if there is none
	right := &api.KVPair{Key: key, Value: []byte(strings.TrimPrefix(e.options.ClusterID, e.options.Cluster+"/"))}
	var found string
	if held != nil {
		if clusterID.Match(held.Value) {
			return nil
		}
		found, right.ModifyIndex = discovery.Cut(string(held.Value), discovery.MaxShownValue), held.ModifyIndex
	}
	put, _, err := e.client.API().KV().CAS(right, e.client.Write(ctx))
	if put {
		e.options.Log.Warn("Consul did not know the cluster's id: it has been put back; see who may write below bursar/", "key", key, "held", found)
	}
	return e.client.Explain("write "+key, err)
}

package election

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/discovery/consul"
)

// ClusterID names the coordinators of a cluster in one Consul for good, as those of the same name in another Consul are not: whoever asks
// first makes it, at bursar/<cluster>/id. A store that has been led on for one is not for the other.
func ClusterID(ctx context.Context, client *consul.Client, cluster string) (string, error) {
	ctx, cancel := client.Bounded(ctx)
	defer cancel()
	key := idKey(cluster)
	for range 5 { // somebody else may make it between our reading and our writing
		options := client.Query(ctx)
		options.RequireConsistent = true
		pair, meta, err := client.API().KV().Get(key, options)
		if err == nil && meta.LastIndex == 0 {
			err = consul.ErrNotConsul
		}
		if err != nil {
			return "", client.Explain("read "+key, err)
		}
		if pair != nil {
			return cluster + "/" + string(pair.Value), nil
		}
		made := &api.KVPair{Key: key, Value: []byte(strings.ToLower(rand.Text()[:8]))} // with index 0: where there is none
		if _, _, err := client.API().KV().CAS(made, client.Write(ctx)); err != nil {
			return "", client.Explain("write "+key, err)
		}
	}
	return "", fmt.Errorf("read %s: it comes and goes", key)
}

func idKey(cluster string) string { return "bursar/" + cluster + "/id" }

// keepID puts the cluster's id back where Consul has lost its data. Else the next coordinator that starts would make another one, and be
// refused by the store, and so would all in the end.
func (e *ConsulElection) keepID(ctx context.Context) error {
	id, known := strings.CutPrefix(e.options.ClusterID, e.options.Cluster+"/")
	if !known {
		return nil
	}
	ctx, cancel := e.client.Bounded(ctx)
	defer cancel()
	key := idKey(e.options.Cluster)
	put, _, err := e.client.API().KV().CAS(&api.KVPair{Key: key, Value: []byte(id)}, e.client.Write(ctx)) // with index 0: where there is none
	if put {
		e.options.Log.Warn("Consul did not know the cluster's id: it has been put back", "key", key)
	}
	return e.client.Explain("write "+key, err)
}

package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
)

// StoreError refuses a coordinator whose store differs from that of its cluster.
type StoreError struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Theirs and Ours are the stores' ids.
	Theirs, Ours string
}

func (e *StoreError) Error() string {
	return fmt.Sprintf("the coordinators of cluster %s use store %s, this one has %s: point it to theirs; if the store was replaced on purpose, "+
		"stop them all and run \"bursar coordinator migrate --adopt\"", e.Cluster, e.Theirs, e.Ours)
}

// Permanent reports whether only an operator can mend an error of Campaign or ClaimStore. Then the
// coordinator should end, too, and report it. An error that time may mend is not permanent. Nor is
// a refusal by Consul, because Consul may take it back at any time. Nor is a change of the keys
// after the coordinator has claimed its store, and Campaign outlives that: otherwise one write
// would end all coordinators.
func Permanent(err error) bool {
	_, store := errors.AsType[*StoreError](err)
	return store
}

func (e *ConsulElection) storeKey() string { return "bursar/" + e.options.Cluster + "/store" }

// ClaimStore ensures that all coordinators of the cluster use one store. It writes the store's id
// into Consul if there is none, and compares it if there is one. Another id there is a *StoreError,
// or is replaced if adopt is set. If the key holds no valid id, the store of the last leader
// counts, as named in the leader's key, and its id is restored. ClaimStore works without Run.
func (e *ConsulElection) ClaimStore(ctx context.Context, storeID string, adopt bool) error {
	for range 5 { // another coordinator may claim it between the read and the write
		if done, err := e.claimStore(ctx, storeID, adopt); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("claim the store in %s: others change it all the time", e.storeKey())
}

func (e *ConsulElection) claimStore(ctx context.Context, ours string, adopt bool) (done bool, err error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	kv := e.client.API().KV()
	options := e.client.Query(ctx)
	options.RequireConsistent = true
	pair, meta, err := kv.Get(e.storeKey(), options)
	if err == nil && meta.LastIndex == 0 {
		err = consul.ErrNotConsul
	}
	if err != nil {
		return false, e.client.Explain("read "+e.storeKey(), err)
	}
	// with index 0: only if there is none
	claim := &api.KVPair{Key: e.storeKey(), Value: []byte(ours)}
	var theirs string
	if pair != nil {
		theirs, claim.ModifyIndex = string(pair.Value), pair.ModifyIndex
	}
	if theirs == ours {
		e.setClaimed()
		return true, nil
	}
	garbled := pair != nil && !clusterid.IsStoreID(theirs)
	if !adopt {
		known := theirs
		if garbled || pair == nil {
			if known, err = e.lastStore(ctx); err != nil {
				return false, err
			}
		}
		if known != "" && known != ours {
			return false, &StoreError{Cluster: e.options.Cluster, Theirs: known, Ours: ours}
		}
	}
	done, _, err = kv.CAS(claim, e.client.Write(ctx))
	if err != nil || !done {
		return false, e.client.Explain("claim the store in "+e.storeKey(), err)
	}
	if garbled {
		e.options.Log.Warn("Consul's key of the store held no store's id: this store's has been put back; see who may write below bursar/",
			"key", e.storeKey(), "held", discovery.Cut(theirs, discovery.MaxShownValue))
	}
	e.setClaimed()
	return true, nil
}

// lastStore returns the id of the last leader's store from the leader's key, also while there is no
// leader. It is empty if the key has none.
func (e *ConsulElection) lastStore(ctx context.Context) (string, error) {
	options := e.client.Query(ctx)
	options.RequireConsistent = true
	pair, _, err := e.client.API().KV().Get(e.key(), options)
	if err != nil || pair == nil {
		return "", e.client.Explain("read "+e.key(), err)
	}
	said, err := parseAnnouncement(pair)
	if err != nil {
		return "", nil //nolint:nilerr // it has no value
	}
	return said.StoreID, nil
}

// setClaimed notes that the cluster's store is this coordinator's.
func (e *ConsulElection) setClaimed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.claimed = true
}

package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/discovery/consul"
)

// StoreError is what a coordinator gets that has another store than the coordinators of its cluster.
type StoreError struct {
	// Cluster is theirs.
	Cluster string
	// Theirs and Ours are the stores' ids.
	Theirs, Ours string
}

func (e *StoreError) Error() string {
	return fmt.Sprintf("the coordinators of cluster %s use store %s, this one has %s: point it to theirs; if the store was replaced on purpose, "+
		"stop them all and run \"bursar coordinator migrate --adopt\"", e.Cluster, e.Theirs, e.Ours)
}

// Permanent reports whether an error of Campaign or ClaimStore is one that only an operator ends: then the coordinator should end, too, and
// say why. What waiting mends, and what Consul refuses, which may be taken back there at any time, is not.
func Permanent(err error) bool {
	_, store := errors.AsType[*StoreError](err)
	return store
}

func (e *ConsulElection) storeKey() string { return "bursar/" + e.options.Cluster + "/store" }

// ClaimStore makes sure that all coordinators of the cluster use one store: it writes the store's id into Consul where none is, and
// compares it where there is one. Another one there is a *StoreError, or is replaced where adopt is set. It needs no Run.
func (e *ConsulElection) ClaimStore(ctx context.Context, storeID string, adopt bool) error {
	for range 5 { // somebody else may claim it between our reading and our writing
		if done, err := e.claimStore(ctx, storeID, adopt); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("claim the store in %s: others change it all the time", e.storeKey())
}

func (e *ConsulElection) claimStore(ctx context.Context, storeID string, adopt bool) (done bool, err error) {
	ctx, cancel := e.client.Bounded(ctx)
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
	claim := &api.KVPair{Key: e.storeKey(), Value: []byte(storeID)} // with index 0: where there is none
	if pair != nil {
		switch theirs := string(pair.Value); {
		case theirs == storeID:
			return true, nil
		case !adopt:
			return false, &StoreError{Cluster: e.options.Cluster, Theirs: theirs, Ours: storeID}
		}
		claim.ModifyIndex = pair.ModifyIndex
	}
	done, _, err = kv.CAS(claim, e.client.Write(ctx))
	return done, e.client.Explain("claim the store in "+e.storeKey(), err)
}

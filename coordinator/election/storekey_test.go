package election

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/discovery/consul"
)

func TestCoordinatorsOfOneClusterShareAStore(t *testing.T) {
	a, b := newCandidate(t, shared.Address, "a"), newCandidate(t, shared.Address, "b")
	for _, c := range []*coordinator{a, b, a} {
		if err := c.ClaimStore(t.Context(), storeOne, false); err != nil {
			t.Fatal(err)
		}
	}
	var other *StoreError
	err := b.ClaimStore(t.Context(), storeTwo, false)
	if !errors.As(err, &other) || other.Theirs != storeOne || other.Ours != storeTwo {
		t.Fatalf("error %v: want a *StoreError", err)
	}
	if !strings.Contains(err.Error(), "--adopt") {
		t.Errorf("error %q: want it to say what to do", err)
	}
	if err := b.ClaimStore(t.Context(), storeTwo, true); err != nil {
		t.Fatal(err)
	}
	if err := a.ClaimStore(t.Context(), storeOne, false); !errors.As(err, &other) {
		t.Errorf("error %v: want a *StoreError", err)
	}
	if err := a.ClaimStore(t.Context(), storeTwo, false); err != nil {
		t.Error(err)
	}
}

func TestCoordinatorWithAnotherStoreDoesNotStandForElection(t *testing.T) {
	a := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) { o.StoreID = storeOne })
	term := a.lead(t, 1)
	way := inFrontOf(t, shared)
	b := newCandidate(t, way.URL, "b", func(_ *consul.Config, o *Options) { o.StoreID = storeTwo })
	way.answerWith(cutConnection)
	refused := make(chan error, 1)
	go func() {
		_, err := b.Campaign(t.Context())
		refused <- err
	}()
	// and tries again
	eventually(t, func() bool { return strings.Contains(b.log.String(), "cannot stand for election") })
	way.answerWith(nil)
	var other *StoreError
	if err := await(t, "a refusal", refused); !errors.As(err, &other) || !Permanent(fmt.Errorf("campaign: %w", err)) {
		t.Errorf("error %v: want a *StoreError, and that for good", err)
	}
	if isOver(term) {
		t.Error("the other store has ended the term")
	}
}

// A Consul that has lost its data gets the cluster's id again from the next candidate: a
// coordinator that starts after that finds the id of the store.
func TestAClustersIDOutlivesConsulsData(t *testing.T) {
	c := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) { o.StoreID = storeOne })
	id, err := ClusterID(t.Context(), c.client, c.options.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	c.options.ClusterID = id
	first := c.lead(t, 1)
	if _, err := admin(t, shared).KV().DeleteTree("bursar/"+c.options.Cluster+"/", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return isOver(first) })
	c.lead(t, 2)
	if again, err := ClusterID(t.Context(), c.client, c.options.Cluster); err != nil || again != id {
		t.Errorf("the cluster is %q, %v; it was %q", again, err, id)
	}
}

func TestStoreIsNotClaimedWithoutConsul(t *testing.T) {
	way := inFrontOf(t, shared)
	c := newCandidate(t, way.URL, "a")
	for name, answer := range nonsense() {
		way.answerWith(answer)
		if err := c.ClaimStore(t.Context(), storeOne, true); err == nil || Permanent(err) {
			t.Errorf("%s: error %v: want one that passes", name, err)
		}
	}
}

func TestAClusterHasOneNameInOneConsul(t *testing.T) {
	a, b := newCandidate(t, shared.Address, "a"), newCandidate(t, shared.Address, "b")
	one, err := ClusterID(t.Context(), a.client, "named")
	if err != nil {
		t.Fatal(err)
	}
	two, err := ClusterID(t.Context(), b.client, "named")
	if err != nil || one != two || !strings.HasPrefix(one, "named/") || len(one) < len("named/")+8 {
		t.Errorf("%q, %q, %v: want one name", one, two, err)
	}
	if other, err := ClusterID(t.Context(), a.client, "other"); err != nil || strings.TrimPrefix(other, "other/") == strings.TrimPrefix(one, "named/") {
		t.Errorf("%q, %v: want a name of its own", other, err)
	}
}

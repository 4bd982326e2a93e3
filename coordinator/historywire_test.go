package coordinator

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/underrace"
)

// pair asks for an allocation and cancels it, and returns its id.
func (v *visitor) pair(ctx context.Context, user, requestID string) (string, error) {
	res, err := v.allocations.Allocate(ctx, &bursarv1.AllocateRequest{
		RequestId: requestID, Labels: map[string]string{"user": user}, Resource: memory(mib), Host: &bursarv1.HostWishes{Id: "h1"},
	})
	if err != nil {
		return "", err
	}
	id := res.GetAllocation().GetId()
	_, err = v.allocations.Cancel(ctx, &bursarv1.CancelRequest{Id: id})
	return id, err
}

// flood makes pairs until one is refused, and returns their ids.
func (v *visitor) flood(t *testing.T, round string) (ids []string, refused error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		id, err := v.pair(ctx, "alice", fmt.Sprint(round, len(ids)))
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
}

// One caller floods the history over the wire: what it has is bounded, it is refused when what may
// not be deleted yet is too much, its repeats are answered all the same, and nothing of another's
// is lost.
func TestAFloodOfEndedAllocationsIsBoundedPerCaller(t *testing.T) {
	t.Parallel() // it waits
	// some fifty pairs: a slow machine makes that many before the first are old
	const bound = 24 << 10
	c := newAuthServer(t, func(config *Config) {
		config.Times.RequestRetention = underrace.Factor * 4 * time.Second
		config.Limits.CommitTimeout = time.Second
		config.History = History{CallerBytes: bound, PruneEvery: 100 * time.Millisecond, PruneStep: 20}
	})
	c.addHosts(t)
	alice := c.visit(t, "alice")
	bob := c.visit(t, "agent1", identity.Actor{Name: "bob@h1", Users: []string{"bob"}, Host: "h1", Role: identity.Submitter})
	root := c.visit(t, "root")

	var bobs []string
	for i := range 20 {
		id, err := bob.pair(t.Context(), "bob", fmt.Sprint("bob", i))
		if err != nil {
			t.Fatal(err)
		}
		bobs = append(bobs, id)
	}
	first, err := alice.flood(t, "first")
	expect(t, "flood", err, connect.CodeResourceExhausted, "history.callerBytes")
	last := len(first) - 1
	if id, err := alice.pair(t.Context(), "alice", fmt.Sprint("first", last)); err != nil || id != first[last] {
		t.Errorf("a repeat while its caller is refused: %s, %v; want %s", id, err, first[last])
	}
	id, err := bob.pair(t.Context(), "bob", "while-alice-floods")
	if err != nil {
		t.Errorf("another caller: %v", err)
	}
	bobs = append(bobs, id)
	const warning = "callers that are refused because their history is full (history.callerBytes): 1"
	status, err := root.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
	if err != nil || !slices.Contains(status.GetWarnings(), warning) {
		t.Errorf("warnings %q, %v", status.GetWarnings(), err)
	}

	var second string
	eventually(t, "the flood has aged, and its caller is let in again", func() bool {
		second, err = alice.pair(t.Context(), "alice", "second")
		return err == nil
	})
	if id, err := alice.pair(t.Context(), "alice", "second"); err != nil || id != second {
		t.Errorf("a repeat: %s, %v; want %s", id, err, second)
	}
	_, err = alice.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: first[0]})
	expect(t, "the oldest of the flood", err, connect.CodeNotFound, "")
	if _, err := alice.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: first[last]}); err != nil {
		t.Errorf("the latest of the flood: %v", err)
	}
	for _, id := range bobs {
		if _, err := bob.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: id}); err != nil {
			t.Errorf("another caller's: %v", err)
		}
	}

	eventually(t, "the history is within its bounds, and status says how large it is", func() bool {
		ends, err := c.server.loop.Store.Ends(t.Context(), store.Position{}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		total, ofAlice := int64(0), int64(0)
		for i := range ends {
			if total += ends[i].Bytes; ends[i].Caller == "alice" {
				ofAlice += ends[i].Bytes
			}
		}
		status, err := root.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		h := status.GetHistory()
		return ofAlice <= bound && ofAlice > bound*9/10 && h.GetAllocations() == int64(len(ends)) && h.GetBytes() == total &&
			!slices.Contains(status.GetWarnings(), warning)
	})
}

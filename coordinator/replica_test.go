package coordinator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAReplicaLeavesOutWhatHasEnded(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	leader.release(leader.allocate(request("ended", 1)).GetId())
	leader.allocate(request("live", 1))
	snapshot, err := currentSnapshot(t.Context(), standbys[0].server.store)
	if err != nil || len(snapshot.Remembered) != 0 || len(snapshot.Allocations) != 1 {
		t.Errorf("%d live, %d remembered, %v: want 1 and none", len(snapshot.Allocations), len(snapshot.Remembered), err)
	}
	list, err := standbys[0].allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{AllowStale: true})
	if err != nil || len(list.GetAllocations()) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// countedStore counts what is loaded, and answers only where it may.
type countedStore struct {
	store.Store

	loads atomic.Int64
	away  atomic.Bool
}

func (s *countedStore) Meta(ctx context.Context) (store.Meta, error) {
	if s.away.Load() {
		<-ctx.Done()
		return store.Meta{}, ctx.Err()
	}
	return s.Store.Meta(ctx)
}

func (s *countedStore) Load(ctx context.Context, epoch uint64, since time.Time) (ledger.Snapshot, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, epoch, since)
}

func TestAReplicaIsReadWhenSomebodyAsksAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedStore{Store: storetest.NewMemory("shared").Open()}
		d := newDesk(t, s, nil)
		look := func() error {
			return d.replica.do(t.Context(), func(*ledger.Ledger, ledger.Instant) {})
		}
		for range 10 {
			if err := look(); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.loads.Load(); n != 1 {
			t.Errorf("loaded %d times for reads at one moment", n)
		}
		time.Sleep(replicaAge + time.Second)
		if err := look(); err != nil || s.loads.Load() != 2 {
			t.Errorf("after a while: %d loads, %v", s.loads.Load(), err)
		}

		s.away.Store(true)
		time.Sleep(replicaAge + time.Second)
		began := time.Now()
		if err := look(); err != nil || time.Since(began) != replicaWait {
			t.Errorf("with the store away: %v after %s, want what was last seen after %s", err, time.Since(began), replicaWait)
		}
		time.Sleep(replicaMost)
		if err := look(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("much later: %v, want an error", err)
		}
		time.Sleep(refreshTime) // for what still asks
	})
}

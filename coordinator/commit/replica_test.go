package commit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// countedStore counts its loads, and answers only if it may.
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

func (s *countedStore) Load(ctx context.Context, epoch uint64, since time.Time, take store.Take) (ledger.Snapshot, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, epoch, since, take)
}

func TestAReplicaIsReadWhenSomebodyAsksAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedStore{Store: storetest.NewMemory("shared").Open()}
		d := newLoopRig(t, s, nil)
		look := func() error {
			return d.replica.Do(t.Context(), func(*ledger.Ledger, ledger.Instant) {})
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

// TestAReplicaThatPanicsIsDropped: a read on a standby does not end the process, and the same read
// does not cost a second replica.
func TestAReplicaThatPanicsIsDropped(t *testing.T) {
	d := newLoopRig(t, NewMemoryStore(), nil)
	loads, load := 0, d.replica.load
	d.replica.load = func(ctx context.Context) (*ledger.Ledger, core.Skew, error) {
		loads++
		return load(ctx)
	}
	lost := func(*ledger.Ledger, ledger.Instant) { panic("lost count") }
	err := d.replica.Do(callerContext(t.Context(), "alice"), lost)
	if _, ok := errors.AsType[*core.PanicError](err); !ok {
		t.Fatalf("%v; want a *PanicError", err)
	}
	for range 3 {
		err := d.replica.Do(callerContext(t.Context(), "alice"), lost)
		if _, ok := errors.AsType[*core.RefusedError](err); !ok {
			t.Fatalf("%v; want it refused", err)
		}
	}
	if err := d.replica.Do(callerContext(t.Context(), "bob"), func(l *ledger.Ledger, _ ledger.Instant) { l.Counts() }); err != nil {
		t.Errorf("another's read: %v", err)
	}
	if loads != 2 {
		t.Errorf("the store was read %d times; want once before the panic and once after it", loads)
	}
}

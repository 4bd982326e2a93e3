package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// books is where a read looks: at the writer's ledger, in its turn, or at a replica.
type books interface {
	do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error
}

// reads returns the books for a read: the ledger's own, or where this coordinator does not lead and the caller takes what may be old, a
// replica.
func (w *writer) reads(allowStale bool) books {
	if allowStale && !w.leads.Load() {
		return w.replica
	}
	return w
}

// replica is what the store held a short while ago, for reads on a coordinator that does not lead. It is read when somebody asks, and
// not more often than every few seconds. What hosts measure is not in the store, and neither are the rules from other
// coordinators' files.
type replica struct {
	load  func(ctx context.Context) (*ledger.Ledger, error)
	clock steady
	fresh singleflight.Group

	mu     sync.Mutex
	books  *ledger.Ledger // guarded by mu; nil: never read, or a leadership has begun since
	readAt ledger.Instant // guarded by mu
}

// replicaAge is how old a replica may be before it is read again: with 100,000 live allocations that takes half a second.
const replicaAge = 3 * time.Second

func newReplica(w *writer, config ledger.Config, newPlacer func() ledger.Placer) *replica {
	return &replica{clock: w.clock, load: func(ctx context.Context) (*ledger.Ledger, error) {
		snapshot, err := currentSnapshot(ctx, w.store)
		if err != nil {
			return nil, err
		}
		if w.rules != nil {
			snapshot.Quotas = append(snapshot.Quotas, fromFiles(w.rules())...)
		}
		l := ledger.New(config, newPlacer())
		return l, l.Restore(max(w.clock.now(), lastInstant(snapshot)), snapshot)
	}}
}

// currentSnapshot reads the store's state of this moment, whoever leads on it.
func currentSnapshot(ctx context.Context, s store.Store) (ledger.Snapshot, error) {
	for {
		meta, err := s.Meta(ctx)
		if err != nil {
			return ledger.Snapshot{}, err
		}
		snapshot, err := s.Load(ctx, meta.Epoch, time.Unix(1<<40, 0)) // no ended requests
		if !errors.Is(err, store.ErrDeposed) || ctx.Err() != nil {
			return snapshot, err
		}
	}
}

// do looks at the replica, read anew where it is too old. f must not change it.
func (r *replica) do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error {
	r.mu.Lock()
	due := r.books == nil || r.clock.now().Sub(r.readAt) > replicaAge
	r.mu.Unlock()
	if due {
		read := r.fresh.DoChan("", func() (any, error) { return nil, r.refresh(context.WithoutCancel(ctx)) })
		select {
		case result := <-read:
			if result.Err != nil {
				return result.Err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.books == nil {
		return ErrNotLeading
	}
	f(r.books, r.clock.now())
	return nil
}

// refreshTime bounds one reading of the store.
const refreshTime = 10 * time.Second

func (r *replica) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	asOf := r.clock.now()
	l, err := r.load(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.books != nil {
			return nil // what was last seen is what was asked for
		}
		return err
	}
	r.books, r.readAt = l, asOf
	return nil
}

// forget drops what was read: a coordinator that leads has better.
func (r *replica) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.books = nil
}

package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Reader is the source of a read: the loop's ledger, in the caller's turn, or a replica.
type Reader interface {
	Do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error
}

// Reader returns the source of a read: the loop's ledger, or a replica if this coordinator does not
// lead and the caller accepts old data.
func (loop *Loop) Reader(allowStale bool) Reader {
	if allowStale && !loop.leads.Load() {
		return loop.replica
	}
	return loop
}

// replica is the recent state of the store, for reads on a coordinator that does not lead. It is
// loaded on demand, at most every few seconds. It lacks hosts' measurements, clusters' reports, and
// the rules of other coordinators' files, because the store does not have them.
type replica struct {
	origin    func(ctx context.Context) *core.Origin
	load      func(ctx context.Context) (*ledger.Ledger, core.Skew, error)
	clock     core.Steady
	log       *slog.Logger
	refreshes singleflight.Group

	mu         sync.Mutex
	ledger     *ledger.Ledger // guarded by mu; nil: never loaded, or a leadership has begun since
	readAt     ledger.Instant // guarded by mu
	skew       core.Skew      // guarded by mu; of the ledger's time to the clock
	generation uint64         // guarded by mu; counts calls of forget
	// refused are reads that made a replica panic; guarded by mu. Other coordinators do not know
	// them.
	refused core.RefusedSet
}

const (
	// replicaAge is the age of a replica at which the next read loads it again: with 100,000 live
	// allocations that takes half a second.
	replicaAge = 3 * time.Second
	// replicaWait is how long a read waits for a store that does not answer, if there is an older
	// replica.
	replicaWait = time.Second
	// replicaMost is the largest age of a replica if the store cannot be read.
	replicaMost = 5 * time.Minute
	// refreshTime bounds one load of the store.
	refreshTime = 10 * time.Second
)

func newReplica(loop *Loop, empty func() *ledger.Ledger) *replica {
	return &replica{clock: loop.Clock, log: loop.Log, origin: loop.origin, load: func(ctx context.Context) (*ledger.Ledger, core.Skew, error) {
		snapshot, err := currentSnapshot(ctx, loop.Store)
		if err != nil {
			return nil, core.Skew{}, err
		}
		loop.addFiles(&snapshot)
		l := empty()
		now := loop.Clock.Now()
		s := core.Skew{Since: now, Ahead: max(0, core.Latest(&snapshot).Sub(now))}
		return l, s, restored(func() error { return l.Restore(s.Ledger(now), snapshot) })
	}}
}

// restored runs restore and converts a panic to an error.
func restored(restore func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &core.PanicError{Cause: cause, Stack: debug.Stack()}
		}
	}()
	return restore()
}

// currentSnapshot loads the store's current state, under any leader, without ended requests.
func currentSnapshot(ctx context.Context, s store.Store) (snapshot ledger.Snapshot, err error) {
	never := ledger.Instant(math.MaxInt64).Time()
	for range 3 { // a leadership may begin in between
		var meta store.Meta
		if meta, err = s.Meta(ctx); err != nil {
			return snapshot, err
		}
		if snapshot, err = s.Load(ctx, meta.Epoch, never, nil); !errors.Is(err, store.ErrDeposed) {
			return snapshot, err
		}
	}
	return snapshot, err
}

// Do runs f on the replica, and loads it again first if it is too old. f must not change it.
func (r *replica) Do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error {
	origin := r.origin(ctx)
	if err := r.refusal(origin); err != nil {
		return err
	}
	if err := r.refreshIfOld(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return core.ErrNotLeading
	}
	return r.guarded(origin, func() { f(r.ledger, r.skew.Ledger(r.clock.Now())) })
}

// refusal refuses a read that made a replica panic: each panic costs a load of the whole store.
func (r *replica) refusal(origin *core.Origin) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := r.refused.Of(origin, r.clock.Now()); refused != nil {
		return &core.RefusedError{Refusal: *refused}
	}
	return nil
}

// guarded runs f on the replica; all reads go through it. If f panics, the replica is dropped, and
// the read is refused from then on.
func (r *replica) guarded(origin *core.Origin, f func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.ledger = nil
			if origin != nil {
				r.refused.Add(origin, r.clock.Now(), fmt.Sprint(cause))
			}
			err = &core.PanicError{Cause: cause, Stack: debug.Stack()}
			r.log.Error("a replica panicked: it is dropped", "cause", cause, "stack", string(debug.Stack()))
		}
	}()
	f()
	return nil
}

// refreshIfOld loads the replica if it is too old. If the store does not answer, the replica stays
// valid for a while.
func (r *replica) refreshIfOld(ctx context.Context) error {
	r.mu.Lock()
	has, age := r.ledger != nil, r.clock.Now().Sub(r.readAt)
	r.mu.Unlock()
	if has && age <= replicaAge {
		return nil
	}
	read := r.refreshes.DoChan("", func() (any, error) { return nil, r.refresh(context.WithoutCancel(ctx)) })
	var enough <-chan time.Time
	if has && age < replicaMost {
		timer := time.NewTimer(replicaWait)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case result := <-read:
		if result.Err != nil && (!has || age >= replicaMost) {
			return result.Err
		}
		return nil
	case <-enough:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *replica) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	asOf := r.clock.Now()
	r.mu.Lock()
	generation := r.generation
	r.mu.Unlock()
	l, s, err := r.load(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation == r.generation {
		r.ledger, r.readAt, r.skew = l, asOf, s
	}
	return nil
}

// forget drops the replica: a leader has a better ledger.
func (r *replica) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger = nil
	r.generation++
}

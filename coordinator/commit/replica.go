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

// Reader is what a read uses: the loop's ledger, in its turn, or a replica.
type Reader interface {
	Do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error
}

// Reader returns what a read uses: the loop's ledger, or a replica if this coordinator does not
// lead and the caller accepts old data.
func (loop *Loop) Reader(allowStale bool) Reader {
	if allowStale && !loop.leads.Load() {
		return loop.replica
	}
	return loop
}

// replica is what the store held a short while ago, for reads on a coordinator that does not lead.
// It is read on demand, and at most every few seconds. Hosts' measurements and clusters' reports
// are not in the store, and the rules from other coordinators' files are not either.
type replica struct {
	origin    func(ctx context.Context) *core.Origin
	load      func(ctx context.Context) (*ledger.Ledger, core.Skew, error)
	clock     core.Steady
	log       *slog.Logger
	refreshes singleflight.Group

	mu         sync.Mutex
	ledger     *ledger.Ledger // guarded by mu; nil: never read, or a leadership has begun since
	readAt     ledger.Instant // guarded by mu
	skew       core.Skew      // guarded by mu; of the ledger's time to the clock
	generation uint64         // guarded by mu; counts the times that it was forgotten
	// refused are reads that made a replica panic; guarded by mu. They are this coordinator's
	// alone.
	refused core.RefusedSet
}

const (
	// replicaAge is how old a replica may be before it is read again: with 100,000 live
	// allocations that takes half a second.
	replicaAge = 3 * time.Second
	// replicaWait is how long a read waits for a store that does not answer, if there is an older
	// replica.
	replicaWait = time.Second
	// replicaMost is how old it may be if the store cannot be read.
	replicaMost = 5 * time.Minute
	// refreshTime bounds one reading of the store.
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

// restored is the error of restoring a replica, a panic as well.
func restored(restore func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &core.PanicError{Cause: cause, Stack: debug.Stack()}
		}
	}()
	return restore()
}

// currentSnapshot reads the store's state at this moment, under any leader, without ended requests.
func currentSnapshot(ctx context.Context, s store.Store) (snapshot ledger.Snapshot, err error) {
	never := ledger.Instant(math.MaxInt64).Time()
	for range 3 { // somebody may begin to lead in between
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

// Do runs f on the replica, and reads it again first if it is too old. f must not change it.
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

// refusal is of a read that made a replica panic: each one costs reading the whole store again.
func (r *replica) refusal(origin *core.Origin) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := r.refused.Of(origin, r.clock.Now()); refused != nil {
		return &core.RefusedError{Refusal: *refused}
	}
	return nil
}

// guarded is the one way into a replica. One that panics is dropped, and the read refused from
// then on.
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

// refreshIfOld reads the store if the replica is too old. If the store does not answer, the
// replica stays good for a while.
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

// forget drops what was read: a coordinator that leads has better.
func (r *replica) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger = nil
	r.generation++
}

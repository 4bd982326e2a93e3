package commit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// followEvery is how often a standby reads the changes in the store. When it begins to lead, it
	// reads the changes since the last time.
	followEvery = 250 * time.Millisecond
	// followAgain is the pause after a failure.
	followAgain = 5 * time.Second
)

// follower keeps a copy of the stored state while this coordinator stands by, so that a leadership
// can begin with it. It keeps nothing while this coordinator leads.
type follower struct {
	loop *Loop

	// suspended is set while this coordinator asks the store for the lead, until it leads or has
	// failed. The follower reads nothing during that time.
	suspended atomic.Bool
	// cancelRead ends the current read; nil: there is none.
	cancelRead atomic.Pointer[context.CancelFunc]

	// prepared says that a leadership would begin with the copy, or that this store never has one.
	prepared atomic.Bool

	mu    sync.Mutex  // held while it reads and applies changes
	ahead *core.Ahead // guarded by mu
}

func newFollower(loop *Loop) *follower {
	return &follower{loop: loop, ahead: loop.core.Ahead(loop.Store, loop.addFiles)}
}

// Prepared reports whether this coordinator could serve soon after it begins to lead, because it
// need not load the whole store first.
func (loop *Loop) Prepared() bool { return loop.follower.prepared.Load() }

// addFiles adds the rules and the providers of files to those of the store.
func (loop *Loop) addFiles(s *ledger.Snapshot) {
	if loop.Rules != nil {
		s.Quotas = slices.Concat(s.Quotas, core.QuotasOfFiles(loop.Rules()))
	}
	if configured := loop.configured.Load(); configured != nil {
		s.Providers, _ = core.WithFile(s.Providers, *configured)
	}
}

// run follows the store until ctx ends.
func (f *follower) run(ctx context.Context) {
	failed := false
	for wait := followEvery; pause.For(wait, ctx.Done(), nil); {
		wait = followEvery
		err := f.follow(ctx)
		switch {
		case errors.Is(err, store.ErrNotFollowed):
			return
		case ctx.Err() != nil, errors.Is(err, errNotNow):
		case err != nil:
			if wait = followAgain; !failed {
				f.warn(err)
			}
			failed = true
		case failed:
			failed = false
			f.loop.Log.Info("the store is followed again")
		}
	}
}

// warn logs why the follower cannot follow the store.
func (f *follower) warn(err error) {
	attrs := []any{"error", err}
	if fault, ok := errors.AsType[*core.PanicError](err); ok {
		attrs = append(attrs, "stack", string(fault.Stack))
		f.loop.Metrics.faults.Inc()
	}
	if f.prepared.Load() {
		f.loop.Log.Warn("the store cannot be followed: this standby's copy of the ledger gets older", attrs...)
		return
	}
	f.loop.Log.Warn("the store cannot be followed: until that works, this coordinator must load everything before it can lead", attrs...)
}

// errNotNow says that this coordinator leads, or is about to.
var errNotNow = errors.New("this coordinator leads")

// follow reads the new changes once.
func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelRead.Store(&cancel)
	defer f.cancelRead.Store(nil)
	// Check both after cancelRead is set. Then suspend either cancels this read or is seen here.
	// And this coordinator leads only after a load, which waits for mu.
	if f.suspended.Load() || f.loop.leads.Load() {
		return errNotNow
	}
	err := f.ahead.Follow(ctx)
	f.setPrepared(f.ahead.Prepared(), err)
	if err != nil && f.suspended.Load() {
		return errNotNow
	}
	return err //nolint:wrapcheck // it is complete
}

// setPrepared notes whether there is a copy, after an attempt to follow that returned err.
func (f *follower) setPrepared(copied bool, err error) {
	f.prepared.Store(copied || errors.Is(err, store.ErrNotFollowed))
	value := 0.0
	if copied && err == nil {
		value = 1
	}
	f.loop.Metrics.copied.Set(value)
}

// suspend cancels the current read, and prevents new ones until resume.
func (f *follower) suspend() {
	f.suspended.Store(true)
	if cancel := f.cancelRead.Load(); cancel != nil {
		(*cancel)()
	}
}

func (f *follower) resume() { f.suspended.Store(false) }

// load reads the initial state of a leadership, from this standby's copy if possible.
func (f *follower) load(ctx context.Context, meta store.Meta, j *job) (core.Loaded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j.doubts {
		f.ahead.Drop()
	}
	f.setPrepared(false, nil) // the load uses the copy up
	loaded, err := f.ahead.Load(ctx, meta, f.loop.rememberSince(meta).Time(), j.whole)
	if loaded.Why != nil && !errors.Is(loaded.Why, core.ErrNothingFiled) {
		f.loop.Log.Warn("this standby's copy of the ledger is not used: everything is loaded from the store", "why", loaded.Why)
	}
	return loaded, err //nolint:wrapcheck // it is complete
}

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
	// followEvery is how often a coordinator that stands by looks for changes in the store. What
	// has changed since then is read when it begins to lead.
	followEvery = 250 * time.Millisecond
	// followAgain is how long it waits if it could not.
	followAgain = 5 * time.Second
)

// follower keeps filed what this coordinator would begin to lead with. Nothing is kept while it
// leads.
type follower struct {
	loop *Loop

	// suspended is set from when this coordinator asks the store for the lead until it leads, or
	// does not: nothing is read for it then.
	suspended atomic.Bool
	// cancelRead ends the reading that is under way; nil: none is.
	cancelRead atomic.Pointer[context.CancelFunc]

	// prepared says that a leadership would begin with what is filed, or that nothing is ever
	// filed.
	prepared atomic.Bool

	mu    sync.Mutex  // held while it reads and files
	ahead *core.Ahead // guarded by mu
}

func newFollower(loop *Loop) *follower {
	return &follower{loop: loop, ahead: loop.core.Ahead(loop.Store, loop.addFiles)}
}

// Prepared reports whether this coordinator could serve soon after it begins to lead, because it
// need not read everything first.
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

// run follows until ctx ends.
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

// warn says why the store cannot be followed.
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

// follow catches up once.
func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelRead.Store(&cancel)
	defer f.cancelRead.Store(nil)
	// Both after cancelRead is set: suspend cancels this reading, or is seen here. And it leads
	// only after a load, which waits for mu.
	if f.suspended.Load() || f.loop.leads.Load() {
		return errNotNow
	}
	err := f.ahead.Follow(ctx)
	f.setPrepared(f.ahead.Prepared(), err)
	if err != nil && f.suspended.Load() {
		return errNotNow
	}
	return err //nolint:wrapcheck // says it
}

// setPrepared notes whether there is a copy, after an attempt to follow that ended with err.
func (f *follower) setPrepared(copied bool, err error) {
	f.prepared.Store(copied || errors.Is(err, store.ErrNotFollowed))
	value := 0.0
	if copied && err == nil {
		value = 1
	}
	f.loop.Metrics.copied.Set(value)
}

// suspend ends what is read, and lets nothing more be read until resume.
func (f *follower) suspend() {
	f.suspended.Store(true)
	if cancel := f.cancelRead.Load(); cancel != nil {
		(*cancel)()
	}
}

func (f *follower) resume() { f.suspended.Store(false) }

// load reads what a leadership begins with, if it can from the copy that this standby has.
func (f *follower) load(ctx context.Context, meta store.Meta, j *job) (core.Loaded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j.doubts {
		f.ahead.Drop()
	}
	f.setPrepared(false, nil) // what is filed is used up
	loaded, err := f.ahead.Load(ctx, meta, f.loop.rememberSince(meta).Time(), j.whole)
	if loaded.Why != nil && !errors.Is(loaded.Why, core.ErrNothingFiled) {
		f.loop.Log.Warn("this standby's copy of the ledger is not used: everything is loaded from the store", "why", loaded.Why)
	}
	return loaded, err //nolint:wrapcheck // says it
}

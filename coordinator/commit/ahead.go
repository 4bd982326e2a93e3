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

	// wanted counts those who want to take what is filed: nothing is read for it then.
	wanted atomic.Int32
	// leaveOff ends the reading that is under way; nil: none is.
	leaveOff atomic.Pointer[context.CancelFunc]

	mu    sync.Mutex  // held while it reads and files
	ahead *core.Ahead // guarded by mu
}

func newFollower(loop *Loop, empty func() *ledger.Ledger) *follower {
	return &follower{loop: loop, ahead: &core.Ahead{Store: loop.Store, Empty: empty, AddFiles: loop.addFiles}}
}

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
		if f.loop.leads.Load() {
			continue
		}
		followed, err := f.follow(ctx)
		switch {
		case errors.Is(err, store.ErrNotFollowed):
			return
		case ctx.Err() != nil, errors.Is(err, context.Canceled): // somebody wants it
		case err != nil:
			if wait = followAgain; !failed {
				f.loop.Log.Warn("the store cannot be followed: until that works, a change of leader to this coordinator takes as long as a start", "error", err)
			}
			failed = true
		case !followed:
			wait = followAgain
		case failed:
			failed = false
			f.loop.Log.Info("the store is followed again")
		}
	}
}

// follow catches up once. It reports false if the store cannot be followed now.
func (f *follower) follow(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaveOff.Store(&cancel)
	defer f.leaveOff.Store(nil)
	if f.wanted.Load() > 0 { // after leaveOff is set: one of the two is seen
		return false, context.Canceled
	}
	return f.ahead.Follow(ctx) //nolint:wrapcheck // says it
}

// load reads what a leadership begins with, if it can from what is filed.
func (f *follower) load(ctx context.Context, meta store.Meta, whole bool) (ledger.Snapshot, error) {
	f.wanted.Add(1)
	defer f.wanted.Add(-1)
	if cancel := f.leaveOff.Load(); cancel != nil {
		(*cancel)()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	snapshot, why, err := f.ahead.Load(ctx, meta, f.loop.rememberSince(meta).Time(), whole)
	if why != nil && !errors.Is(why, core.ErrNothingFiled) {
		f.loop.Log.Warn("what was filed ahead is not used: the whole ledger is loaded from the store", "why", why)
	}
	return snapshot, err //nolint:wrapcheck // says it
}

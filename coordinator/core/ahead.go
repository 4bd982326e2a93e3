package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Ahead keeps what a leadership begins with filed, while another coordinator leads: what is left to
// read when this one begins to lead is what has changed since it last looked. It is never believed:
// the store's records must lead without a gap from the state that it has to the present one; and
// before it is led with, it must turn out to have as many live allocations as the store, with the
// same sum of ids, and as many hosts. It has no goroutine.
type Ahead struct {
	store    store.Store
	config   ledger.Config
	addFiles func(*ledger.Snapshot)

	filed *ledger.Filed // nil: nothing is
	mark  store.Mark    // of the state that is filed
	// tells says that the store's meta told what the rows of ended allocations would, in the state
	// that was read whole. It still does: only a version that keeps no records can change that.
	tells bool
	// quotas and providers are those of the store in that state.
	quotas    []ledger.Quota
	providers []ledger.ProviderRecord
	whole     int // how many times in a row everything had to be read
}

// Ahead returns one for this core, with nothing filed. addFiles adds the rules and the providers of
// files to those of the store; nil: there are no files. The core does not use it by itself.
func (c *Core) Ahead(s store.Store, addFiles func(*ledger.Snapshot)) *Ahead {
	return &Ahead{store: s, config: c.config, addFiles: addFiles}
}

// Why a leadership does not begin with what is filed.
var (
	ErrNothingFiled = errors.New("there is no copy")
	// ErrUnproven: what is filed may be wrong. Everything must be loaded.
	ErrUnproven = errors.New("the copy is not proven")
)

var errChanged = errors.New("somebody else has committed since this coordinator took the lead")

// Why the store cannot be followed now.
var (
	// ErrNoRecords: that will be so until a coordinator of this version leads.
	ErrNoRecords = errors.New("the store has no record of its latest change: an earlier version has made it, or bursar store set-aside")
	// ErrBehind: what is filed is too old already.
	ErrBehind = errors.New("the store changes faster than it can be read")
)

// Prepared reports whether there is something filed.
func (a *Ahead) Prepared() bool { return a.filed != nil }

// Drop forgets what is filed.
func (a *Ahead) Drop() {
	a.filed, a.mark, a.tells, a.quotas, a.providers, a.whole = nil, store.Mark{}, false, nil, nil, 0
}

// Follow catches up with the store. If that cannot be read, what is filed stays: it is only older.
// Errors: ErrNoRecords (nothing is filed then), ErrBehind, store.ErrNotFollowed, which will not
// change; *PanicError and those of ledger.File (nothing is filed then).
func (a *Ahead) Follow(ctx context.Context) error {
	f, err := a.store.Follow(ctx, a.mark)
	if err != nil {
		return err //nolint:wrapcheck // says it
	}
	if f.Mark == (store.Mark{}) {
		a.Drop()
		if f.Meta.Epoch == 0 { // nobody has led yet: there is nothing
			return nil
		}
		return ErrNoRecords
	}
	if err := a.takeIn(&f); err != nil {
		return err
	}
	if !f.Whole {
		a.whole = 0
	} else if a.whole++; a.whole > 2 { // a change of leader may be the reason for one more
		return ErrBehind
	}
	return nil
}

// takeIn files a state of the store, or what has changed. A panic is an error. After an error
// nothing is filed.
func (a *Ahead) takeIn(f *store.Followed) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &PanicError{Cause: cause, Stack: debug.Stack()}
		}
		if err != nil {
			a.Drop()
		}
	}()
	if f.Rest {
		a.quotas, a.providers = f.Rows.Quotas, f.Rows.Providers
	}
	a.mark = f.Mark
	if f.Whole {
		a.tells = f.LastEnd <= f.Meta.Time
		a.filed = nil // its memory is needed
		return a.file(&f.Rows)
	}
	if err := a.filed.Update(&f.Rows, f.Ended, f.HostsRemoved); err != nil {
		return fmt.Errorf("coordinator: the copy of the ledger: %w", err)
	}
	return a.refile()
}

// refile files everything again if other rules or providers are in force. All allocations count
// elsewhere then.
func (a *Ahead) refile() error {
	var rows ledger.Snapshot
	a.addRules(&rows)
	if a.filed.Suits(&rows) {
		return nil
	}
	a.filed.Rows(&rows)
	return a.file(&rows)
}

func (a *Ahead) addRules(rows *ledger.Snapshot) {
	rows.Quotas, rows.Providers = a.quotas, a.providers
	if a.addFiles != nil {
		a.addFiles(rows)
	}
}

func (a *Ahead) file(rows *ledger.Snapshot) (err error) {
	a.addRules(rows)
	if a.filed, err = ledger.File(a.config, rows); err != nil {
		return fmt.Errorf("coordinator: the copy of the ledger: %w", err)
	}
	return nil
}

// Loaded is what a leadership begins with.
type Loaded struct {
	ledger.Snapshot

	// Why says why everything was read, and filed in the meantime. nil: what was filed is used.
	Why error
	// Prove compares what was filed with the store, see ErrUnproven. Until then nobody may be told
	// what a ledger says that is made of it. nil: everything was read.
	Prove func(context.Context) error
}

// Load is as the function Load, but takes what is filed if the store's records lead to it. What was
// filed is used up.
func (a *Ahead) Load(ctx context.Context, meta store.Meta, since time.Time, whole bool) (loaded Loaded, err error) {
	defer a.Drop()
	if a.filed != nil && (whole || !a.tellsAll(ctx, meta)) {
		loaded.Why = errors.New("the store does not tell its time: request ids are loaded first")
	} else {
		loaded.Snapshot, loaded.Why = a.take(ctx, meta)
	}
	if errors.Is(loaded.Why, store.ErrDeposed) {
		return loaded, loaded.Why
	}
	if loaded.Why != nil {
		loaded.Snapshot, err = a.loadAndFile(ctx, meta, since, whole)
	} else {
		loaded.Prove = a.proof(meta)
	}
	return loaded, err
}

// tellsAll is the function tellsAll, but asks the store only if nothing else tells.
func (a *Ahead) tellsAll(ctx context.Context, meta store.Meta) bool {
	if a.tells {
		return ledger.TellsTimes(meta.Time, meta.LastID)
	}
	return tellsAll(ctx, a.store, meta)
}

// proof compares what is filed, as it is now, with the store, when it is called.
func (a *Ahead) proof(meta store.Meta) func(context.Context) error {
	has := store.Totals{Epoch: meta.Epoch, Live: a.filed.Len()}
	a.filed.EachID(func(id ledger.ID) { has.IDs += store.SumOfIDs(id) })
	a.filed.EachHost(func(*ledger.HostRecord) { has.Hosts++ })
	from := a.store
	return func(ctx context.Context) error {
		stored, err := from.Totals(ctx)
		switch {
		case err != nil:
			return err //nolint:wrapcheck // says it
		case stored.Epoch != has.Epoch:
			return &store.DeposedError{Epoch: has.Epoch, Stored: stored.Epoch}
		case stored != has:
			return fmt.Errorf("%w: it has %d allocations on %d hosts, and the store has %d on %d, or others", ErrUnproven, has.Live, has.Hosts, stored.Live, stored.Hosts)
		}
		return nil
	}
}

// loadAndFile reads everything, and files live allocations while others are still read. If they
// cannot be filed, they are in the snapshot: Lead finds what is wrong with them.
func (a *Ahead) loadAndFile(ctx context.Context, meta store.Meta, since time.Time, whole bool) (ledger.Snapshot, error) {
	var refused error
	snapshot, err := Load(ctx, a.store, meta, since, whole, func(rest *ledger.Snapshot, rows []ledger.Allocation) error {
		if len(rows) == 0 { // from the beginning
			a.Drop()
		}
		refused = a.add(rest, rows)
		return refused
	})
	switch {
	case refused != nil:
		a.Drop() // its memory is needed
		return Load(ctx, a.store, meta, since, whole, nil)
	case a.filed != nil && err == nil:
		snapshot.Filed, snapshot.Hosts = a.filed, nil
	}
	return snapshot, err
}

// add files rows that are loaded. A panic is an error.
func (a *Ahead) add(rest *ledger.Snapshot, rows []ledger.Allocation) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &PanicError{Cause: cause, Stack: debug.Stack()}
		}
	}()
	if a.filed == nil {
		a.quotas, a.providers = rest.Quotas, rest.Providers
		return a.file(&ledger.Snapshot{Hosts: rest.Hosts, Allocations: rows})
	}
	return a.filed.Add(rows) //nolint:wrapcheck // the rows are loaded again
}

// take returns what is filed, brought up to the present state of the store.
func (a *Ahead) take(ctx context.Context, meta store.Meta) (ledger.Snapshot, error) {
	if a.filed == nil {
		return ledger.Snapshot{}, ErrNothingFiled
	}
	f, err := a.store.CatchUp(ctx, a.mark)
	switch {
	case err != nil:
		return ledger.Snapshot{}, err //nolint:wrapcheck // says it
	case f.Meta.Epoch != meta.Epoch:
		return ledger.Snapshot{}, &store.DeposedError{Epoch: meta.Epoch, Stored: f.Meta.Epoch}
	case f.Meta.Sequence != meta.Sequence: // in a store that was put back since, in the same epoch
		return ledger.Snapshot{}, errChanged
	}
	if err := a.takeIn(&f); err != nil {
		return ledger.Snapshot{}, err
	}
	snapshot := f.Rows
	snapshot.Allocations, snapshot.Hosts, snapshot.Filed, snapshot.Recalling = nil, nil, a.filed, true
	return snapshot, nil
}

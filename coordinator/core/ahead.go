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

// Ahead keeps a copy of the initial state of a leadership while another coordinator leads. When
// this one begins to lead, it need only read the latest changes. The copy is never trusted: the
// store's records must lead without a gap from the copy's state to the present one. And before a
// leadership uses it, it must have as many live allocations as the store, with the same sum of ids,
// and as many hosts. Ahead has no goroutine.
type Ahead struct {
	store    store.Store
	config   ledger.Config
	addFiles func(*ledger.Snapshot)

	filed *ledger.Filed // nil: no copy
	mark  store.Mark    // the state of the copy
	// tells says that, when the whole store was last read, its meta told everything that the rows
	// of ended allocations would. It still does: only a version that keeps no records can change
	// that.
	tells bool
	// quotas and providers are those of the store in that state.
	quotas    []ledger.Quota
	providers []ledger.ProviderRecord
	whole     int // how many times in a row the whole store was read
}

// Ahead returns an Ahead of this core, without a copy. addFiles adds the rules and the providers of
// files to those of the store; nil: there are no files. The core does not use it by itself.
func (c *Core) Ahead(s store.Store, addFiles func(*ledger.Snapshot)) *Ahead {
	return &Ahead{store: s, config: c.config, addFiles: addFiles}
}

// The reasons why a leadership does not begin with the copy.
var (
	ErrNothingFiled = errors.New("there is no copy")
	// ErrUnproven means that the copy may be wrong. The whole store must be loaded.
	ErrUnproven = errors.New("the copy is not proven")
)

var errChanged = errors.New("somebody else has committed since this coordinator took the lead")

// The reasons why the store cannot be followed now.
var (
	// ErrNoRecords lasts until a coordinator of this version leads.
	ErrNoRecords = errors.New("the store has no record of its latest change: an earlier version has made it, or bursar store set-aside")
	// ErrBehind means that the copy is already too old.
	ErrBehind = errors.New("the store changes faster than it can be read")
)

// Prepared reports whether there is a copy.
func (a *Ahead) Prepared() bool { return a.filed != nil }

// Drop drops the copy.
func (a *Ahead) Drop() {
	a.filed, a.mark, a.tells, a.quotas, a.providers, a.whole = nil, store.Mark{}, false, nil, nil, 0
}

// Follow updates the copy from the store. If the store cannot be read, the copy stays as it is.
// Errors: ErrNoRecords (drops the copy), ErrBehind, store.ErrNotFollowed (permanent), *PanicError
// and those of ledger.File (drop the copy).
func (a *Ahead) Follow(ctx context.Context) error {
	f, err := a.store.Follow(ctx, a.mark)
	if err != nil {
		return err //nolint:wrapcheck // it is complete
	}
	if f.Mark == (store.Mark{}) {
		a.Drop()
		if f.Meta.Epoch == 0 { // no coordinator has led yet: the store is empty
			return nil
		}
		return ErrNoRecords
	}
	if err := a.takeIn(&f); err != nil {
		return err
	}
	if !f.Whole {
		a.whole = 0
	} else if a.whole++; a.whole > 2 { // a change of leader may cause another one
		return ErrBehind
	}
	return nil
}

// takeIn applies the whole state of the store, or its changes, to the copy. It returns a panic as
// an error. After an error there is no copy.
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

// refile makes the copy again if other rules or providers are in force, because all allocations
// then count on other accounts.
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

// Loaded is the initial state of a leadership.
type Loaded struct {
	ledger.Snapshot

	// Why is the reason for reading the whole store. nil: the copy was used.
	Why error
	// Prove compares the copy with the store, see ErrUnproven. Until it returns nil, no caller may
	// get data of a ledger that was made from the copy. nil: the whole store was read.
	Prove func(context.Context) error
}

// Load is like the function Load, but uses the copy if the store's records lead to it. The copy is
// used up.
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

// tellsAll is like the function tellsAll, but reads the store only if the copy does not tell.
func (a *Ahead) tellsAll(ctx context.Context, meta store.Meta) bool {
	if a.tells {
		return ledger.TellsTimes(meta.Time, meta.LastID)
	}
	return tellsAll(ctx, a.store, meta)
}

// proof returns a function that compares the copy's current state with the store.
func (a *Ahead) proof(meta store.Meta) func(context.Context) error {
	has := store.Totals{Epoch: meta.Epoch, Live: a.filed.Len()}
	a.filed.EachID(func(id ledger.ID) { has.IDs += store.SumOfIDs(id) })
	a.filed.EachHost(func(*ledger.HostRecord) { has.Hosts++ })
	from := a.store
	return func(ctx context.Context) error {
		stored, err := from.Totals(ctx)
		switch {
		case err != nil:
			return err //nolint:wrapcheck // it is complete
		case stored.Epoch != has.Epoch:
			return &store.DeposedError{Epoch: has.Epoch, Stored: stored.Epoch}
		case stored != has:
			return fmt.Errorf("%w: it has %d allocations on %d hosts, and the store has %d on %d, or others", ErrUnproven, has.Live, has.Hosts, stored.Live, stored.Hosts)
		}
		return nil
	}
}

// loadAndFile loads the whole store, and makes the ledger's index of live allocations during the
// load. If that fails, the snapshot has the rows instead: Lead then finds the fault.
func (a *Ahead) loadAndFile(ctx context.Context, meta store.Meta, since time.Time, whole bool) (ledger.Snapshot, error) {
	var refused error
	snapshot, err := Load(ctx, a.store, meta, since, whole, func(rest *ledger.Snapshot, rows []ledger.Allocation) error {
		if len(rows) == 0 { // the load starts again
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

// add adds loaded rows to the copy. It returns a panic as an error.
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

// take returns the copy, updated to the present state of the store.
func (a *Ahead) take(ctx context.Context, meta store.Meta) (ledger.Snapshot, error) {
	if a.filed == nil {
		return ledger.Snapshot{}, ErrNothingFiled
	}
	f, err := a.store.CatchUp(ctx, a.mark)
	switch {
	case err != nil:
		return ledger.Snapshot{}, err //nolint:wrapcheck // it is complete
	case f.Meta.Epoch != meta.Epoch:
		return ledger.Snapshot{}, &store.DeposedError{Epoch: meta.Epoch, Stored: f.Meta.Epoch}
	case f.Meta.Sequence != meta.Sequence: // the store was restored since, in the same epoch
		return ledger.Snapshot{}, errChanged
	}
	if err := a.takeIn(&f); err != nil {
		return ledger.Snapshot{}, err
	}
	snapshot := f.Rows
	snapshot.Allocations, snapshot.Hosts, snapshot.Filed, snapshot.Recalling = nil, nil, a.filed, true
	return snapshot, nil
}

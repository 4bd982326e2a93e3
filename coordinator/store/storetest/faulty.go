package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Fault is the fault of a commit.
type Fault uint8

// The faults.
const (
	// None lets the commit through.
	None Fault = iota
	// FailBefore fails it with an error that says that it has not happened.
	FailBefore
	// FailAfter lets it happen, but returns that the outcome is unknown.
	FailAfter
	// Vanish keeps it from happening, and returns that the outcome is unknown.
	Vanish
	// HangBefore makes it wait for Release, then happen if its epoch may still write. If its
	// context ends first, the outcome is unknown, and it has not happened.
	HangBefore
	// HangAfter lets it happen, and delays its answer until Release. If its context ends first, the
	// outcome is unknown.
	HangAfter
	// Cut makes it vanish, and every later call fail until Mend.
	Cut
)

// ErrFault is the error of a call that fails by script.
var ErrFault = errors.New("a fault that the test asked for")

// Faulty is a store whose commits fail by script. Its methods may be called concurrently.
type Faulty struct {
	store.Store

	mu      sync.Mutex // guards all fields below
	script  []Fault
	ended   uint64 // the last epoch that a fault has ended
	cut     bool
	release chan struct{} // closed by Release
	hanging chan struct{} // gets a value for every commit that begins to hang
}

// NewFaulty returns a store that behaves like s until Next or Cut is called.
func NewFaulty(s store.Store) *Faulty {
	return &Faulty{Store: s, release: make(chan struct{}), hanging: make(chan struct{}, 64)}
}

// Next sets the faults of the next commits, one after the other. Later commits succeed again.
func (f *Faulty) Next(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, faults...)
}

// Pending is the number of faults left in the script.
func (f *Faulty) Pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.script)
}

// Hanging returns a channel that gets a value when a commit begins to hang.
func (f *Faulty) Hanging() <-chan struct{} { return f.hanging }

// Release lets the hanging commits go on.
func (f *Faulty) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.release)
	f.release = make(chan struct{})
}

// Cut makes every call fail until Mend.
func (f *Faulty) Cut() { f.setCut(true) }

// Mend ends a Cut.
func (f *Faulty) Mend() { f.setCut(false) }

func (f *Faulty) setCut(cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = cut
}

// reachable returns an error while the store is cut off.
func (f *Faulty) reachable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return fmt.Errorf("%w: %w: the store is cut off", store.ErrIO, ErrFault)
	}
	return nil
}

// Commit implements store.Store.
func (f *Faulty) Commit(ctx context.Context, batch store.Batch) error {
	fault, release, err := f.next(batch.Epoch)
	if err != nil {
		return err
	}
	switch fault {
	case FailBefore:
		err = f.end(batch.Epoch, ErrFault)
	case FailAfter:
		if err = f.Store.Commit(ctx, batch); err == nil {
			err = f.end(batch.Epoch, unknown(ErrFault))
		}
	case Vanish, Cut:
		err = f.end(batch.Epoch, unknown(ErrFault))
	case HangBefore:
		if err = f.hang(ctx, batch.Epoch, release); err == nil {
			err = f.Store.Commit(ctx, batch)
		}
	case HangAfter:
		if err = f.Store.Commit(ctx, batch); err == nil {
			err = f.hang(ctx, batch.Epoch, release)
		}
	case None:
		err = f.Store.Commit(ctx, batch)
	}
	return err
}

// end ends an epoch and returns err. The store below has not seen an error.
func (f *Faulty) end(epoch uint64, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = max(f.ended, epoch)
	return err
}

// next takes the next fault from the script, and the channel that ends a hanging one.
func (f *Faulty) next(epoch uint64) (Fault, <-chan struct{}, error) {
	if err := f.reachable(); err != nil {
		return None, nil, f.end(epoch, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if epoch != 0 && epoch == f.ended {
		return None, nil, &store.DeposedError{Epoch: epoch, Stored: epoch}
	}
	if len(f.script) == 0 {
		return None, nil, nil
	}
	fault := f.script[0]
	f.script = f.script[1:]
	f.cut = f.cut || fault == Cut
	return fault, f.release, nil
}

func (f *Faulty) hang(ctx context.Context, epoch uint64, release <-chan struct{}) error {
	f.hanging <- struct{}{}
	select {
	case <-release:
		return nil
	case <-ctx.Done():
		return f.end(epoch, unknown(ctx.Err()))
	}
}

func unknown(err error) error { return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err) }

// Lead implements store.Store.
func (f *Faulty) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	if err := f.reachable(); err != nil {
		return store.Meta{}, err
	}
	return f.Store.Lead(ctx, atLeast)
}

// Load implements store.Store.
func (f *Faulty) Load(ctx context.Context, epoch uint64, rememberSince time.Time, take store.Take) (ledger.Snapshot, error) {
	if err := f.reachable(); err != nil {
		return ledger.Snapshot{}, err
	}
	return f.Store.Load(ctx, epoch, rememberSince, take)
}

// Follow implements store.Store.
func (f *Faulty) Follow(ctx context.Context, since store.Mark) (store.Followed, error) {
	if err := f.reachable(); err != nil {
		return store.Followed{}, err
	}
	return f.Store.Follow(ctx, since)
}

// CatchUp implements store.Store.
func (f *Faulty) CatchUp(ctx context.Context, since store.Mark) (store.Followed, error) {
	if err := f.reachable(); err != nil {
		return store.Followed{}, err
	}
	return f.Store.CatchUp(ctx, since)
}

// Totals implements store.Store.
func (f *Faulty) Totals(ctx context.Context) (store.Totals, error) {
	if err := f.reachable(); err != nil {
		return store.Totals{}, err
	}
	return f.Store.Totals(ctx)
}

// Get implements store.Store.
func (f *Faulty) Get(ctx context.Context, id ledger.ID) (ledger.Allocation, error) {
	if err := f.reachable(); err != nil {
		return ledger.Allocation{}, err
	}
	return f.Store.Get(ctx, id)
}

// Remembered implements store.Store.
func (f *Faulty) Remembered(ctx context.Context, before store.Position, since ledger.Instant, limit int) (page []ledger.Remembered, next store.Position, err error) {
	if err := f.reachable(); err != nil {
		return nil, next, err
	}
	return f.Store.Remembered(ctx, before, since, limit)
}

// RememberedOf implements store.Store.
func (f *Faulty) RememberedOf(ctx context.Context, caller, requestID string) (ledger.Remembered, error) {
	if err := f.reachable(); err != nil {
		return ledger.Remembered{}, err
	}
	return f.Store.RememberedOf(ctx, caller, requestID)
}

// GetByRequest implements store.Store.
func (f *Faulty) GetByRequest(ctx context.Context, caller, requestID string) (ledger.Allocation, error) {
	if err := f.reachable(); err != nil {
		return ledger.Allocation{}, err
	}
	return f.Store.GetByRequest(ctx, caller, requestID)
}

// History implements store.Store.
func (f *Faulty) History(ctx context.Context, query store.HistoryQuery) (page []ledger.Allocation, next string, err error) {
	if err := f.reachable(); err != nil {
		return nil, "", err
	}
	return f.Store.History(ctx, query)
}

// Ends implements store.Store.
func (f *Faulty) Ends(ctx context.Context, after store.Position, limit int) ([]store.End, error) {
	if err := f.reachable(); err != nil {
		return nil, err
	}
	return f.Store.Ends(ctx, after, limit)
}

// Delete implements store.Store.
func (f *Faulty) Delete(ctx context.Context, ended []store.Position) (int, error) {
	if err := f.reachable(); err != nil {
		return 0, err
	}
	return f.Store.Delete(ctx, ended)
}

// IndexHistory implements store.Store.
func (f *Faulty) IndexHistory(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (int, error) {
	if err := f.reachable(); err != nil {
		return 0, err
	}
	return f.Store.IndexHistory(ctx, epoch, before, limit)
}

// SweepIndex implements store.Store.
func (f *Faulty) SweepIndex(ctx context.Context, after store.IndexEntry, before ledger.Instant, limit int) (store.IndexEntry, bool, error) {
	if err := f.reachable(); err != nil {
		return after, false, err
	}
	return f.Store.SweepIndex(ctx, after, before, limit)
}

// Meta implements store.Store.
func (f *Faulty) Meta(ctx context.Context) (store.Meta, error) {
	if err := f.reachable(); err != nil {
		return store.Meta{}, err
	}
	return f.Store.Meta(ctx)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/identity"
)

// takeoverSuite measures the part of a change of leader that grows with the number of live
// allocations: from the store's lead to a ledger that decides. One coordinator loads all of it; the
// other one is a standby, and reads the changes since its last read. Both are in this process, on
// one database.
func takeoverSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("failover-full")
	if err != nil {
		return err
	}
	server, dsn, err := r.startPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	w.Hosts = r.size(w.Hosts)
	if err := writeStore(ctx, w, r.size(w.Live), 0, dsn); err != nil {
		return err
	}
	var sides [2]*candidate
	for i := range sides {
		s, err := opener.Open(ctx, dsn, opener.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		sides[i] = newCandidate(s)
	}
	loads, follows := sides[0], sides[1]
	var whole, loaded, filed, read []float64
	for range r.rounds(10) {
		began := time.Now()
		if err := follows.ahead.Follow(ctx); err != nil {
			return fmt.Errorf("the store cannot be followed: %w", err)
		}
		whole = append(whole, time.Since(began).Seconds())
		took, _, err := loads.lead(ctx, false)
		if err != nil {
			return err
		}
		loaded = append(loaded, took)
		if err := loads.release(ctx, takeoverChanges); err != nil {
			return err
		}
		took, reading, err := follows.lead(ctx, true)
		if err != nil {
			return err
		}
		filed, read = append(filed, took), append(read, reading)
		loads.core.Drop(core.ErrNotLeading)
		follows.core.Drop(core.ErrNotLeading)
	}
	r.line("takeover/loaded-median", median(loaded), "s", 0)
	r.line("takeover/filed-median", median(filed), "s", median(ratios(filed, loaded)))
	r.line("takeover/filed-max", slices.Max(filed), "s", 0)
	r.line("takeover/filed-read-median", median(read), "s", 0)
	r.line("takeover/filing-ahead-median", median(whole), "s", 0)
	return nil
}

// takeoverChanges is the number of allocations that have ended since the standby's last read.
const takeoverChanges = 200

// candidate is a coordinator without a loop.
type candidate struct {
	store store.Store
	core  *core.Core
	ahead *core.Ahead
	epoch uint64
}

func newCandidate(s store.Store) *candidate {
	c := core.NewCore(ledger.Config{}, func() ledger.Placer { return placement.New(placement.Spread) }, core.DrawLeadership)
	return &candidate{store: s, core: c, ahead: c.Ahead(s, nil)}
}

// lead takes the lead, and returns the time for that, and the time until all was read, in seconds.
// ahead says whether the ledger must be the one that was loaded ahead.
func (c *candidate) lead(ctx context.Context, ahead bool) (took, reading float64, err error) {
	began := time.Now()
	meta, err := c.store.Lead(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	loaded, err := c.ahead.Load(ctx, meta, began.Add(-24*time.Hour), false)
	if err != nil {
		return 0, 0, err
	}
	if ahead != (loaded.Why == nil) {
		return 0, 0, fmt.Errorf("filed ahead: %t, %w", loaded.Why == nil, loaded.Why)
	}
	reading = time.Since(began).Seconds()
	var proof errgroup.Group
	if loaded.Prove != nil { // as in the loop, in parallel with the rest
		proof.Go(func() error { return loaded.Prove(ctx) })
	}
	leads := c.core.Lead(ledger.At(time.Now()), meta, loaded.Snapshot)
	if err := errors.Join(leads, proof.Wait()); err != nil {
		return 0, 0, err
	}
	c.epoch = meta.Epoch
	return time.Since(began).Seconds(), reading, nil
}

// release ends n allocations, and commits that.
func (c *candidate) release(ctx context.Context, n int) error {
	l := c.core.Ledger()
	var ids []ledger.ID
	l.Allocations(0, func(a *ledger.Allocation) bool {
		ids = append(ids, a.ID)
		return len(ids) < n
	})
	for _, id := range ids {
		if _, err := l.Release(ledger.At(time.Now()), ledger.ReleaseCommand{Actor: identity.Local(), ID: id, Force: true}); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	return c.store.Commit(ctx, store.Batch{Epoch: c.epoch, Changes: l.Changes()})
}

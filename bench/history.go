package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Rows per commit and per step of indexing. A coordinator indexes 500 rows per step, which takes
// longer in total.
const (
	historyStep  = 5000
	indexingStep = 50_000
	logEvery     = 1_000_000 // a multiple of both
)

// historySuite measures the first page of a long history on each store.
func historySuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("history")
	if err != nil {
		return err
	}
	switch {
	case r.history > 0:
		w.History = r.history
	case r.short:
		w.History = 4 * historyStep
	}
	server, database, err := r.startPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	stores := []*filledHistory{{name: "sqlite", where: filepath.Join(r.dir, "history", "bursar.db")}, {name: "postgres", where: database}}
	defer func() {
		for _, f := range stores {
			if f.store != nil {
				err = errors.Join(err, f.store.Close())
			}
		}
	}()
	filling, fillCtx := errgroup.WithContext(ctx)
	if r.history == 0 {
		filling.SetLimit(1) // their rates are compared
	}
	for _, f := range stores {
		filling.Go(func() error { return f.fill(fillCtx, w, r.log) })
	}
	if err := filling.Wait(); err != nil {
		return err //nolint:wrapcheck // says which store
	}
	for _, f := range stores {
		r.line("history/"+f.name+"-written", float64(w.History)/f.written.Seconds(), "rows/s", 0)
		r.line("history/"+f.name+"-indexed", float64(w.History)/f.indexed.Seconds(), "rows/s", 0)
		if err := r.searchHistory(ctx, w, f.name, f.store); err != nil {
			return err
		}
	}
	return nil
}

// filledHistory is a store with a history, with the times for its rows and its index.
type filledHistory struct {
	name, where      string
	store            store.Store
	written, indexed time.Duration
}

// fill writes the history, and logs its progress because that may take hours.
func (f *filledHistory) fill(ctx context.Context, w *workload, log io.Writer) (err error) {
	if f.store, err = opener.Open(ctx, f.where, opener.Options{Migrate: true}); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	meta, err := f.store.Lead(ctx, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	progress := func(did string, rows int) {
		if rows%logEvery == 0 {
			fmt.Fprintf(log, "history/%s: %d rows are %s\n", f.name, rows, did)
		}
	}
	began := time.Now()
	if err := writeHistory(ctx, w, f.store, meta.Epoch, progress); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.written = time.Since(began)
	began = time.Now()
	for n, done := indexingStep, 0; n == indexingStep; {
		if n, err = f.store.IndexHistory(ctx, meta.Epoch, ledger.At(time.Now()), indexingStep); err != nil {
			return fmt.Errorf("%s: index: %w", f.name, err)
		}
		if done += n; n > 0 {
			progress("indexed", done)
		}
	}
	f.indexed = time.Since(began)
	return nil
}

func (r *run) searchHistory(ctx context.Context, w *workload, name string, s store.Store) error {
	for _, search := range []struct {
		by    string
		query store.HistoryQuery
		none  bool
	}{
		{"time", store.HistoryQuery{}, false},
		{"host", store.HistoryQuery{HostID: hostName(7)}, false},
		{"user", store.HistoryQuery{Labels: label.Of("user", "user-7")}, false},
		{"creator", store.HistoryQuery{Labels: label.Of("creator", "creator-1")}, false},
		{"user-creator", store.HistoryQuery{Labels: label.Of("user", "user-7", "creator", "creator-1")}, false},
		{"host-user", store.HistoryQuery{HostID: hostName(7), Labels: label.Of("user", "user-7")}, false},
		{"nobody", store.HistoryQuery{Labels: label.Of("user", "nobody")}, true},
	} {
		var took []time.Duration
		for round := range r.rounds(w.Rounds) {
			began := time.Now()
			page, _, err := s.History(ctx, search.query)
			if err != nil {
				return fmt.Errorf("history by %s: %w", search.by, err)
			}
			if search.none != (len(page) == 0) {
				return fmt.Errorf("history by %s: found %d", search.by, len(page))
			}
			if round > 0 {
				took = append(took, time.Since(began))
			}
		}
		r.line("history/"+name+"-"+search.by, middle(took)/1000, "ms", 0)
	}
	return nil
}

// writeHistory commits ended allocations at intervals of a tenth of a second. The last one ended an
// hour ago.
func writeHistory(ctx context.Context, w *workload, s store.Store, epoch uint64, progress func(did string, rows int)) error {
	sets, err := w.sets()
	if err != nil {
		return err
	}
	asked := resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)}
	end := ledger.At(time.Now()).Add(-time.Hour - time.Duration(w.History)*100*time.Millisecond)
	last := ledger.ID(w.History) //nolint:gosec // not negative
	for id := ledger.ID(1); id <= last; {
		var c ledger.Changes
		for ; len(c.Transitions) < historyStep && id <= last; id++ {
			end = end.Add(100 * time.Millisecond)
			c.Transitions = append(c.Transitions, ledger.Allocation{
				ID: id, RequestID: id.String(), Caller: "gateway", RequestHash: uint64(id), State: ledger.Released,
				Labels: sets[int(id)%len(sets)], Requested: asked, Entitled: asked,
				HostID: hostName(int(id) % w.Hosts), HostAddress: "10.1.2.3:7071",
				Created: end.Add(-time.Hour), Reserved: end.Add(-time.Hour), Confirmed: end.Add(-time.Hour), Ended: end,
				ReservationTTL: 2 * time.Minute, Revision: uint64(id), GrantRevision: uint64(id),
			})
		}
		c.Revision, c.LastID, c.Time = uint64(id), id, end
		if err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: c}); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		progress("written", int(id-1))
	}
	return nil
}

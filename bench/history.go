package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// historyStep is how many rows are committed, or indexed, at a time.
const historyStep = 5000

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
	if err := r.historyOn(ctx, w, "sqlite", filepath.Join(r.dir, "history", "bursar.db")); err != nil {
		return err
	}
	return r.historyOn(ctx, w, "postgres", database)
}

// historyOn fills a store and searches it.
func (r *run) historyOn(ctx context.Context, w *workload, name, where string) (err error) {
	s, err := opener.Open(ctx, where, opener.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := writeHistory(ctx, w, s, meta.Epoch); err != nil {
		return err
	}
	r.line("history/"+name+"-written", float64(w.History)/time.Since(began).Seconds(), "rows/s", 0)
	began = time.Now()
	for n := historyStep; n == historyStep; {
		if n, err = s.IndexHistory(ctx, meta.Epoch, ledger.At(time.Now()), historyStep); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	r.line("history/"+name+"-indexed", float64(w.History)/time.Since(began).Seconds(), "rows/s", 0)
	return r.searchHistory(ctx, w, name, s)
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

// writeHistory commits allocations that have ended, a tenth of a second after each other, the last
// of them an hour ago.
func writeHistory(ctx context.Context, w *workload, s store.Store, epoch uint64) error {
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
	}
	return nil
}

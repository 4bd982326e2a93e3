package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
)

// storesSuite compares a coordinator on PostgreSQL with one on SQLite, and then the two stores
// without a coordinator.
func storesSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("stores")
	if err != nil {
		return err
	}
	server, database, err := r.startPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := r.coordinatorsOnStores(ctx, w, database); err != nil {
		return err
	}
	raw, err := server.CreateDatabase(ctx, "raw")
	if err != nil {
		return err
	}
	return r.storesAlone(ctx, w, raw)
}

// coordinatorsOnStores measures one coordinator on each store, in turns.
func (r *run) coordinatorsOnStores(ctx context.Context, w *workload, database string) (err error) {
	var callers []*caller
	for _, s := range []setup{{store: database, interval: never}, {dir: filepath.Join(r.dir, "stores"), interval: never}} {
		d, err := r.startAlone(ctx, s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.stop()) }()
		k, err := newCaller(d.address, w)
		if err != nil {
			return err
		}
		defer k.client.Close()
		if err := populate(ctx, k.client, w); err != nil {
			return err
		}
		callers = append(callers, k)
	}
	for _, clients := range w.Clients {
		a, b, err := contest{callers[0], callers[1]}.run(ctx, r.rounds(w.Rounds), clients, 0, r.period(w.Duration))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("stores/%d", clients)
		r.line(name+"-calls", median(a.rates), "calls/s", median(ratios(a.rates, b.rates)))
		r.line(name+"-p50", median(a.p50), "µs", median(ratios(a.p50, b.p50)))
		r.line(name+"-p99", median(a.p99), "µs", median(ratios(a.p99, b.p99)))
		r.line(name+"-sqlite-calls", median(b.rates), "calls/s", 0)
		r.line(name+"-sqlite-p50", median(b.p50), "µs", 0)
		r.line(name+"-sqlite-p99", median(b.p99), "µs", 0)
	}
	return errors.Join(callers[0].audit(ctx), callers[1].audit(ctx))
}

// committer commits the changes of its own ledger.
type committer struct {
	store  store.Store
	epoch  uint64
	filled *filledLedger
}

func newCommitter(ctx context.Context, w *workload, where string) (*committer, error) {
	s, err := opener.Open(ctx, where, opener.Options{Migrate: true})
	if err != nil {
		return nil, err
	}
	c := &committer{store: s}
	meta, err := s.Lead(ctx, 0)
	if err == nil {
		c.epoch = meta.Epoch
		// This test takes the changes out of the ledger.
		c.filled, err = newFilledLedger(&workload{Seed: w.Seed, Host: w.Host, Labels: w.Labels, Request: w.Request, Remembered: 1, Batch: 1 << 62}, 1)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return c, nil
}

// turn commits for a time, with a number of rows in each commit: allocations that begin, and then
// their ends. It returns the duration of each commit, without the ledger's time.
func (c *committer) turn(ctx context.Context, rows int, lasts time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	var total time.Duration
	for total < lasts || len(c.filled.live) > 0 {
		if len(c.filled.live) == 0 {
			if err := c.filled.fill(rows); err != nil {
				return nil, err
			}
		} else {
			for _, id := range c.filled.live {
				if err := c.filled.release(id); err != nil {
					return nil, err
				}
			}
			c.filled.live = c.filled.live[:0]
		}
		batch := store.Batch{Epoch: c.epoch, Changes: c.filled.ledger.Changes()}
		if len(batch.Transitions) != rows {
			return nil, fmt.Errorf("%d rows in a commit: want %d", len(batch.Transitions), rows)
		}
		began := time.Now()
		if err := c.store.Commit(ctx, batch); err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		took = append(took, time.Since(began))
		c.filled.ledger.Durable(c.filled.now, batch.Revision)
		total += took[len(took)-1]
	}
	return took, nil
}

// storesAlone measures commits of several sizes on the stores in turns, one at a time.
func (r *run) storesAlone(ctx context.Context, w *workload, database string) (err error) {
	var committers []*committer
	for _, where := range []string{database, filepath.Join(r.dir, "raw.db")} {
		c, err := newCommitter(ctx, w, where)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.store.Close()) }()
		committers = append(committers, c)
	}
	for _, rows := range w.Rows {
		var rates, p50 [2][]float64
		for round := range r.rounds(w.Rounds) {
			for i, c := range committers {
				took, err := c.turn(ctx, rows, r.period(w.Duration))
				if err != nil {
					return err
				}
				if round > 0 {
					rates[i] = append(rates[i], float64(rows*len(took))/sum(took).Seconds())
					p50[i] = append(p50[i], middle(took))
				}
			}
		}
		name := fmt.Sprintf("stores/commit-%d", rows)
		r.line(name, median(rates[0]), "rows/s", median(ratios(rates[0], rates[1])))
		r.line(name+"-p50", median(p50[0]), "µs", median(ratios(p50[0], p50[1])))
		r.line(name+"-sqlite", median(rates[1]), "rows/s", 0)
		r.line(name+"-sqlite-p50", median(p50[1]), "µs", 0)
	}
	return nil
}

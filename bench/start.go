package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// startSuite is row 6 of the budgets.
func startSuite(ctx context.Context, r *run) error {
	w, err := readWorkload("start")
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "start")
	live := r.size(w.Live)
	if err := writeStore(ctx, w, live, filepath.Join(dir, "bursar.db")); err != nil {
		return err
	}
	var took, memory []float64
	for range r.rounds(w.Rounds) {
		d, err := r.startCoordinator(ctx, dir, 5*time.Second)
		if err != nil {
			return err
		}
		bytes, err := memoryOf(d.pid())
		if err == nil {
			err = expect(ctx, d.address, live)
		}
		if err := errors.Join(err, d.stop()); err != nil {
			return err
		}
		took, memory = append(took, d.took.Seconds()), append(memory, float64(bytes)/(1<<20))
	}
	r.line("start/serving", median(took), "s", 0)
	r.line("start/rss", median(memory), "MiB", 0)
	return nil
}

// expect fails if the coordinator does not have them all.
func expect(ctx context.Context, address string, live int) error {
	c, err := client.New(address)
	if err != nil {
		return err
	}
	defer c.Close()
	status, err := c.Cluster().Status(ctx, &bursarv1.StatusRequest{})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if status.GetActive() != int64(live) {
		return fmt.Errorf("%d active allocations were loaded: want %d", status.GetActive(), live)
	}
	return nil
}

// writeStore writes what a coordinator leaves behind into a file or a database that belongs to no
// cluster yet: hosts, rules and active allocations.
func writeStore(ctx context.Context, w *workload, live int, where string) (err error) {
	s, err := opener.Open(ctx, where, opener.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		return err
	}
	b, err := newFilledLedger(&workload{
		Seed: w.Seed, Host: w.Host, Labels: w.Labels, Request: w.Request, Remembered: 1, Batch: 1 << 62,
	}, 0)
	if err != nil {
		return err
	}
	b.now = ledger.At(time.Now())
	commit := func() error {
		changes := b.ledger.Changes()
		if err := s.Commit(ctx, store.Batch{Epoch: meta.Epoch, Changes: changes}); err != nil {
			return err
		}
		b.ledger.Durable(b.now, changes.Revision)
		return nil
	}
	quotas, err := w.quotas()
	if err != nil {
		return err
	}
	if err := b.ledger.SetQuotas(b.now, ledger.SourceAPI, quotas); err != nil {
		return err
	}
	capacity, err := w.Host.vector()
	if err != nil {
		return err
	}
	for i := range w.Hosts {
		if err := addHost(b.ledger, b.now, hostName(i), capacity); err != nil {
			return err
		}
	}
	for i := range live {
		id, err := b.allocate(b.command())
		if err != nil {
			return err
		}
		if _, err := b.ledger.Confirm(b.now, ledger.ConfirmCommand{
			Actor: b.actor, ID: id, Process: ledger.Process{PID: int32(1000 + i), StartTime: uint64(i), BootID: "boot"},
		}); err != nil {
			return err
		}
		if i%1000 == 0 {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	return commit()
}
